// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/plan/plugin_plans.h"
#include "propagation/ground/base.h"

namespace mountd::propagation {

// The directory base/p/<plugin>: 0700, a mount of its own in a shared peer
// group of its own, so that a mount which the plugin makes in its task's copy
// arrives here and nowhere else. Holds the sockets that the plugin's instances
// make (propagation/plugin_socket.h), staging/ and publish/ (0700).

// Makes the directory and its mount. Gives the directories made here back to
// root if the plugin changed their owners or modes. FailedPrecondition if
// another mount is on the directory.
Result<void> PreparePlugin(const Context& context, const exec::PluginPlan& plan,
                           const exec::Tell<exec::MountState>& tell);

// Unmounts the directory and removes the files that the plugin left in it,
// never across a mount. Busy, with nothing changed, while a mount lies below it
// or the plugin holds it. ResourceExhausted if too many files are left; the
// next call continues.
Result<void> RemovePlugin(const Context& context, const exec::PluginPlan& plan);

// Opens the plugin's own mount. FailedPrecondition if the mount is not there.
Result<UniqueFd> OpenPlugin(const Context& context, const Base& base,
                            const exec::WireName& plugin);

// Prepare, inspect and remove the directories of one volume
// (exec::VolumeDirPlan).
Result<void> PrepareVolumeDir(const Context& context,
                              const exec::VolumeDirPlan& plan,
                              const exec::Tell<exec::MountState>& tell);
Result<exec::MountState> InspectVolumeDir(const Context& context,
                                          const exec::VolumeDirPlan& plan);
Result<void> RemoveVolumeDir(const Context& context,
                             const exec::VolumeDirPlan& plan);

}  // namespace mountd::propagation
