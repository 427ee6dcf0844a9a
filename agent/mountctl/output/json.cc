// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/json.h"

#include "agent/mountctl/output/output.h"

namespace mountd::agent {

Json ToJson(const Port& port) {
  return {{"label", port.label},         {"host", port.host},
          {"container", port.container}, {"protocols", port.protocols},
          {"count", port.count},         {"host_address", port.host_address}};
}

Json ToJson(const NetworkStatus& network) {
  Json files = Json::array();
  for (const NetworkStatus::File& file : network.files) {
    files.push_back(
        {{"host_path", file.host_path}, {"task_path", file.task_path}});
  }
  return {{"files", std::move(files)},
          {"mode", network.mode},
          {"network", network.network},
          {"isolated", network.isolated},
          {"default_route", network.default_route},
          {"netns_path", network.netns_path},
          {"netns_inode", network.netns_inode},
          {"interface", network.interface},
          {"address", network.address},
          {"address6", network.address6},
          {"gateway", network.gateway},
          {"gateway6", network.gateway6},
          {"host_interface", network.host_interface},
          {"mac", network.mac},
          {"dns_servers", network.dns_servers},
          {"dns_searches", network.dns_searches},
          {"dns_options", network.dns_options},
          {"ports", ToJson(network.ports)}};
}

Json ToJson(const PublishedVolume& volume) {
  return {{"host_path", volume.host_path},
          {"read_only", volume.read_only},
          {"is_device", volume.is_device},
          {"device_rule", volume.device_rule}};
}

Json ToJson(const MountConfig& config) {
  return {{"host_path", config.host_path},
          {"task_path", config.task_path},
          {"read_only", config.read_only},
          {"propagation", config.propagation},
          {"required_rootfs_propagation", config.required_rootfs_propagation},
          {"mount_id", config.mount_id},
          {"peer_group", config.peer_group},
          {"master", config.master}};
}

Json ToJson(const RepairedMount& repaired) {
  Json json = ToJson(repaired.config);
  json.update({{"replaced_mount_id", repaired.replaced_mount_id},
               {"reaches_task", repaired.reaches_task},
               {"reason", repaired.reason}});
  return json;
}

Json ToJson(const InboxConfig& inbox) {
  return {{"host_path", inbox.host_path},
          {"propagation", inbox.propagation},
          {"required_rootfs_propagation", inbox.required_rootfs_propagation}};
}

Json ToJson(const Receipt& receipt) {
  Json volumes = Json::array();
  for (const ReleasedVolume& volume : receipt.volumes) {
    volumes.push_back({{"plugin", volume.plugin},
                       {"volume", volume.volume},
                       {"unstaged", volume.unstaged}});
  }
  Json owed = Json::array();
  for (const ReleasedVolume& volume : receipt.owed) {
    owed.push_back({{"plugin", volume.plugin}, {"volume", volume.volume}});
  }
  return {{"allocation", receipt.allocation},
          {"released_at", receipt.released_at.time_since_epoch().count()},
          {"node_detached", receipt.node_detached},
          {"volumes", std::move(volumes)},
          {"owed", std::move(owed)},
          {"serial", receipt.serial}};
}

Json ToJson(const VolumeStatus& volume) {
  return {{"alias", volume.alias},         {"plugin", volume.plugin},
          {"volume", volume.volume},       {"state", volume.state},
          {"read_only", volume.read_only}, {"host_path", volume.host_path}};
}

Json ToJson(const MountStatus& mount) {
  Json json = {{"task", mount.task},
               {"name", mount.name},
               {"source_type", mount.source_type},
               {"source", mount.source},
               {"state", mount.state},
               {"health", mount.health}};
  json.update(ToJson(mount.config));
  return json;
}

Json ToJson(const AllocationStatus& allocation) {
  return {{"id", allocation.id},
          {"uid", allocation.uid},
          {"scope", allocation.scope},
          {"state", allocation.state},
          {"host_path", allocation.host_path},
          {"networks", ToJson(allocation.networks)},
          {"volumes", ToJson(allocation.volumes)},
          {"mounts", ToJson(allocation.mounts)},
          {"inboxes", allocation.inboxes}};
}

Json ToJson(const AllocationEntry& allocation) {
  return {{"id", allocation.id},
          {"uid", allocation.uid},
          {"scope", allocation.scope},
          {"state", allocation.state}};
}

Json ToJson(const Holders& holders) {
  Json list = Json::array();
  for (const Holder& holder : holders.holders) {
    list.push_back({{"pid", holder.pid},
                    {"uid", holder.uid},
                    {"command", holder.command},
                    {"how", holder.how},
                    {"in_cgroup", holder.in_cgroup},
                    {"copy", holder.copy}});
  }
  return {{"holders", std::move(list)},
          {"more", holders.more},
          {"complete", holders.complete}};
}

Json ToJson(const HandedOutList& list) {
  Json descriptors = Json::array();
  for (const HandedOut& one : list.descriptors) {
    Json json = ToJson(one.holders);
    json["kind"] = one.kind;
    json["source_type"] = one.source_type;
    json["source"] = one.source;
    json["task"] = one.task;
    json["mount_id"] = one.mount_id;
    descriptors.push_back(std::move(json));
  }
  return {{"descriptors", std::move(descriptors)}, {"complete", list.complete}};
}

Json ToJson(const TaskReport& report) {
  Json mounts = Json::array();
  for (const TaskMount& mount : report.mounts) {
    mounts.push_back({{"name", mount.name},
                      {"verdict", mount.verdict},
                      {"reason", mount.reason},
                      {"read_only", mount.read_only},
                      {"nosuid", mount.nosuid},
                      {"nodev", mount.nodev},
                      {"noexec", mount.noexec},
                      {"peer_group", mount.peer_group},
                      {"master", mount.master}});
  }
  return {{"ok", report.ok},
          {"mounts", std::move(mounts)},
          {"mount_namespace", report.mount_namespace},
          {"own_user_namespace", report.own_user_namespace}};
}

Json ToJson(const PluginRegistration& registration) {
  Json mounts = Json::array();
  for (const PluginMount& mount : registration.mounts) {
    mounts.push_back({{"host_path", mount.host_path},
                      {"task_path", mount.task_path},
                      {"read_only", mount.read_only},
                      {"propagation", mount.propagation}});
  }
  return {{"host_path", registration.host_path},
          {"endpoint", registration.endpoint},
          {"mounts", std::move(mounts)}};
}

Json ToJson(const PluginStatus& plugin) {
  return {{"id", plugin.id},
          {"type", plugin.type},
          {"uid", plugin.uid},
          {"allocation", plugin.allocation},
          {"state", plugin.state},
          {"reason", plugin.reason},
          {"provider", plugin.provider},
          {"vendor_version", plugin.vendor_version},
          {"node_id", plugin.node_id},
          {"max_volumes", plugin.max_volumes},
          {"topology", plugin.topology},
          {"node_capabilities", plugin.node_capabilities},
          {"controller_capabilities", plugin.controller_capabilities},
          {"plugin_capabilities", plugin.plugin_capabilities},
          {"generation", plugin.generation},
          {"mount_dir", plugin.mount_dir},
          {"stage_publish_base_dir", plugin.stage_publish_base_dir},
          {"bare_directories", plugin.bare_directories},
          {"update_time", plugin.update_time.time_since_epoch().count()},
          {"instances", ToJson(plugin.instances)}};
}

Json ToJson(const ReconciledAllocation& one) {
  Json json = {{"allocation", one.allocation},
               {"outcome", one.outcome},
               {"reason", one.reason},
               {"needs", one.needs}};
  if (one.holders) {
    json["holders"] = ToJson(*one.holders);
  }
  return json;
}

Json ToJson(const OwedTeardown& owed) {
  return {{"id", owed.id},
          {"kind", owed.kind},
          {"object", owed.object},
          {"reason", owed.reason},
          {"attempts", owed.attempts},
          {"since", owed.since.time_since_epoch().count()},
          {"age_seconds", AgeOf(owed.since).count()}};
}

Json ToJson(const TreeResult& result) {
  return {{"done", result.done}, {"left", result.left}};
}

Json ToJson(const std::map<std::string, AddressUsage>& addresses) {
  Json json = Json::object();
  for (const auto& [network, usage] : addresses) {
    json[network] = {{"capacity", usage.capacity}, {"free", usage.free}};
  }
  return json;
}

Json ToJson(const Capabilities& capabilities) {
  Json host_ports = Json::array();
  for (const Capabilities::HostPorts& ports : capabilities.host_ports) {
    host_ports.push_back(
        {{"first", ports.first}, {"last", ports.last}, {"free", ports.free}});
  }
  return {{"version", capabilities.version},
          {"kernel", capabilities.kernel},
          {"network_modes", capabilities.network_modes},
          {"addresses", ToJson(capabilities.addresses)},
          {"host_ports", std::move(host_ports)},
          {"propagation", capabilities.propagation},
          {"source_types", capabilities.source_types},
          {"features", capabilities.features},
          {"missing", capabilities.missing},
          {"stuck_executors", capabilities.stuck_executors},
          {"stores_set_aside", capabilities.stores_set_aside},
          {"mount_namespace", capabilities.mount_namespace},
          {"mount_reserve", capabilities.mount_reserve},
          {"owed_warning_ms", capabilities.owed_warning.count()},
          {"administrator", capabilities.administrator},
          {"rules", capabilities.rules}};
}

Json ToJson(const OperationStatus& operation) {
  return {{"id", operation.id},
          {"method", operation.method},
          {"object", operation.object},
          {"uid", operation.uid},
          {"elapsed_ms", operation.elapsed.count()},
          {"waiters", operation.waiters},
          {"cancelled", operation.cancelled},
          {"step", operation.step},
          {"done", operation.done},
          {"total", operation.total},
          {"attempt", operation.attempt},
          {"error", operation.error}};
}

Json ToJson(const MethodStatistics& statistics) {
  return {{"method", statistics.method},
          {"calls", statistics.calls},
          {"errors", statistics.errors},
          {"p50_us", statistics.p50_us},
          {"p99_us", statistics.p99_us}};
}

std::string Dump(const Json& json, int indent) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

}  // namespace mountd::agent
