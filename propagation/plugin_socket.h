// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

// base/p/<plugin>/csi.sock, or csi-<instance>.sock: made by an instance of the
// plugin, which is root in its task and may have put anything there.
namespace mountd::propagation {

// A connection to it, opened without following links or mounts. Unavailable
// while nobody listens; PermissionDenied if who does is not in the plan's
// cgroup, or has ended since.
Result<UniqueFd> ConnectPlugin(const Context& context,
                               const exec::PluginSocketPlan& plan,
                               exec::PluginReply* reply);

// Only whether there is one, and which: its inode, else 0.
Result<void> InspectPluginSocket(const Context& context,
                                 const exec::PluginSocketPlan& plan,
                                 exec::PluginReply* reply);

// Whatever file is there. None is success, and so is no directory.
Result<void> RemovePluginSocket(const Context& context,
                                const exec::PluginSocketPlan& plan);

}  // namespace mountd::propagation
