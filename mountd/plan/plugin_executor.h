// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/plan/health_plans.h"
#include "mountd/plan/plugin_plans.h"
#include "mountd/plan/values.h"

namespace mountd::exec {

// The plans on CSI plugins' directories, sockets and units, and on their
// volumes' directories. Errors and threads as executor.h says.
class PluginExecutor {
 public:
  virtual ~PluginExecutor() = default;

  // Makes the plugin's directory a mount with a shared peer group of its own.
  virtual Result<MountState> PreparePlugin(const PluginPlan& plan) = 0;
  // Busy while a mount is left beneath the directory.
  virtual Result<void> RemovePlugin(const PluginPlan& plan) = 0;
  // Connects a stream socket to the instance's socket in p/<plugin>, without
  // following links. Unavailable while nobody listens; PermissionDenied if the
  // listener is in another cgroup.
  struct PluginConnection {
    UniqueFd socket;
    PluginReply peer;
  };
  virtual Result<PluginConnection> ConnectPlugin(
      const PluginSocketPlan& plan) = 0;
  // Returns only the socket's inode; 0 if there is none.
  virtual Result<PluginReply> InspectPluginSocket(
      const PluginSocketPlan& plan) = 0;
  // Removes the socket of an instance that is gone while others remain. Success
  // if there is no socket.
  virtual Result<void> RemovePluginSocket(const PluginSocketPlan& plan) = 0;
  // Starts a plugin that the executor's config declares as a unit of systemd.
  // Success if the unit exists already. NotSupported where systemd does not
  // run.
  virtual Result<void> StartPlugin(const PluginPlan& plan) = 0;
  // Stops the unit and does not wait for its end. Success if there is no unit.
  virtual Result<void> StopPlugin(const PluginPlan& plan) = 0;

  virtual Result<MountState> PrepareVolumeDir(const VolumeDirPlan& plan) = 0;
  virtual Result<MountState> InspectVolumeDir(const VolumeDirPlan& plan) = 0;
  // Removes the directory. Busy while it is a mount point or not empty; success
  // if it is gone already. With `detach` unmounts the mount at it and keeps the
  // directory's content.
  virtual Result<void> RemoveVolumeDir(const VolumeDirPlan& plan) = 0;
  virtual Result<ProbeReply> ProbeVolume(const VolumeProbePlan& plan) = 0;
};

}  // namespace mountd::exec
