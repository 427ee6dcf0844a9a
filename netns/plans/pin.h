// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/kernel/kernel.h"

// Named network namespaces as in ip-netns(8). A *pin* is a file in /run/netns
// on which the namespace's own nsfs file is bind-mounted.
//
// Any process of root's may pin a namespace there under any name, and an
// allocation may have the same name. So the executor writes a marker before it
// pins: base/n/<name> is a link with the namespace's inode number as its text.
// The executor removes the marker after the pin, so the marker is there in
// every state that a kill leaves.
namespace mountd::netns {

// Returns the device number of nsfs, which is the same while the kernel runs.
Result<std::uint64_t> NsfsDevice(exec::Kernel& kernel);

struct PinPlace {
  int directory;       // /run/netns
  int markers;         // base/n
  std::uint64_t nsfs;  // NsfsDevice
  std::string name;
};

// Makes /run/netns and, unless it is a mount, a shared mount of it, so that
// mount namespaces copied earlier see names made later. Idempotent.
Result<void> PrepareNetnsDirectory(exec::Kernel& kernel);

// Opens /run/netns as O_PATH. FailedPrecondition unless it belongs to root and
// only root may write there.
Result<UniqueFd> OpenNetnsDirectory(exec::Kernel& kernel);

struct Pin {
  bool exists = false;      // a file is there, bound onto or not
  std::uint64_t inode = 0;  // 0: no namespace is bound onto the file
  bool marked = false;      // a marker is there
  // The marker names this namespace. Also true if there is a marker and no
  // namespace at the name, as an interrupted plan leaves it.
  bool ours = false;
};
// Looks at the name. FailedPrecondition if something other than a namespace is
// mounted there.
Result<Pin> FindPin(exec::Kernel& kernel, const PinPlace& place);

// Pins the namespace. AlreadyExists if a file or marker of the name is there.
// `place` must outlive `undo`.
Result<void> MakePin(exec::Kernel& kernel, const PinPlace& place, int netns,
                     exec::Undo* undo);

// Removes those of the pin and its marker that are mountd's.
Result<void> RemovePin(exec::Kernel& kernel, const PinPlace& place,
                       const Pin& pin);

}  // namespace mountd::netns
