// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/clone.h"

namespace mountd::propagation {

// Returns a clone of the plan's source that is attached nowhere: the one mount,
// without mounts below it, nosuid and nodev, private or a slave of the source.
// The clone goes with its last fd, and mountd keeps nothing else for it. Its
// flags are locked (lock_tree.h). FailedPrecondition if
//   - the source is read-only
//   - the clone would be a slave of an anchor (anchor.h), because mountd keeps
//     no record of the clone and removes an anchor that no recorded mount
//     needs.
Result<UniqueFd> OpenTree(const Context& context,
                          const exec::OpenTreePlan& plan,
                          exec::HandedOutMount* mount);

// Returns the identity by which FindHolders finds the tree's top mount once the
// tree is handed out. `device` is the device of its file system. Empty where
// the kernel has no unique mount ids.
Result<exec::HandedOutMount> IdentityOf(const Context& context,
                                        const UniqueFd& tree,
                                        std::uint64_t device);

}  // namespace mountd::propagation
