// SPDX-License-Identifier: LGPL-2.1-or-later
//
// FakeExecutor's plans about plugins' directories.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "mountd/base/paths.h"
#include "tests/support/fakes/fake_executor.h"

namespace mountd::exec {
namespace {

std::string TextOf(const PluginSocketPlan& plan) {
  const std::string instance(plan.instance.data(), plan.instance.size());
  return instance == InstanceKey().str() ? Text(plan.plugin)
                                         : Text(plan.plugin) + "/" + instance;
}

std::string TextOf(const VolumeDirPlan& plan) {
  const std::string key(plan.volume.data(), plan.volume.size());
  return plan.area == VolumeArea::kStaging
             ? Text(plan.plugin) + "/" + paths::kStaging + "/" + key
             : Text(plan.plugin) + "/" + paths::kPublish + "/" +
                   Text(plan.allocation) + "/" + key;
}

}  // namespace

bool FakeExecutor::AnyBelowLocked(const std::string& directory) const {
  const auto below = [&](const auto& entry) {
    return entry.first.starts_with(directory + "/") &&
           entry.second.mount_id != 0;
  };
  return std::any_of(directories_.begin(), directories_.end(), below);
}

Result<MountState> FakeExecutor::PreparePlugin(const PluginPlan& plan) {
  PlanBody body;
  body.plugin = plan;
  const std::string id = Text(plan.plugin);
  return Run<Result<MountState>>(
      PlanKind::kPreparePlugin, "PreparePlugin", id, body, [&] {
        auto found = plugins_.find(id);
        if (found == plugins_.end()) {
          found = plugins_.emplace(id, NewMountLocked()).first;
          found->second.peer_group = ++last_id_;
        }
        return found->second;
      });
}

Result<void> FakeExecutor::RemovePlugin(const PluginPlan& plan) {
  PlanBody body;
  body.plugin = plan;
  const std::string id = Text(plan.plugin);
  return Run<Result<void>>(
      PlanKind::kRemovePlugin, "RemovePlugin", id, body, [&]() -> Result<void> {
        if (busy_.contains(id) || AnyBelowLocked(id)) {
          return MakeError(Code::kBusy, "umount2", id,
                           "a mount is below the plugin's directory");
        }
        std::erase_if(directories_, [&](const auto& entry) {
          return entry.first.starts_with(id + "/");
        });
        const auto of_plugin = [&](const auto& entry) {
          return entry.first == id || entry.first.starts_with(id + "/");
        };
        std::erase_if(connections_, of_plugin);
        std::erase_if(sockets_, of_plugin);
        plugins_.erase(id);
        return Ok();
      });
}

Result<PluginExecutor::PluginConnection> FakeExecutor::ConnectPlugin(
    const PluginSocketPlan& plan) {
  PlanBody body;
  body.plugin_socket = plan;
  const std::string id = Text(plan.plugin);
  const std::string socket = TextOf(plan);
  return Run<Result<PluginConnection>>(
      PlanKind::kConnectPlugin, "ConnectPlugin", socket, body,
      [&]() -> Result<PluginConnection> {
        if (!plugins_.contains(id)) {
          return MakeError(Code::kFailedPrecondition, "check", id,
                           "the plugin's directory does not exist; register "
                           "the plugin again");
        }
        if (plan.cgroup != 0 && plan.cgroup != plugin_cgroup_) {
          return MakeError(Code::kPermissionDenied, "connect", id,
                           "who listens on its socket is in another cgroup");
        }
        std::array<int, 2> pair{-1, -1};
        if (deaf_.contains(socket) ||
            socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) !=
                0) {
          return MakeError(
              Code::kUnavailable, "connect", id,
              "no process listens on its socket; start the plugin");
        }
        connections_[socket].emplace_back(pair[1]);
        if (!sockets_.contains(socket)) {
          sockets_[socket] = ++last_id_;
        }
        PluginConnection connection;
        connection.socket = UniqueFd(pair[0]);
        connection.peer.socket_inode = sockets_[socket];
        connection.peer.peer_pid = static_cast<std::uint32_t>(getpid());
        connection.peer.peer_uid = getuid();
        return connection;
      });
}

// No script records this call, because it comes with time and not with the
// test's actions.
Result<PluginReply> FakeExecutor::InspectPluginSocket(
    const PluginSocketPlan& plan) {
  const std::lock_guard lock(mutex_);
  PluginReply reply;
  const auto found = sockets_.find(TextOf(plan));
  reply.socket_inode = found == sockets_.end() ? 0 : found->second;
  return reply;
}

Result<void> FakeExecutor::RemovePluginSocket(const PluginSocketPlan& plan) {
  PlanBody body;
  body.plugin_socket = plan;
  const std::string socket = TextOf(plan);
  return Run<Result<void>>(PlanKind::kRemovePluginSocket, "RemovePluginSocket",
                           socket, body, [&]() -> Result<void> {
                             sockets_.erase(socket);
                             return Ok();
                           });
}

Result<void> FakeExecutor::StartPlugin(const PluginPlan& plan) {
  PlanBody body;
  body.plugin = plan;
  return Run<Result<void>>(PlanKind::kStartPlugin, "StartPlugin",
                           Text(plan.plugin), body,
                           []() -> Result<void> { return Ok(); });
}

Result<void> FakeExecutor::StopPlugin(const PluginPlan& plan) {
  PlanBody body;
  body.plugin = plan;
  return Run<Result<void>>(PlanKind::kStopPlugin, "StopPlugin",
                           Text(plan.plugin), body,
                           []() -> Result<void> { return Ok(); });
}

void FakeExecutor::ReplaceSocket(const std::string& socket) {
  const std::lock_guard lock(mutex_);
  sockets_[socket] = ++last_id_;
}

void FakeExecutor::SetPluginCgroup(std::uint64_t cgroup) {
  const std::lock_guard lock(mutex_);
  plugin_cgroup_ = cgroup;
}

Result<MountState> FakeExecutor::PrepareVolumeDir(const VolumeDirPlan& plan) {
  PlanBody body;
  body.volume_dir = plan;
  const std::string directory = TextOf(plan);
  return Run<Result<MountState>>(
      PlanKind::kPrepareVolumeDir, "PrepareVolumeDir", directory, body,
      [&]() -> Result<MountState> {
        if (!plugins_.contains(Text(plan.plugin))) {
          return MakeError(Code::kFailedPrecondition, "check",
                           Text(plan.plugin),
                           "the plugin's directory does not exist; register "
                           "the plugin again");
        }
        MountState bare;
        bare.exists = 1;
        bare.is_directory = 1;
        // The plugin makes the last part of a publish directory.
        if (plan.area == VolumeArea::kStaging) {
          directories_.emplace(directory, bare);
        }
        const auto found = directories_.find(directory);
        return found == directories_.end() ? MountState{} : found->second;
      });
}

Result<MountState> FakeExecutor::InspectVolumeDir(const VolumeDirPlan& plan) {
  PlanBody body;
  body.volume_dir = plan;
  const std::string directory = TextOf(plan);
  return Run<Result<MountState>>(
      PlanKind::kInspectVolumeDir, "InspectVolumeDir", directory, body, [&] {
        const auto found = directories_.find(directory);
        return found == directories_.end() ? MountState{} : found->second;
      });
}

Result<void> FakeExecutor::RemoveVolumeDir(const VolumeDirPlan& plan) {
  PlanBody body;
  body.volume_dir = plan;
  const std::string directory = TextOf(plan);
  return Run<Result<void>>(
      PlanKind::kRemoveVolumeDir, "RemoveVolumeDir", directory, body,
      [&]() -> Result<void> {
        const auto found = directories_.find(directory);
        if (found == directories_.end()) {
          return Ok();
        }
        if ((found->second.mount_id != 0 && plan.detach == 0) ||
            busy_.contains(directory)) {
          return ErrnoError(EBUSY, "unlinkat", directory);
        }
        directories_.erase(found);
        return Ok();
      });
}

Result<ProbeReply> FakeExecutor::ProbeVolume(const VolumeProbePlan& plan) {
  PlanBody body;
  body.volume_probe = plan;
  const std::string directory = TextOf(plan.directory);
  return Run<Result<ProbeReply>>(
      PlanKind::kProbeVolume, "ProbeVolume", directory, body,
      [&]() -> Result<ProbeReply> {
        const auto found = directories_.find(directory);
        if (found == directories_.end() ||
            found->second.mount_id != plan.mount_id) {
          return MakeError(Code::kNotFound, "probe", directory);
        }
        ProbeReply reply;
        const auto health = health_.find(directory);
        reply.health =
            health == health_.end() ? MountHealth::kHealthy : health->second;
        return reply;
      });
}

}  // namespace mountd::exec
