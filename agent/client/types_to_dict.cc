// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client/types_to_dict.h"

#include <utility>

#include "agent/client/fields.h"

namespace mountd::agent {
namespace {

Port ToPort(const WirePort& wire) {
  return {wire.get<0>(), wire.get<2>(), wire.get<3>(),
          wire.get<5>(), wire.get<4>(), wire.get<1>()};
}

Result<VolumeStatus> ToVolumeStatus(const dbus::Dict& map) {
  VolumeStatus volume;
  MOUNTD_TRY(Fields(map)
                 .Read("alias", volume.alias)
                 .Read("plugin", volume.plugin)
                 .Read("volume", volume.volume)
                 .Read("state", volume.state)
                 .Read("read_only", volume.read_only)
                 .ReadPath("host_path", volume.host_path)
                 .status());
  return volume;
}

Result<MountStatus> ToMountStatus(const dbus::Dict& map) {
  MountStatus mount;
  MOUNTD_TRY(Fields(map)
                 .Read("task", mount.task)
                 .Read("name", mount.name)
                 .Read("source_type", mount.source_type)
                 .Read("source", mount.source)
                 .Read("state", mount.state)
                 .Read("health", mount.health)
                 .status());
  MOUNTD_ASSIGN(mount.config, ToMountConfig(map));
  return mount;
}

Result<Holder> ToHolder(const dbus::Dict& map) {
  Holder holder;
  MOUNTD_TRY(Fields(map)
                 .Read("pid", holder.pid)
                 .Read("uid", holder.uid)
                 .Read("command", holder.command)
                 .Read("how", holder.how)
                 .Read("in_cgroup", holder.in_cgroup)
                 .Read("copy", holder.copy)
                 .status());
  return holder;
}

Result<TaskMount> ToTaskMount(const dbus::Dict& map) {
  TaskMount mount;
  MOUNTD_TRY(Fields(map)
                 .Read("name", mount.name)
                 .Read("verdict", mount.verdict)
                 .Read("reason", mount.reason)
                 .Read("read_only", mount.read_only)
                 .Read("nosuid", mount.nosuid)
                 .Read("nodev", mount.nodev)
                 .Read("noexec", mount.noexec)
                 .Read("peer_group", mount.peer_group)
                 .Read("master", mount.master)
                 .status());
  return mount;
}

}  // namespace

std::vector<WirePort> ToWire(const std::vector<Port>& ports) {
  std::vector<WirePort> wire;
  wire.reserve(ports.size());
  for (const Port& port : ports) {
    wire.emplace_back(port.label, port.host_address, port.host, port.container,
                      port.count, port.protocols);
  }
  return wire;
}

dbus::Dict ToWire(const NetworkSpec& spec) {
  using WireHost = sdbus::Struct<std::string, std::vector<std::string>>;
  dbus::Dict sent;
  const auto add = [&sent](const char* key, const auto& value) {
    if (!value.empty()) {
      sent.emplace(key, dbus::Value(value));
    }
  };
  add("network", spec.network);
  add("interface", spec.interface);
  add("address", spec.address);
  add("address6", spec.address6);
  add("hostname", spec.hostname);
  add("dns_servers", spec.dns_servers);
  add("dns_searches", spec.dns_searches);
  add("dns_options", spec.dns_options);
  add("cni_args", spec.cni_args);
  add("mac", spec.mac);
  add("ips", spec.ips);
  add("bandwidth", spec.bandwidth);
  std::vector<WireHost> hosts;
  for (const NetworkSpec::Host& host : spec.hosts) {
    hosts.emplace_back(host.address, host.names);
  }
  add("hosts", hosts);
  if (spec.isolated) {
    sent.emplace("isolated", dbus::Value(true));
  }
  if (spec.default_route) {
    sent.emplace("default_route", dbus::Value(*spec.default_route));
  }
  if (spec.netns >= 0) {
    sent.emplace("netns", dbus::Value(sdbus::UnixFd(spec.netns)));
  }
  if (spec.ports_keeper >= 0) {
    sent.emplace("ports_keeper", dbus::Value(sdbus::UnixFd(spec.ports_keeper)));
  }
  return sent;
}

dbus::Dict ToWire(const VolumeUsage& usage) {
  dbus::Dict map;
  if (usage.read_only) {
    map.emplace("read_only", dbus::Value(true));
  }
  if (!usage.access_mode.empty()) {
    map.emplace("access_mode", dbus::Value(usage.access_mode));
  }
  if (!usage.attachment_mode.empty()) {
    map.emplace("attachment_mode", dbus::Value(usage.attachment_mode));
  }
  if (!usage.fs_type.empty()) {
    map.emplace("fs_type", dbus::Value(usage.fs_type));
  }
  if (!usage.volume_mount_group.empty()) {
    map.emplace("volume_mount_group", dbus::Value(usage.volume_mount_group));
  }
  if (!usage.mount_flags.empty()) {
    map.emplace("mount_flags", dbus::Value(usage.mount_flags));
  }
  return map;
}

std::string ToWire(SourceType type) {
  return std::string(SourceTypeName(type));
}

std::string ToWire(Propagation propagation) {
  switch (propagation) {
    case Propagation::kPrivate:
      return "private";
    case Propagation::kHostToTask:
      return "host-to-task";
    case Propagation::kBidirectional:
      return "bidirectional";
  }
  return {};
}

std::string ToWire(UnmountMode mode) {
  switch (mode) {
    case UnmountMode::kDetach:
      return "detach";
    case UnmountMode::kForce:
      return "force";
    case UnmountMode::kAbort:
      return "abort";
    case UnmountMode::kPlain:
      break;
  }
  return "plain";
}

dbus::Dict ToOptions(OnTasks on_tasks) {
  switch (on_tasks) {
    case OnTasks::kWait:
      return {{"tasks", dbus::Value(std::string("wait"))}};
    case OnTasks::kIgnore:
      return {{"tasks", dbus::Value(std::string("ignore"))}};
    case OnTasks::kRefuse:
      break;
  }
  return {};
}

std::string ToWire(PluginType type) {
  switch (type) {
    case PluginType::kNode:
      return "node";
    case PluginType::kController:
      return "controller";
    case PluginType::kMonolith:
      return "monolith";
  }
  return {};
}

Timestamp ToTimestamp(std::uint64_t microseconds) {
  return Timestamp(
      std::chrono::microseconds(static_cast<std::int64_t>(microseconds)));
}

Result<std::string> ToHostPath(const dbus::Dict& map) {
  std::string path;
  MOUNTD_TRY(Fields(map).ReadPath("host_path", path).status());
  return path;
}

Result<NetworkStatus> ToNetwork(const dbus::Dict& map) {
  NetworkStatus network;
  dbus::Value::Ports ports;
  dbus::Value::Files files;
  MOUNTD_TRY(Fields(map)
                 .Read("mode", network.mode)
                 .Read("network", network.network)
                 .Read("isolated", network.isolated)
                 .Read("files", files)
                 .Read("default_route", network.default_route)
                 .ReadPath("netns_path", network.netns_path)
                 .Read("netns_inode", network.netns_inode)
                 .Read("interface", network.interface)
                 .Read("address", network.address)
                 .Read("address6", network.address6)
                 .Read("gateway", network.gateway)
                 .Read("gateway6", network.gateway6)
                 .Read("host_interface", network.host_interface)
                 .Read("mac", network.mac)
                 .Read("dns_servers", network.dns_servers)
                 .Read("dns_searches", network.dns_searches)
                 .Read("dns_options", network.dns_options)
                 .Read("ports", ports)
                 .status());
  for (const WirePort& port : ports) {
    network.ports.push_back(ToPort(port));
  }
  for (const auto& file : files) {
    const std::vector<std::uint8_t>& path = file.get<0>();
    network.files.push_back(
        {std::string(path.begin(), path.end()), file.get<1>()});
  }
  return network;
}

Result<PublishedVolume> ToPublished(const dbus::Dict& map) {
  PublishedVolume volume;
  MOUNTD_TRY(Fields(map)
                 .ReadPath("host_path", volume.host_path)
                 .Read("read_only", volume.read_only)
                 .Read("is_device", volume.is_device)
                 .status());
  if (volume.is_device) {
    MOUNTD_TRY(Fields(map)
                   .Read("device_major", volume.device_major)
                   .Read("device_minor", volume.device_minor)
                   .Read("device_rule", volume.device_rule)
                   .status());
  }
  return volume;
}

Result<VolumeStats> ToVolumeStats(const dbus::Dict& map) {
  VolumeStats stats;
  std::vector<
      sdbus::Struct<std::string, std::int64_t, std::int64_t, std::int64_t>>
      usage;
  MOUNTD_TRY(Fields(map).Read("usage", usage).status());
  for (const auto& one : usage) {
    stats.usage.push_back(
        {one.get<0>(), one.get<1>(), one.get<2>(), one.get<3>()});
  }
  stats.has_condition = map.contains("abnormal");
  if (stats.has_condition) {
    MOUNTD_TRY(Fields(map)
                   .Read("abnormal", stats.abnormal)
                   .Read("condition", stats.condition)
                   .status());
  }
  return stats;
}

Result<MountConfig> ToMountConfig(const dbus::Dict& map) {
  MountConfig config;
  MOUNTD_TRY(Fields(map)
                 .ReadPath("host_path", config.host_path)
                 .Read("task_path", config.task_path)
                 .Read("read_only", config.read_only)
                 .Read("propagation", config.propagation)
                 .Read("required_rootfs_propagation",
                       config.required_rootfs_propagation)
                 .Read("mount_id", config.mount_id)
                 .Read("peer_group", config.peer_group)
                 .Read("master", config.master)
                 .status());
  return config;
}

Result<Holders> ToHolders(const dbus::Dict& map) {
  Holders found;
  std::vector<dbus::Dict> holders;
  MOUNTD_TRY(Fields(map)
                 .Read("holders", holders)
                 .Read("more", found.more)
                 .Read("complete", found.complete)
                 .status());
  MOUNTD_ASSIGN(found.holders, ToList(holders, &ToHolder));
  return found;
}

namespace {

Result<HandedOut> ToHandedOut(const dbus::Dict& map) {
  HandedOut one;
  MOUNTD_TRY(Fields(map)
                 .Read("kind", one.kind)
                 .Read("source_type", one.source_type)
                 .Read("source", one.source)
                 .Read("task", one.task)
                 .Read("mount_id", one.mount_id)
                 .status());
  MOUNTD_ASSIGN(one.holders, ToHolders(map));
  return one;
}

}  // namespace

Result<HandedOutList> ToHandedOutList(const dbus::Dict& map) {
  HandedOutList list;
  std::vector<dbus::Dict> descriptors;
  MOUNTD_TRY(Fields(map)
                 .Read("descriptors", descriptors)
                 .Read("complete", list.complete)
                 .status());
  MOUNTD_ASSIGN(list.descriptors, ToList(descriptors, &ToHandedOut));
  return list;
}

namespace {

// Returns the holders at the key, if the answer has that key.
Result<std::optional<Holders>> ToHoldersAt(const dbus::Dict& map,
                                           const char* key) {
  dbus::Dict found;
  MOUNTD_TRY(Fields(map).Read(key, found).status());
  if (found.empty()) {
    return std::optional<Holders>();
  }
  MOUNTD_ASSIGN(Holders holders, ToHolders(found));
  return std::optional(std::move(holders));
}

}  // namespace

Result<ReplacedMount> ToReplacedMount(const dbus::Dict& map) {
  ReplacedMount replaced;
  MOUNTD_ASSIGN(replaced.config, ToMountConfig(map));
  MOUNTD_ASSIGN(replaced.old_holders, ToHoldersAt(map, "old_holders"));
  MOUNTD_TRY(Fields(map)
                 .Read("replaced_mount_id", replaced.replaced_mount_id)
                 .status());
  return replaced;
}

Result<RepairedMount> ToRepairedMount(const dbus::Dict& map) {
  RepairedMount repaired;
  MOUNTD_ASSIGN(repaired.config, ToMountConfig(map));
  MOUNTD_ASSIGN(repaired.old_holders, ToHoldersAt(map, "old_holders"));
  MOUNTD_TRY(Fields(map)
                 .Read("replaced_mount_id", repaired.replaced_mount_id)
                 .Read("reaches_task", repaired.reaches_task)
                 .Read("reason", repaired.reason)
                 .status());
  return repaired;
}

Result<ReconciledAllocation> ToReconciled(const dbus::Dict& map) {
  ReconciledAllocation one;
  MOUNTD_TRY(Fields(map)
                 .Read("allocation", one.allocation)
                 .Read("outcome", one.outcome)
                 .Read("reason", one.reason)
                 .Read("needs", one.needs)
                 .status());
  MOUNTD_ASSIGN(one.holders, ToHoldersAt(map, "holders"));
  return one;
}

Result<InboxConfig> ToInboxConfig(const dbus::Dict& map) {
  InboxConfig inbox;
  MOUNTD_TRY(Fields(map)
                 .ReadPath("host_path", inbox.host_path)
                 .Read("propagation", inbox.propagation)
                 .Read("required_rootfs_propagation",
                       inbox.required_rootfs_propagation)
                 .status());
  return inbox;
}

Result<Receipt> ToReceipt(const dbus::Dict& map) {
  Receipt receipt;
  std::uint64_t released_at = 0;
  std::vector<sdbus::Struct<std::string, std::string, bool>> volumes;
  std::vector<sdbus::Struct<std::string, std::string>> owed;
  MOUNTD_TRY(Fields(map)
                 .Read("allocation", receipt.allocation)
                 .Read("released_at", released_at)
                 .Read("node_detached", receipt.node_detached)
                 .Read("volumes", volumes)
                 .Read("owed", owed)
                 .Read("serial", receipt.serial)
                 .status());
  for (const auto& volume : owed) {
    receipt.owed.push_back({volume.get<0>(), volume.get<1>(), false});
  }
  receipt.released_at = ToTimestamp(released_at);
  for (const auto& volume : volumes) {
    receipt.volumes.push_back(
        {volume.get<0>(), volume.get<1>(), volume.get<2>()});
  }
  return receipt;
}

Result<AllocationStatus> ToAllocation(const dbus::Dict& map) {
  AllocationStatus status;
  std::vector<dbus::Dict> networks;
  std::vector<dbus::Dict> volumes;
  std::vector<dbus::Dict> mounts;
  MOUNTD_TRY(Fields(map)
                 .Read("id", status.id)
                 .Read("uid", status.uid)
                 .Read("scope", status.scope)
                 .Read("state", status.state)
                 .ReadPath("host_path", status.host_path)
                 .Read("networks", networks)
                 .Read("volumes", volumes)
                 .Read("mounts", mounts)
                 .Read("inboxes", status.inboxes)
                 .status());
  for (const dbus::Dict& map_of_one : networks) {
    MOUNTD_ASSIGN(NetworkStatus network, ToNetwork(map_of_one));
    status.networks.push_back(std::move(network));
  }
  MOUNTD_ASSIGN(status.volumes, ToList(volumes, &ToVolumeStatus));
  MOUNTD_ASSIGN(status.mounts, ToList(mounts, &ToMountStatus));
  return status;
}

Result<TaskReport> ToTaskReport(const dbus::Dict& map) {
  TaskReport report;
  std::vector<dbus::Dict> mounts;
  MOUNTD_TRY(Fields(map)
                 .Read("ok", report.ok)
                 .Read("mounts", mounts)
                 .Read("mount_namespace", report.mount_namespace)
                 .Read("own_user_namespace", report.own_user_namespace)
                 .status());
  MOUNTD_ASSIGN(report.mounts, ToList(mounts, &ToTaskMount));
  return report;
}

Result<StagedVolume> ToStagedVolume(const dbus::Dict& map) {
  StagedVolume volume;
  std::vector<sdbus::Struct<std::string, std::string>> users;
  MOUNTD_TRY(Fields(map)
                 .Read("plugin", volume.plugin)
                 .Read("volume", volume.volume)
                 .Read("state", volume.state)
                 .Read("attachment_mode", volume.attachment_mode)
                 .Read("access_mode", volume.access_mode)
                 .Read("fs_type", volume.fs_type)
                 .Read("needs_secrets", volume.needs_secrets)
                 .Read("users", users)
                 .status());
  for (const auto& user : users) {
    volume.users.push_back({user.get<0>(), user.get<1>()});
  }
  return volume;
}

Result<PluginRegistration> ToRegistration(const dbus::Dict& map) {
  PluginRegistration registration;
  std::vector<sdbus::Struct<Bytes, std::string, bool, std::string>> mounts;
  MOUNTD_TRY(Fields(map)
                 .ReadPath("host_path", registration.host_path)
                 .Read("endpoint", registration.endpoint)
                 .Read("mounts", mounts)
                 .status());
  for (const auto& mount : mounts) {
    registration.mounts.push_back({ToText(mount.get<0>()), mount.get<1>(),
                                   mount.get<2>(), mount.get<3>()});
  }
  return registration;
}

Result<PluginStatus> ToPlugin(const dbus::Dict& map) {
  PluginStatus plugin;
  std::uint64_t updated_us = 0;
  std::vector<dbus::Dict> instances;
  MOUNTD_TRY(
      Fields(map)
          .Read("id", plugin.id)
          .Read("type", plugin.type)
          .Read("uid", plugin.uid)
          .Read("allocation", plugin.allocation)
          .Read("mount_dir", plugin.mount_dir)
          .Read("stage_publish_base_dir", plugin.stage_publish_base_dir)
          .Read("bare_directories", plugin.bare_directories)
          .Read("state", plugin.state)
          .Read("reason", plugin.reason)
          .Read("update_time", updated_us)
          .Read("provider", plugin.provider)
          .Read("vendor_version", plugin.vendor_version)
          .Read("node_id", plugin.node_id)
          .Read("max_volumes", plugin.max_volumes)
          .Read("topology", plugin.topology)
          .Read("node_capabilities", plugin.node_capabilities)
          .Read("controller_capabilities", plugin.controller_capabilities)
          .Read("plugin_capabilities", plugin.plugin_capabilities)
          .Read("generation", plugin.generation)
          .Read("instances", instances)
          .status());
  plugin.update_time = ToTimestamp(updated_us);
  for (const dbus::Dict& one : instances) {
    // An instance has no instances, so the recursion ends here.
    if (one.contains("instances")) {
      continue;
    }
    MOUNTD_ASSIGN(PluginStatus instance, ToPlugin(one));
    plugin.instances.push_back(std::move(instance));
  }
  return plugin;
}

Result<TreeResult> ToTreeResult(const dbus::Dict& map) {
  TreeResult result;
  MOUNTD_TRY(
      Fields(map).Read("done", result.done).Read("left", result.left).status());
  return result;
}

Result<OperationStatus> ToOperation(const dbus::Dict& map) {
  OperationStatus operation;
  std::uint64_t elapsed_ms = 0;
  MOUNTD_TRY(Fields(map)
                 .Read("id", operation.id)
                 .Read("method", operation.method)
                 .Read("object", operation.object)
                 .Read("uid", operation.uid)
                 .Read("elapsed_ms", elapsed_ms)
                 .Read("waiters", operation.waiters)
                 .Read("cancelled", operation.cancelled)
                 .Read("step", operation.step)
                 .Read("done", operation.done)
                 .Read("total", operation.total)
                 .Read("attempt", operation.attempt)
                 .Read("error", operation.error)
                 .status());
  operation.elapsed = std::chrono::milliseconds(elapsed_ms);
  return operation;
}

Result<Capabilities> ToCapabilities(const dbus::Dict& map) {
  Capabilities capabilities;
  std::map<std::string, sdbus::Struct<std::uint32_t, std::uint32_t>> addresses;
  std::vector<sdbus::Struct<std::uint16_t, std::uint16_t, std::uint32_t>>
      host_ports;
  auto owed_warning_ms =
      static_cast<std::uint32_t>(capabilities.owed_warning.count());
  MOUNTD_TRY(Fields(map)
                 .Read("version", capabilities.version)
                 .Read("kernel", capabilities.kernel)
                 .Read("network_modes", capabilities.network_modes)
                 .Read("host_ports", host_ports)
                 .Read("cni_plugins", capabilities.cni_plugins)
                 .Read("addresses", addresses)
                 .Read("propagation", capabilities.propagation)
                 .Read("source_types", capabilities.source_types)
                 .Read("features", capabilities.features)
                 .Read("missing", capabilities.missing)
                 .Read("stuck_executors", capabilities.stuck_executors)
                 .Read("stores_set_aside", capabilities.stores_set_aside)
                 .ReadPath("mount_namespace", capabilities.mount_namespace)
                 .Read("mount_reserve", capabilities.mount_reserve)
                 .Read("owed_warning_ms", owed_warning_ms)
                 .Read("administrator", capabilities.administrator)
                 .Read("rules", capabilities.rules)
                 .status());
  capabilities.owed_warning = std::chrono::milliseconds(owed_warning_ms);
  for (const auto& ports : host_ports) {
    capabilities.host_ports.push_back(
        {ports.get<0>(), ports.get<1>(), ports.get<2>()});
  }
  for (const auto& [network, usage] : addresses) {
    capabilities.addresses[network] = {usage.get<0>(), usage.get<1>()};
  }
  return capabilities;
}

}  // namespace mountd::agent
