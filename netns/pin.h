// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/exec/kernel.h"

// Named network namespaces, as ip-netns(8) has them: a file in /run/netns with
// the namespace's own nsfs file bound onto it, a pin.
//
// Anybody of root's may pin there, under any name, and an allocation may have
// that name. So what is ours is written down before it is pinned: the marker
// base/n/<name> is a link whose text is the namespace's inode number. It goes
// after the pin, so each state that a kill leaves still has it.
namespace mountd::netns {

// The device number of nsfs: there is one, for as long as the kernel runs.
Result<std::uint64_t> NsfsDevice(exec::Kernel& kernel);

struct PinPlace {
  int directory;       // /run/netns
  int markers;         // base/n
  std::uint64_t nsfs;  // NsfsDevice
  std::string name;
};

// Makes /run/netns, and a shared mount of it if it is none, so that names made
// later are seen in mount namespaces that were copied before. Idempotent.
Result<void> PrepareNetnsDirectory(exec::Kernel& kernel);

// O_PATH; must belong to root.
Result<UniqueFd> OpenNetnsDirectory(exec::Kernel& kernel);

struct Pin {
  bool exists = false;      // a file, bound onto or not
  std::uint64_t inode = 0;  // the namespace; 0 if nothing is bound onto it
  bool marked = false;      // a marker is there
  // The marker names this namespace, or there is a marker and, of an
  // interrupted plan, no namespace at the name.
  bool ours = false;
};
// FailedPrecondition if something else than a namespace is mounted there.
Result<Pin> FindPin(exec::Kernel& kernel, const PinPlace& place);

// AlreadyExists if a file or marker of the name is there. `place` must outlive
// `undo`.
Result<void> MakePin(exec::Kernel& kernel, const PinPlace& place, int netns,
                     exec::Undo* undo);

// Removes of the pin and its marker what is ours.
Result<void> RemovePin(exec::Kernel& kernel, const PinPlace& place,
                       const Pin& pin);

}  // namespace mountd::netns
