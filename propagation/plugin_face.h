// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/context.h"

// Plugins see the host's mounts. If mountd's tree is in a mount namespace of
// its own, the host gets each plugin's directory at the same path: a mount in
// the same peer group, so that a mount or unmount on either side happens on
// both. Otherwise these functions do nothing.
namespace mountd::propagation {

// Makes the host's mount of the directory. `own` is the root of the plugin's
// own mount, in `peer_group`. Idempotent. `context` must outlive `undo`.
// FailedPrecondition if another mount is at the path.
Result<void> ShowOnHost(const Context& context, const std::string& name,
                        const UniqueFd& own, std::uint64_t peer_group,
                        exec::Undo* undo);

// Unmounts the host's mount of the directory. A mount that is gone already is
// success. Busy while a mount lies beneath `own`, the plugin's own mount, or
// while a process on the host uses it.
Result<void> HideFromHost(const Context& context, const MountFacts& own,
                          const std::string& name);

}  // namespace mountd::propagation
