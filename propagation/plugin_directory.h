// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/base.h"

namespace mountd::propagation {

// base/p/<plugin>: 0700, a mount of its own in a shared peer group of its own,
// so that what a plugin mounts in its task's copy arrives here and nowhere
// else. Holds the sockets that its instances make
// (propagation/plugin_socket.h), staging/ and publish/ (0700).

// Also gives back to root what the plugin did with the modes and owners of the
// directories made here.
Result<void> PreparePlugin(const Context& context, const exec::PluginPlan& plan,
                           const exec::Tell<exec::MountState>& tell);

// Unmounts the directory and removes what the plugin left in it, never across a
// mount. Busy, and as it was, while a mount is below it or the plugin holds it;
// ResourceExhausted if it left too much, which a next call goes on with.
Result<void> RemovePlugin(const Context& context, const exec::PluginPlan& plan);

// The plugin's own mount. FailedPrecondition if it is not there.
Result<UniqueFd> OpenPlugin(const Context& context, const Base& base,
                            const exec::WireName& plugin);

// The directories of one volume (exec::VolumeDirPlan).
Result<void> PrepareVolumeDir(const Context& context,
                              const exec::VolumeDirPlan& plan,
                              const exec::Tell<exec::MountState>& tell);
Result<exec::MountState> InspectVolumeDir(const Context& context,
                                          const exec::VolumeDirPlan& plan);
Result<void> RemoveVolumeDir(const Context& context,
                             const exec::VolumeDirPlan& plan);

}  // namespace mountd::propagation
