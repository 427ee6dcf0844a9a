// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/plugins.h"

#include <algorithm>
#include <utility>

#include "csi-node/plugin_supervisor.h"
#include "mountd/base/paths.h"
#include "mountd/exec/wire.h"

namespace mountd::csi {
namespace {

constexpr int kStageUnstageVolume = 1;       // NodeServiceCapability.RPC.Type
constexpr std::size_t kMaxSocketPath = 107;  // unix(7), without the NUL

PluginRegistration RegistrationOf(const PluginRecord& record) {
  PluginRegistration registration;
  registration.host_path = PluginHostPath(record.id);
  registration.mount_dir = PluginViewPath(record, "");
  registration.endpoint =
      "unix://" + PluginViewPath(record, paths::kCsiEndpoint);
  return registration;
}

bool SameRegistration(const PluginRecord& a, const PluginRecord& b) {
  return a.type == b.type && a.uid == b.uid && a.allocation == b.allocation &&
         a.mount_dir == b.mount_dir &&
         a.stage_publish_base_dir == b.stage_publish_base_dir &&
         a.bare_directories == b.bare_directories;
}

}  // namespace

std::string_view PluginStateName(PluginState state) {
  switch (state) {
    case PluginState::kStarting:
      return "starting";
    case PluginState::kHealthy:
      return "healthy";
    case PluginState::kUnhealthy:
      return "unhealthy";
    case PluginState::kGone:
      break;
  }
  return "gone";
}

bool PluginInstance::stages() const {
  return std::find(capabilities.node_rpcs.begin(), capabilities.node_rpcs.end(),
                   kStageUnstageVolume) != capabilities.node_rpcs.end();
}

std::string PluginHostPath(const std::string& plugin) {
  return std::string(paths::kBase) + "/" + paths::kPlugins + "/" + plugin;
}

std::string PluginViewPath(const PluginRecord& record,
                           const std::string& relative) {
  const std::string root =
      record.mount_dir.empty() ? PluginHostPath(record.id) : record.mount_dir;
  return relative.empty() ? root : root + "/" + relative;
}

Plugins::Plugins(const TimeoutsConfig& timeouts, exec::Executor& executor,
                 CsiClient& client, store::StateStore& store,
                 OnChange on_change)
    : timeouts_(timeouts),
      executor_(executor),
      client_(client),
      store_(store),
      on_change_(std::move(on_change)) {}

Plugins::~Plugins() = default;

Result<void> Plugins::Recover() {
  MOUNTD_ASSIGN(const std::vector<PluginRecord> records, store_.ListPlugins());
  for (const PluginRecord& record : records) {
    Supervise(record);
  }
  return Ok();
}

void Plugins::Supervise(const PluginRecord& record) {
  const std::lock_guard lock(mutex_);
  supervisors_[record.id] = std::make_shared<PluginSupervisor>(
      record, timeouts_, executor_, client_, on_change_);
}

Result<PluginRegistration> Plugins::Register(const PluginRecord& record) {
  if (record.type != "node" && record.type != "controller" &&
      record.type != "monolith") {
    return MakeError(Code::kInvalidArgument, "register", "plugin " + record.id,
                     "type must be node, controller or monolith");
  }
  PluginRegistration registration = RegistrationOf(record);
  if (registration.endpoint.size() > kMaxSocketPath + 7) {
    return MakeError(Code::kInvalidArgument, "register", "plugin " + record.id,
                     "its socket's path would be longer than 107 bytes");
  }
  if (const std::optional<PluginStatus> known = Get(record.id)) {
    if (!SameRegistration(known->record, record)) {
      return MakeError(Code::kAlreadyExists, "register", "plugin " + record.id,
                       "is registered otherwise");
    }
    MOUNTD_TRY(executor_.PreparePlugin({exec::ToWire(record.id)}));
    return registration;
  }
  MOUNTD_TRY(store_.PutPlugin(record));
  if (Result<exec::MountState> prepared =
          executor_.PreparePlugin({exec::ToWire(record.id)});
      !prepared) {
    // What cannot be taken back stays registered, in sight of its owner.
    if (!executor_.RemovePlugin({exec::ToWire(record.id)}) ||
        !store_.RemovePlugin(record.id)) {
      Supervise(record);
    }
    return std::move(prepared).error();
  }
  Supervise(record);
  return registration;
}

Result<void> Plugins::Unregister(const std::string& id) {
  const std::shared_ptr<PluginSupervisor> supervisor = Find(id);
  if (supervisor == nullptr) {
    return Ok();
  }
  MOUNTD_TRY(store_.BeginPluginRemoval(id));
  supervisor->SetRemoving(true);
  if (Result<void> removed = executor_.RemovePlugin({exec::ToWire(id)});
      !removed) {
    supervisor->SetRemoving(false);
    MOUNTD_TRY(store_.CancelPluginRemoval(id));
    return removed;
  }
  MOUNTD_TRY(store_.RemovePlugin(id));
  {
    const std::lock_guard lock(mutex_);
    supervisors_.erase(id);
  }
  supervisor->Stop();
  PluginInstance last = supervisor->status();
  last.state = PluginState::kGone;
  last.reason = "unregistered";
  on_change_(last);
  return Ok();
}

std::shared_ptr<PluginSupervisor> Plugins::Find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = supervisors_.find(id);
  return found == supervisors_.end() ? nullptr : found->second;
}

std::optional<PluginStatus> Plugins::Get(const std::string& id) const {
  const std::shared_ptr<PluginSupervisor> supervisor = Find(id);
  if (supervisor == nullptr) {
    return std::nullopt;
  }
  PluginInstance one = supervisor->status();
  return PluginStatus{one, {one}};
}

std::vector<PluginStatus> Plugins::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<PluginStatus> all;
  for (const auto& [id, supervisor] : supervisors_) {
    PluginInstance one = supervisor->status();
    all.push_back({one, {one}});
  }
  return all;
}

Result<Plugins::Session> Plugins::Use(const std::string& id) const {
  std::optional<PluginStatus> status = Get(id);
  if (!status) {
    return MakeError(Code::kNotFound, "use", "plugin " + id,
                     "is not registered");
  }
  if (status->state != PluginState::kHealthy) {
    return MakeError(Code::kUnavailable, "use", "plugin " + id,
                     "is " + std::string(PluginStateName(status->state)) +
                         ": " + status->reason);
  }
  const ChannelRef channel{id, status->generation};
  return Session{channel, std::move(*status)};
}

void Plugins::ReconnectAll() {
  const std::lock_guard lock(mutex_);
  for (const auto& [id, supervisor] : supervisors_) {
    supervisor->Reconnect();
  }
}

}  // namespace mountd::csi
