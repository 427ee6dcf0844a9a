// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

// Plugins live among the host's mounts. Where mountd's tree is in a mount
// namespace of its own, a plugin's directory is at the same path there, too: a
// mount of it in the same peer group, so that what either side mounts or
// unmounts in it is so on both. Else there is nothing to do.
namespace mountd::propagation {

// `own` is the root of the plugin's own mount, which has `peer_group`.
// Idempotent. `context` must outlive `undo`.
Result<void> ShowOnHost(const Context& context, const std::string& name,
                        const UniqueFd& own, std::uint64_t peer_group,
                        exec::Undo* undo);

// Busy while something is mounted beneath `own`, the plugin's own mount, or
// used on the host; gone already is success.
Result<void> HideFromHost(const Context& context, const MountFacts& own,
                          const std::string& name);

}  // namespace mountd::propagation
