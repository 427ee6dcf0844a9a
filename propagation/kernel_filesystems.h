// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "propagation/clone.h"

// File systems that show the kernel or devices, or through which the kernel is
// told what to do: no task gets one by way of a source, wherever it is mounted.
// Below a source they are refused and not left out: a task would get a tree
// that is not the one that its allocation was promised.
namespace mountd::propagation {

bool IsKernelFilesystem(std::string_view type);

// Up to which mount there is none of these below a source: that mount and older
// ones need not be looked at for a clone, so that it costs the same however
// many mounts the host has. What is mounted below a mount is newer than it,
// unless it was moved there; and what was there when a clone was made
// CheckClone has seen. What is moved there afterwards is found by that alone,
// and then all are looked at. Kept from plan to plan.
class CheckedSources {
 public:
  // 0: all are to be looked at.
  std::uint64_t UpTo(const exec::FileFacts& source) const;
  // A clone was made, whose CheckClone is still to come.
  void Checked(const exec::FileFacts& source, std::uint64_t clone_id);
  // It did not come to that, or found one.
  void Failed(const exec::FileFacts& source);

 private:
  using Key = std::array<std::uint64_t, 3>;  // mount id, device, inode
  std::map<Key, std::uint64_t> up_to_;
};

// FailedPrecondition, which names the mount, if such a file system is mounted
// below the source. To be asked before a clone with all that is below.
Result<void> CheckBelow(const Context& context, const Source& source,
                        const std::string& object);

// The same of such a clone once it is attached: before that the kernel tells
// nothing of it. It has what was mounted since CheckBelow, too. Not of a
// bidirectional one, which gets what is mounted later in any case: to undo it
// would unmount the source's own.
Result<void> CheckClone(const Context& context, std::uint64_t clone_id,
                        const CloneSpec& spec);

}  // namespace mountd::propagation
