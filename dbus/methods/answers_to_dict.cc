// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/methods/answers_to_dict.h"

#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include <array>
#include <utility>

#include "csi-node/node/volume_capability.h"
#include "dbus/methods/dict_to_network_request.h"
#include "dbus/methods/event.h"
#include "dbus/methods/plugin_object.h"
#include "mountd/plan/attributes.h"

namespace mountd::dbus {
namespace {

constexpr std::size_t kMaxContextBytes = 4096;  // CSI spec, "Size Limits"

std::string MountStateName(MountRecordState state) {
  switch (state) {
    case MountRecordState::kAttaching:
      return "attaching";
    case MountRecordState::kAttached:
      return "attached";
    case MountRecordState::kDetaching:
      return "detaching";
    case MountRecordState::kReplacing:
      return "replacing";
    case MountRecordState::kFound:
      return "found";
    case MountRecordState::kLost:
      break;
  }
  return "lost";
}

}  // namespace

Result<void> ReadUsage(const Dict& usage, csi::PublishSpec& spec) {
  OptionReader reader("usage", usage);
  spec.read_only = reader.Get("read_only", false);
  const auto mode =
      reader.Get<std::string>("access_mode", "single-node-writer");
  const auto attachment =
      reader.Get<std::string>("attachment_mode", "file-system");
  spec.capability.fs_type = reader.Get<std::string>("fs_type", "");
  spec.capability.mount_flags =
      reader.Get<std::vector<std::string>>("mount_flags", {});
  spec.capability.volume_mount_group =
      reader.Get<std::string>("volume_mount_group", "");
  const std::optional<csi::AccessMode> known = csi::ParseAccessMode(mode);
  if (known) {
    spec.capability.access_mode = *known;
  } else {
    reader.Refuse("access_mode",
                  "must be a CSI access mode, such as single-node-writer");
  }
  spec.capability.block = attachment == "block-device";
  if (!spec.capability.block && attachment != "file-system") {
    reader.Refuse("attachment_mode", "must be file-system or block-device");
  }
  if (spec.capability.volume_mount_group.size() > kMaxNameBytes) {
    reader.Refuse("volume_mount_group", "must be at most 128 bytes");
  }
  if (spec.capability.fs_type.size() > kMaxNameBytes) {
    reader.Refuse("fs_type", "must be at most 128 bytes");
  }
  std::size_t flag_bytes = 0;
  for (const std::string& flag : spec.capability.mount_flags) {
    flag_bytes += flag.size();
  }
  if (flag_bytes > kMaxContextBytes) {
    reader.Refuse("mount_flags", "must be at most 4 KiB together");
  }
  return reader.Finish();
}

Result<void> CheckContext(const std::string& what, const StringMap& map) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : map) {
    bytes += key.size() + value.size();
    if (key.size() > kMaxNameBytes) {
      return MakeError(Code::kInvalidArgument, "check", what,
                       "must have keys of at most 128 bytes");
    }
  }
  if (bytes > kMaxContextBytes) {
    return MakeError(Code::kInvalidArgument, "check", what,
                     "must be at most 4 KiB");
  }
  return Ok();
}

Dict ToDict(const csi::PublishedVolume& volume) {
  const auto device = static_cast<dev_t>(volume.record.device);
  Dict dict = {{"host_path", Value(ToBytes(volume.host_path))},
               {"read_only", Value(volume.read_only)},
               {"is_device", Value(device != 0)}};
  if (device != 0) {
    dict.insert({{"device_major", Value(std::uint32_t{major(device)})},
                 {"device_minor", Value(std::uint32_t{minor(device)})},
                 {"device_rule", Value(csi::DeviceRuleOf(volume))}});
  }
  return dict;
}

Dict ToDict(const csi::VolumeStats& stats) {
  using Usage =
      sdbus::Struct<std::string, std::int64_t, std::int64_t, std::int64_t>;
  std::vector<Usage> usage;
  for (const csi::VolumeStats::Usage& one : stats.usage) {
    usage.emplace_back(one.inodes ? "inodes" : "bytes", one.total, one.used,
                       one.available);
  }
  Dict dict = {{"usage", Value(usage)}};
  if (stats.condition) {
    dict.insert({{"abnormal", Value(stats.condition->abnormal)},
                 {"condition", Value(stats.condition->message)}});
  }
  return dict;
}

Dict ToDict(const MountConfig& config) {
  const MountRecord& record = config.record;
  return {
      {"host_path", Value(ToBytes(config.host_path))},
      {"task_path", Value(record.wish.task_path)},
      {"read_only", Value((record.wish.attributes & exec::kReadOnly) != 0)},
      {"propagation",
       Value(std::string(PropagationName(record.wish.propagation)))},
      {"required_rootfs_propagation",
       Value(std::string(RequiredRootfsPropagation(record.wish.propagation)))},
      {"mount_id", Value(record.mount_id)},
      {"peer_group", Value(record.peer_group)},
      {"master", Value(record.master)},
  };
}

Dict ToDict(const Mounts::Replaced& replaced) {
  Dict result = ToDict(replaced.config);
  result.emplace("replaced_mount_id", Value(replaced.old_mount_id));
  if (replaced.old_holders) {
    result.emplace("old_holders", Value(ToDict(*replaced.old_holders)));
  }
  return result;
}

Dict ToDict(const ReceiptRecord& receipt) {
  std::vector<sdbus::Struct<std::string, std::string, bool>> volumes;
  std::vector<sdbus::Struct<std::string, std::string>> owed;
  for (const ReceiptRecord::Volume& volume : receipt.volumes) {
    volumes.emplace_back(volume.plugin, volume.volume_id, volume.unstaged);
    if (volume.owed) {
      owed.emplace_back(volume.plugin, volume.volume_id);
    }
  }
  // A receipt exists only when everything but these volumes is undone. Tasks
  // may still use mounts that were detached.
  Dict dict = {{"allocation", Value(receipt.allocation)},
               {"released_at", Value(receipt.released_at_us)},
               {"node_detached", Value(owed.empty() && !receipt.has_users)},
               {"volumes", Value(volumes)},
               {"owed", Value(owed)},
               {"serial", Value(receipt.serial)}};
  if (!receipt.traceparent.empty()) {
    dict.emplace("traceparent", Value(receipt.traceparent));
  }
  if (!receipt.request_id.empty()) {
    dict.emplace("request_id", Value(receipt.request_id));
  }
  return dict;
}

Dict ToDict(const AllocationStatus& status) {
  std::vector<Dict> networks;
  for (const NetworkStatus& network : status.networks) {
    networks.push_back(ToDict(network));
  }
  std::vector<Dict> volumes;
  for (const AllocationStatus::Volume& volume : status.volumes) {
    volumes.push_back(
        {{"alias", Value(volume.record.alias)},
         {"plugin", Value(volume.plugin)},
         {"volume", Value(volume.volume_id)},
         {"state",
          Value(std::string(csi::PublicationStateName(volume.record.state)))},
         {"read_only", Value(volume.record.read_only)},
         {"host_path", Value(ToBytes(volume.host_path))}});
  }
  std::vector<Dict> mounts;
  for (const MountConfig& config : status.mounts) {
    Dict mount = ToDict(config);
    mount.emplace("task", Value(config.record.task));
    mount.emplace("name", Value(config.record.name));
    mount.emplace(
        "source_type",
        Value(std::string(SourceKindName(config.record.wish.source_kind))));
    mount.emplace("source", Value(config.record.wish.source));
    mount.emplace("state", Value(MountStateName(config.record.state)));
    mount.emplace("health", Value(std::string(MountHealthName(config.health))));
    mounts.push_back(std::move(mount));
  }
  return {
      {"id", Value(status.record.id)},
      {"uid", Value(status.record.uid)},
      {"scope", Value(status.record.scope)},
      {"state", Value(AllocationStateName(status.record.state))},
      {"host_path", Value(ToBytes(status.host_path))},
      {"networks", Value(networks)},
      {"volumes", Value(volumes)},
      {"mounts", Value(mounts)},
      {"inboxes", Value(status.inboxes)},
      {"group", Value(status.record.group)},
  };
}

Dict ToDict(const VolumeStatus& status) {
  std::vector<sdbus::Struct<std::string, std::string>> users;
  for (const PublicationRecord& user : status.users) {
    users.emplace_back(user.allocation, user.alias);
  }
  Dict result = {
      {"plugin", Value(status.record.plugin)},
      {"volume", Value(status.record.volume_id)},
      {"state", Value(std::string(csi::VolumeStateName(status.record.state)))},
      {"attachment_mode",
       Value(
           std::string(status.record.block ? "block-device" : "file-system"))},
      {"access_mode",
       Value(std::string(csi::AccessModeName(
           static_cast<csi::AccessMode>(status.record.access_mode))))},
      {"fs_type", Value(status.record.fs_type)},
      {"needs_secrets", Value((status.record.needs & kNeedsSecrets) != 0)},
      {"users", Value(users)}};
  if (status.condition) {
    result.insert({{"abnormal", Value(status.condition->abnormal)},
                   {"condition", Value(status.condition->message)}});
  }
  return result;
}

Dict ToDict(const csi::PluginRegistration& registration) {
  using Mount =
      sdbus::Struct<std::vector<std::uint8_t>, std::string, bool, std::string>;
  std::vector<Mount> mounts;
  for (const auto& mount : registration.mounts) {
    mounts.emplace_back(ToBytes(mount.host_path), mount.task_path,
                        mount.read_only, mount.propagation);
  }
  return {{"host_path", Value(ToBytes(registration.host_path))},
          {"endpoint", Value(registration.endpoint)},
          {"mounts", Value(mounts)}};
}

Dict ToDict(const csi::PluginInstance& instance) {
  const auto numbers = [](const std::vector<int>& values) {
    return std::vector<std::int32_t>(values.begin(), values.end());
  };
  const PluginRecord& record = instance.record;
  return {
      {"id", Value(record.id)},
      {"type", Value(record.type)},
      {"uid", Value(record.uid)},
      {"allocation", Value(record.allocation)},
      {"mount_dir", Value(record.mount_dir)},
      {"stage_publish_base_dir", Value(record.stage_publish_base_dir)},
      {"bare_directories", Value(record.bare_directories)},
      {"state", Value(std::string(csi::PluginStateName(instance.state)))},
      {"reason", Value(instance.reason)},
      {"update_time", Value(instance.updated_us)},
      {"provider", Value(instance.info.name)},
      {"vendor_version", Value(instance.info.vendor_version)},
      {"node_id", Value(instance.node.node_id)},
      {"max_volumes", Value(instance.node.max_volumes)},
      {"topology", Value(instance.node.topology)},
      {"node_capabilities", Value(numbers(instance.capabilities.node_rpcs))},
      {"controller_capabilities",
       Value(numbers(instance.capabilities.controller_rpcs))},
      {"plugin_capabilities", Value(numbers(instance.capabilities.services))},
      {"generation", Value(instance.generation)},
  };
}

Dict ToDict(const csi::PluginStatus& status) {
  std::vector<Dict> instances;
  for (const csi::PluginInstance& one : status.instances) {
    Dict& dict = instances.emplace_back(ToDict(one));
    dict.emplace("object", Value(sdbus::ObjectPath(PluginObjectPath(one))));
  }
  Dict dict = ToDict(static_cast<const csi::PluginInstance&>(status));
  dict.emplace("instances", Value(instances));
  return dict;
}

Dict ToDict(const HolderReport& report) {
  std::vector<Dict> holders;
  for (const HolderInfo& holder : report.holders) {
    Dict dict = {{"pid", Value(holder.pid)}};
    if (holder.details) {
      dict.emplace("uid", Value(holder.details->uid));
      dict.emplace("command", Value(holder.details->command));
      dict.emplace("how", Value(holder.details->how));
      dict.emplace("in_cgroup", Value(holder.details->in_cgroup));
      dict.emplace("copy", Value(holder.details->copy));
    }
    holders.push_back(std::move(dict));
  }
  return {{"holders", Value(holders)},
          {"more", Value(report.more)},
          {"complete", Value(report.complete)}};
}

namespace {

std::string HandedOutKindText(HandedOutKind kind) {
  switch (kind) {
    case HandedOutKind::kInbox:
      return "inbox";
    case HandedOutKind::kNamespace:
      return "namespace";
    case HandedOutKind::kDetached:
      break;
  }
  return "detached";
}

}  // namespace

Dict ToDict(const HandedOutReport& report) {
  std::vector<Dict> descriptors;
  for (const HandedOutReport::Descriptor& one : report.descriptors) {
    Dict dict = ToDict(one.holders);
    dict.emplace("kind", Value(HandedOutKindText(one.record.kind)));
    if (one.record.kind == HandedOutKind::kInbox) {
      dict.emplace("task", Value(one.record.name));
    }
    if (one.record.kind == HandedOutKind::kDetached) {
      dict.emplace("source", Value(one.record.name));
      dict.emplace("source_type",
                   Value(std::string(SourceKindName(one.record.source_kind))));
    }
    dict.emplace("mount_id", Value(one.record.mount.mount_id));
    descriptors.push_back(std::move(dict));
  }
  return {{"descriptors", Value(descriptors)},
          {"complete", Value(report.complete)}};
}

Dict ToDict(const ReconcileEntry& entry) {
  Dict dict = {
      {"allocation", Value(entry.allocation)},
      {"outcome", Value(std::string(ReconcileOutcomeName(entry.outcome)))},
      {"reason", Value(entry.reason)}};
  if (entry.outcome == ReconcileOutcome::kPresent) {
    dict.emplace("needs", Value(entry.needs));
  }
  if (entry.holders) {
    dict.emplace("holders", Value(ToDict(*entry.holders)));
  }
  return dict;
}

Dict ToDict(const TaskReport& report) {
  std::vector<Dict> mounts;
  for (const TaskMountVerdict& mount : report.mounts) {
    Dict& dict =
        mounts.emplace_back(Dict{{"name", Value(mount.name)},
                                 {"verdict", Value(mount.verdict)},
                                 {"reason", Value(mount.reason)},
                                 {"peer_group", Value(mount.peer_group)},
                                 {"master", Value(mount.master)}});
    for (const exec::AttributeRow& row : exec::kAttributes) {
      if (row.confines) {
        dict.emplace(row.key, Value((mount.attributes & row.flag) != 0));
      }
    }
  }
  return {{"ok", Value(report.ok())},
          {"mounts", Value(mounts)},
          {"mount_namespace", Value(report.mount_namespace)},
          {"own_user_namespace", Value(report.has_own_user_namespace)}};
}

AddressesMap ToAddresses(const std::map<std::string, Networks::Usage>& usage) {
  AddressesMap addresses;
  for (const auto& [name, one] : usage) {
    addresses.emplace(name, sdbus::Struct(one.capacity, one.free));
  }
  return addresses;
}

Dict WithNamespace(const std::string& path, Dict dict) {
  if (!path.empty()) {
    dict.emplace("mount_namespace", Value(ToBytes(path)));
  }
  return dict;
}

namespace {

template <typename Entries>
Dict DictOf(const Entries& entries);

template <typename T>
Value ValueOf(const T& plain) {
  return Value(plain);
}
Value ValueOf(const std::vector<EventRow>& rows) {
  std::vector<Dict> dicts;
  dicts.reserve(rows.size());
  for (const EventRow& row : rows) {
    dicts.push_back(DictOf(row));
  }
  return Value(dicts);
}

template <typename Entries>
Dict DictOf(const Entries& entries) {
  Dict dict;
  for (const auto& [key, value] : entries) {
    dict.emplace(
        key, std::visit([](const auto& one) { return ValueOf(one); }, value));
  }
  return dict;
}

}  // namespace

Dict ToDict(const OperationStatus& status) {
  return DictOf(ToEventDict(status));
}

Dict ToDict(const Capabilities& capabilities) {
  utsname kernel{};
  uname(&kernel);
  std::vector<sdbus::Struct<std::uint16_t, std::uint16_t, std::uint32_t>>
      host_ports;
  for (const Capabilities::HostPorts& ports : capabilities.host_ports) {
    host_ports.emplace_back(ports.range.first, ports.range.last, ports.free);
  }
  Dict dict = {
      {"version", Value(std::string(MOUNTD_VERSION))},
      {"kernel", Value(std::string(kernel.release))},
      {"network_modes", Value(capabilities.network_modes)},
      {"propagation", Value(std::vector<std::string>{"private", "host-to-task",
                                                     "bidirectional"})},
      {"source_types",
       Value(std::vector<std::string>{"volume", "host", "tmpfs", "filesystem",
                                      "directory"})},
      {"features", Value(capabilities.features)},
      {"missing", Value(capabilities.missing)},
      {"addresses", Value(ToAddresses(capabilities.networks))},
      {"host_ports", Value(host_ports)},
      {"cni_plugins", Value(capabilities.cni_plugins)},
      {"executor_capabilities", Value(capabilities.executor_capabilities)},
      {"stuck_executors", Value(capabilities.stuck_executors)},
      {"stores_set_aside", Value(capabilities.stores_set_aside)},
      {"mount_reserve", Value(capabilities.mount_reserve)},
      {"owed_warning_ms",
       Value(static_cast<std::uint32_t>(capabilities.owed_warning.count()))},
      {"administrator", Value(capabilities.administrator)},
      {"rules", Value(capabilities.rules)},
  };
  return WithNamespace(capabilities.mount_namespace, std::move(dict));
}

std::string AllocationStateName(AllocationState state) {
  return state == AllocationState::kPrepared ? "prepared" : "releasing";
}

}  // namespace mountd::dbus
