// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/plugin_plans.h"
#include "propagation/ground/base.h"

// The sockets base/p/<plugin>/csi.sock or csi-<instance>.sock. An instance of
// the plugin makes them; it is root in its task and may have put anything
// there.
namespace mountd::propagation {

// Connects to the socket without following links or mounts. Unavailable while
// no process listens. PermissionDenied if the listening process is not in the
// plan's cgroup, or has ended since.
Result<UniqueFd> ConnectPlugin(const Context& context,
                               const exec::PluginSocketPlan& plan,
                               exec::PluginReply* reply);

// Reports only the socket's inode; 0 if there is no socket.
Result<void> InspectPluginSocket(const Context& context,
                                 const exec::PluginSocketPlan& plan,
                                 exec::PluginReply* reply);

// Removes whatever file is there. A missing file or directory is success.
Result<void> RemovePluginSocket(const Context& context,
                                const exec::PluginSocketPlan& plan);

}  // namespace mountd::propagation
