// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>

#include "propagation/clone.h"

// Returns whether files of this type show the kernel or devices, or control the
// kernel. No source gives a task such a file system, wherever it is mounted. If
// one is mounted below a source, the executor refuses the source and does not
// leave that mount out, because the task would get another tree than its
// allocation was promised.
namespace mountd::propagation {

bool IsKernelFilesystem(std::string_view type);

// Remembers for each source up to which mount id no file system of the kernel
// is mounted below it. A check can then skip that mount and all older ones, so
// a clone costs the same however many mounts the host has. Kept from plan to
// plan.
//
// A mount below a source is newer than the source, unless somebody moved it
// there. CheckClone has seen the mounts that were there when a clone was made.
// Only CheckClone finds a mount that was moved there later; after that, the
// next check looks at all mounts again.
class CheckedSources {
 public:
  // Returns the mount id up to which a check may skip; 0: the check skips none.
  std::uint64_t UpTo(const exec::FileFacts& source) const;
  // Records that a clone was made; its CheckClone is still to come.
  void Checked(const exec::FileFacts& source, std::uint64_t clone_id);
  // Records that CheckClone was not reached or found such a file system.
  void Failed(const exec::FileFacts& source);

 private:
  using Key = std::array<std::uint64_t, 3>;  // mount id, device, inode
  std::map<Key, std::uint64_t> up_to_;
};

// FailedPrecondition if a file system of the kernel is mounted below the
// source; the error names the mount. Call this before cloning the source with
// the mounts below it.
Result<void> CheckBelow(const Context& context, const Source& source,
                        const std::string& object);

// Checks an attached clone in the same way. The kernel reports nothing about a
// clone before it is attached. The clone also has mounts that were made since
// CheckBelow. Skips a bidirectional clone: it receives later mounts in any
// case, and undoing it would unmount the source's own.
Result<void> CheckClone(const Context& context, std::uint64_t clone_id,
                        const CloneSpec& spec);

}  // namespace mountd::propagation
