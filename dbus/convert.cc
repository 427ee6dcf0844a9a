// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/convert.h"

#include <sys/mount.h>
#include <sys/sysmacros.h>
#include <sys/utsname.h>

#include <array>
#include <utility>

#include "csi-node/volume_capability.h"
#include "dbus/plugin_object.h"

namespace mountd::dbus {
namespace {

constexpr std::size_t kMaxContextBytes = 4096;  // CSI spec, "Size Limits"

std::string ProtocolsName(std::uint8_t protocols) {
  if (protocols == (exec::kTcp | exec::kUdp)) {
    return "tcp+udp";
  }
  return protocols == exec::kUdp ? "udp" : "tcp";
}

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
    case MountRecordState::kLost:
      break;
  }
  return "lost";
}

std::string AddressText(const netns::Ipv4& address) {
  return netns::IsNone(address) ? std::string() : netns::ToString(address);
}

std::string AddressText(const netns::Ipv6& address) {
  return netns::IsNone(address) ? std::string() : netns::ToString(address);
}

template <typename T>
Value V(T value) {
  return Value(std::move(value));
}

}  // namespace

Result<std::vector<PortMapping>> PortsFrom(
    const std::vector<PortStruct>& ports) {
  std::vector<PortMapping> mappings;
  for (const PortStruct& port : ports) {
    PortMapping mapping{port.get<0>(), port.get<1>(), port.get<2>(), 0};
    if (!mapping.label.empty() && !IsValidName(mapping.label)) {
      return MakeError(Code::kInvalidArgument, "check", "port label",
                       "must be a name");
    }
    const std::string& protocols = port.get<3>();
    if (protocols == "tcp") {
      mapping.protocols = exec::kTcp;
    } else if (protocols == "udp") {
      mapping.protocols = exec::kUdp;
    } else if (protocols == "tcp+udp") {
      mapping.protocols = exec::kTcp | exec::kUdp;
    } else {
      return MakeError(Code::kInvalidArgument, "check",
                       "host port " + std::to_string(mapping.host_port),
                       "protocols must be tcp, udp or tcp+udp");
    }
    mappings.push_back(std::move(mapping));
  }
  return mappings;
}

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
    reader.Refuse("access_mode", "is not a CSI access mode");
  }
  spec.capability.block = attachment == "block-device";
  if (!spec.capability.block && attachment != "file-system") {
    reader.Refuse("attachment_mode", "must be file-system or block-device");
  }
  if (spec.capability.volume_mount_group.size() > kMaxNameBytes) {
    reader.Refuse("volume_mount_group", "is longer than 128 bytes");
  }
  if (spec.capability.fs_type.size() > kMaxNameBytes) {
    reader.Refuse("fs_type", "is longer than 128 bytes");
  }
  std::size_t flag_bytes = 0;
  for (const std::string& flag : spec.capability.mount_flags) {
    flag_bytes += flag.size();
  }
  if (flag_bytes > kMaxContextBytes) {
    reader.Refuse("mount_flags", "are larger than 4 KiB");
  }
  return reader.Finish();
}

Result<void> CheckContext(const std::string& what, const StringMap& map) {
  std::size_t bytes = 0;
  for (const auto& [key, value] : map) {
    bytes += key.size() + value.size();
    if (key.size() > kMaxNameBytes) {
      return MakeError(Code::kInvalidArgument, "check", what,
                       "has a key longer than 128 bytes");
    }
  }
  if (bytes > kMaxContextBytes) {
    return MakeError(Code::kInvalidArgument, "check", what,
                     "is larger than 4 KiB");
  }
  return Ok();
}

Dict ToDict(const NetworkStatus& status) {
  std::vector<PortStruct> ports;
  for (const PortMapping& port : status.ports) {
    ports.emplace_back(port.label, port.host_port, port.container_port,
                       ProtocolsName(port.protocols));
  }
  const bool has_ipv6 = !netns::IsNone(status.ipv6);
  return {
      {"netns_path", V(ToBytes(status.netns_path))},
      {"netns_inode", V(status.netns_inode)},
      {"interface", V(status.interface)},
      {"host_interface", V(status.host_interface)},
      {"address", V(AddressText(status.ipv4))},
      {"address6", V(AddressText(status.ipv6))},
      {"gateway", V(netns::ToString(netns::kGateway4))},
      {"gateway6",
       V(has_ipv6 ? netns::ToString(netns::kGateway6) : std::string())},
      {"ports", V(ports)},
  };
}

Dict ToDict(const csi::PublishedVolume& volume) {
  const auto device = static_cast<dev_t>(volume.record.device);
  Dict dict = {{"host_path", V(ToBytes(volume.host_path))},
               {"read_only", V(volume.read_only)},
               {"is_device", V(device != 0)}};
  if (device != 0) {
    dict.insert({{"device_major", V(std::uint32_t{major(device)})},
                 {"device_minor", V(std::uint32_t{minor(device)})},
                 {"device_rule", V(csi::DeviceRuleOf(volume))}});
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
  Dict dict = {{"usage", V(usage)}};
  if (stats.condition) {
    dict.insert({{"abnormal", V(stats.condition->abnormal)},
                 {"condition", V(stats.condition->message)}});
  }
  return dict;
}

Dict ToDict(const MountConfig& config) {
  const MountRecord& record = config.record;
  return {
      {"host_path", V(ToBytes(config.host_path))},
      {"task_path", V(record.task_path)},
      {"read_only", V((record.attributes & exec::kReadOnly) != 0)},
      {"propagation", V(std::string(PropagationName(record.propagation)))},
      {"required_rootfs_propagation",
       V(std::string(RequiredRootfsPropagation(record.propagation)))},
      {"mount_id", V(record.mount_id)},
      {"peer_group", V(record.peer_group)},
      {"master", V(record.master)},
  };
}

Dict ToDict(const Mounts::Replaced& replaced) {
  Dict result = ToDict(replaced.config);
  result.emplace("replaced_mount_id", V(replaced.old_mount_id));
  if (replaced.old_holders) {
    result.emplace("old_holders", V(ToDict(*replaced.old_holders)));
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
  // Everything else of the allocation is undone, or there were no receipt.
  return {{"allocation", V(receipt.allocation)},
          {"released_at", V(receipt.released_at_us)},
          {"node_detached", V(owed.empty())},
          {"volumes", V(volumes)},
          {"owed", V(owed)},
          {"serial", V(receipt.serial)}};
}

Dict ToDict(const AllocationStatus& status) {
  std::vector<Dict> volumes;
  for (const AllocationStatus::Volume& volume : status.volumes) {
    volumes.push_back(
        {{"alias", V(volume.record.alias)},
         {"plugin", V(volume.plugin)},
         {"volume", V(volume.volume_id)},
         {"state",
          V(std::string(csi::PublicationStateName(volume.record.state)))},
         {"read_only", V(volume.record.read_only)},
         {"host_path", V(ToBytes(volume.host_path))}});
  }
  std::vector<Dict> mounts;
  for (const MountConfig& config : status.mounts) {
    Dict mount = ToDict(config);
    mount.emplace("task", V(config.record.task));
    mount.emplace("name", V(config.record.name));
    mount.emplace("source_type",
                  V(std::string(SourceKindName(config.record.source_kind))));
    mount.emplace("source", V(config.record.source));
    mount.emplace("state", V(MountStateName(config.record.state)));
    mount.emplace("health", V(std::string(MountHealthName(config.health))));
    mounts.push_back(std::move(mount));
  }
  return {
      {"id", V(status.record.id)},
      {"uid", V(status.record.uid)},
      {"scope", V(status.record.scope)},
      {"state", V(AllocationStateName(status.record.state))},
      {"host_path", V(ToBytes(status.host_path))},
      {"network", V(status.network ? ToDict(*status.network) : Dict())},
      {"volumes", V(volumes)},
      {"mounts", V(mounts)},
      {"inboxes", V(status.inboxes)},
  };
}

Dict ToDict(const VolumeStatus& status) {
  std::vector<sdbus::Struct<std::string, std::string>> users;
  for (const PublicationRecord& user : status.users) {
    users.emplace_back(user.allocation, user.alias);
  }
  return {
      {"plugin", V(status.record.plugin)},
      {"volume", V(status.record.volume_id)},
      {"state", V(std::string(csi::VolumeStateName(status.record.state)))},
      {"attachment_mode",
       V(std::string(status.record.block ? "block-device" : "file-system"))},
      {"access_mode",
       V(std::string(csi::AccessModeName(
           static_cast<csi::AccessMode>(status.record.access_mode))))},
      {"fs_type", V(status.record.fs_type)},
      {"needs_secrets", V((status.record.needs & kNeedsSecrets) != 0)},
      {"users", V(users)}};
}

Dict ToDict(const csi::PluginRegistration& registration) {
  using Mount =
      sdbus::Struct<std::vector<std::uint8_t>, std::string, bool, std::string>;
  std::vector<Mount> mounts;
  for (const auto& mount : registration.mounts) {
    mounts.emplace_back(ToBytes(mount.host_path), mount.task_path,
                        mount.read_only, mount.propagation);
  }
  return {{"host_path", V(ToBytes(registration.host_path))},
          {"endpoint", V(registration.endpoint)},
          {"mounts", V(mounts)}};
}

Dict ToDict(const csi::PluginInstance& instance) {
  const auto numbers = [](const std::vector<int>& values) {
    return std::vector<std::int32_t>(values.begin(), values.end());
  };
  const PluginRecord& record = instance.record;
  return {
      {"id", V(record.id)},
      {"type", V(record.type)},
      {"uid", V(record.uid)},
      {"allocation", V(record.allocation)},
      {"mount_dir", V(record.mount_dir)},
      {"stage_publish_base_dir", V(record.stage_publish_base_dir)},
      {"bare_directories", V(record.bare_directories)},
      {"state", V(std::string(csi::PluginStateName(instance.state)))},
      {"reason", V(instance.reason)},
      {"update_time", V(instance.updated_us)},
      {"provider", V(instance.info.name)},
      {"vendor_version", V(instance.info.vendor_version)},
      {"node_id", V(instance.node.node_id)},
      {"max_volumes", V(instance.node.max_volumes)},
      {"topology", V(instance.node.topology)},
      {"node_capabilities", V(numbers(instance.capabilities.node_rpcs))},
      {"controller_capabilities",
       V(numbers(instance.capabilities.controller_rpcs))},
      {"plugin_capabilities", V(numbers(instance.capabilities.services))},
      {"generation", V(instance.generation)},
  };
}

Dict ToDict(const csi::PluginStatus& status) {
  std::vector<Dict> instances;
  for (const csi::PluginInstance& one : status.instances) {
    Dict& dict = instances.emplace_back(ToDict(one));
    dict.emplace("object", V(sdbus::ObjectPath(PluginObjectPath(one))));
  }
  Dict dict = ToDict(static_cast<const csi::PluginInstance&>(status));
  dict.emplace("instances", V(instances));
  return dict;
}

Dict ToDict(const HolderReport& report) {
  std::vector<Dict> holders;
  for (const HolderInfo& holder : report.holders) {
    Dict dict = {{"pid", V(holder.pid)}};
    if (holder.details) {
      dict.emplace("uid", V(holder.details->uid));
      dict.emplace("command", V(holder.details->command));
      dict.emplace("how", V(holder.details->how));
      dict.emplace("in_cgroup", V(holder.details->in_cgroup));
      dict.emplace("copy", V(holder.details->copy));
    }
    holders.push_back(std::move(dict));
  }
  return {{"holders", V(holders)},
          {"more", V(report.more)},
          {"complete", V(report.complete)}};
}

Dict ToDict(const TaskReport& report) {
  std::vector<Dict> mounts;
  for (const TaskMountVerdict& mount : report.mounts) {
    const auto has = [&](unsigned bit) {
      return (mount.attributes & bit) != 0;
    };
    mounts.push_back({{"name", V(mount.name)},
                      {"verdict", V(mount.verdict)},
                      {"reason", V(mount.reason)},
                      {"read_only", V(has(MOUNT_ATTR_RDONLY))},
                      {"nosuid", V(has(MOUNT_ATTR_NOSUID))},
                      {"nodev", V(has(MOUNT_ATTR_NODEV))},
                      {"noexec", V(has(MOUNT_ATTR_NOEXEC))},
                      {"peer_group", V(mount.peer_group)},
                      {"master", V(mount.master)}});
  }
  return {{"ok", V(report.ok())},
          {"mounts", V(mounts)},
          {"mount_namespace", V(report.mount_namespace)},
          {"own_user_namespace", V(report.has_own_user_namespace)}};
}

Dict ToDict(const Capabilities& capabilities) {
  utsname kernel{};
  uname(&kernel);
  const bool bridge = capabilities.features.contains("bridge") &&
                      capabilities.features.at("bridge");
  const std::vector<std::string> modes =
      bridge ? std::vector<std::string>{"bridge"} : std::vector<std::string>{};
  std::map<std::string, sdbus::Struct<std::uint32_t, std::uint32_t>> addresses;
  for (const auto& [name, usage] : capabilities.networks) {
    addresses.emplace(name, sdbus::Struct(usage.capacity, usage.free));
  }
  return {
      {"version", V(std::string(MOUNTD_VERSION))},
      {"kernel", V(std::string(kernel.release))},
      {"network_modes", V(modes)},
      {"propagation",
       V(std::vector<std::string>{"private", "host-to-task", "bidirectional"})},
      {"source_types",
       V(std::vector<std::string>{"volume", "host", "tmpfs", "filesystem"})},
      {"features", V(capabilities.features)},
      {"missing", V(capabilities.missing)},
      {"addresses", V(addresses)},
      {"executor_capabilities", V(capabilities.executor_capabilities)},
      {"stuck_executors", V(capabilities.stuck_executors)},
  };
}

std::string AllocationStateName(AllocationState state) {
  return state == AllocationState::kPrepared ? "prepared" : "releasing";
}

}  // namespace mountd::dbus
