// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/metrics.h"

#include "agent/mountctl/output/exposition.h"
#include "agent/mountctl/output/output.h"

namespace mountd::agent {
namespace {

constexpr char kGauge[] = "gauge";
constexpr char kCounter[] = "counter";

double Seconds(std::uint64_t us) { return static_cast<double>(us) / 1e6; }

void WriteUp(Exposition& out, bool up) {
  out.Family("mountd_up", kGauge, "Whether mountd answers.");
  out.Sample(up ? 1 : 0);
}

void WriteOperations(Exposition& out,
                     const std::vector<MethodStatistics>& statistics) {
  out.Family("mountd_operations_total", kCounter,
             "Calls since mountd started, by method.");
  for (const MethodStatistics& one : statistics) {
    out.Sample(static_cast<double>(one.calls), {{"method", one.method}});
  }
  out.Family("mountd_operation_errors_total", kCounter,
             "Calls that ended with an error, by method.");
  for (const MethodStatistics& one : statistics) {
    out.Sample(static_cast<double>(one.errors), {{"method", one.method}});
  }
  // No summary, because a summary has the sum and the count of the calls that
  // its quantiles cover, and mountd reports neither for the last calls.
  out.Family("mountd_operation_duration_seconds", kGauge,
             "Time from a call to its answer, of the last 1024 calls.");
  for (const MethodStatistics& one : statistics) {
    out.Sample(Seconds(one.p50_us),
               {{"method", one.method}, {"quantile", "0.5"}});
    out.Sample(Seconds(one.p99_us),
               {{"method", one.method}, {"quantile", "0.99"}});
  }
}

void WriteOwed(Exposition& out, const NodeMetrics& node) {
  out.Family("mountd_owed_teardowns", kGauge,
             "Tear-downs that failed and that mountd retries.");
  out.Sample(node.owed);
  out.Family("mountd_owed_oldest_age_seconds", kGauge,
             "Age of the oldest pending tear-down; 0 if there is none.");
  out.Sample(static_cast<double>(node.oldest_owed.count()));
  out.Family("mountd_owed_warning_seconds", kGauge,
             "Age at which mountd warns of a pending tear-down "
             "(timeouts.owed_warning_ms).");
  out.Sample(static_cast<double>(node.offers.owed_warning.count()) / 1e3);
}

void WriteRoom(Exposition& out, const NodeMetrics& node) {
  out.Family("mountd_network_addresses", kGauge,
             "Addresses of each network of the configuration.");
  for (const auto& [network, usage] : node.offers.addresses) {
    out.Sample(usage.free, {{"network", network}, {"state", "free"}});
    out.Sample(static_cast<double>(usage.capacity) - usage.free,
               {{"network", network}, {"state", "used"}});
  }
  out.Family("mountd_host_ports_free", kGauge,
             "Host ports that a rule grants and no allocation has.");
  out.Sample(node.free_host_ports);
  out.Family("mountd_mount_reserve", kGauge,
             "Mounts below fs.mount-max that are kept for others.");
  out.Sample(node.offers.mount_reserve);
}

void WriteDroppedPeers(Exposition& out, const NodeMetrics& node) {
  out.Family("mountd_peers_dropped_total", kCounter,
             "Connections that mountd ended or refused, by reason.");
  for (const auto& [reason, count] : node.dropped_peers) {
    out.Sample(static_cast<double>(count), {{"reason", reason}});
  }
}

void WriteTrouble(Exposition& out, const Capabilities& offers) {
  out.Family("mountd_stuck_executors", kGauge,
             "Abandoned executors that hang in the kernel.");
  out.Sample(offers.stuck_executors);
  out.Family("mountd_stores_set_aside", kGauge,
             "Files of mountd's stores that its last start found damaged and "
             "set aside.");
  out.Sample(static_cast<double>(offers.stores_set_aside.size()));
}

void WritePlugins(Exposition& out, const std::vector<PluginStatus>& plugins) {
  // Always writes each state, because an alert on a metric that is absent never
  // fires.
  std::map<std::string, std::uint64_t> states = {
      {"starting", 0}, {"healthy", 0}, {"unhealthy", 0}, {"gone", 0}};
  for (const PluginStatus& plugin : plugins) {
    ++states[plugin.state];
  }
  out.Family("mountd_plugins", kGauge, "CSI plugins, by state.");
  for (const auto& [state, count] : states) {
    out.Sample(static_cast<double>(count), {{"state", state}});
  }
  out.Family("mountd_plugin_healthy", kGauge,
             "Whether each CSI plugin is healthy.");
  for (const PluginStatus& plugin : plugins) {
    out.Sample(plugin.state == "healthy" ? 1 : 0, {{"plugin", plugin.id}});
  }
}

void WriteByState(Exposition& out, std::string_view name, std::string_view help,
                  const std::map<std::string, std::uint64_t>& counts) {
  out.Family(name, kGauge, help);
  for (const auto& [state, count] : counts) {
    out.Sample(static_cast<double>(count), {{"state", state}});
  }
}

void WriteMounts(Exposition& out, const NodeMetrics& node) {
  out.Family(
      "mountd_mounts", kGauge,
      "Allocations' mounts, by state and by their file systems' health.");
  for (const auto& [key, count] : node.mounts) {
    out.Sample(static_cast<double>(count),
               {{"state", key.first}, {"health", key.second}});
  }
}

// Leaves out an allocation that is released meanwhile.
Result<void> CountMounts(Client& client, const std::string& allocation,
                         NodeMetrics& node) {
  const Result<AllocationStatus> status = client.GetAllocation(allocation);
  if (!status) {
    return status.error().code == Code::kNotFound ? Ok() : status.error();
  }
  for (const MountStatus& mount : status->mounts) {
    const std::string& health = mount.health;
    ++node.mounts[{mount.state, health.empty() ? "unknown" : health}];
  }
  return Ok();
}

// Counts no peers if mountd is too old to count dropped peers.
Result<void> CountDroppedPeers(Client& client, NodeMetrics& node) {
  auto dropped = client.DroppedPeers();
  if (!dropped) {
    return dropped.error().code == Code::kNotSupported
               ? Ok()
               : Result<void>(std::move(dropped).error());
  }
  node.dropped_peers = *std::move(dropped);
  return Ok();
}

}  // namespace

Result<NodeMetrics> CollectMetrics(Client& client) {
  NodeMetrics node;
  node.allocations = {{"prepared", 0}, {"releasing", 0}};
  node.mounts = {{{"attached", "healthy"}, 0},
                 {{"attached", "dead"}, 0},
                 {{"attached", "hung"}, 0},
                 {{"lost", "unknown"}, 0}};
  MOUNTD_ASSIGN(node.offers, client.GetCapabilities());
  MOUNTD_ASSIGN(node.statistics, client.GetStatistics());
  MOUNTD_ASSIGN(node.free_host_ports, client.FreeHostPorts());
  MOUNTD_TRY(CountDroppedPeers(client, node));
  MOUNTD_ASSIGN(const OwedSummary owed, client.Owed());
  node.owed = owed.count;
  if (owed.count > 0) {
    node.oldest_owed = AgeOf(owed.since);
  }
  MOUNTD_ASSIGN(node.plugins, client.ListPlugins());
  MOUNTD_ASSIGN(const auto volumes, client.ListVolumes());
  for (const StagedVolume& volume : volumes) {
    ++node.volumes[volume.state];
  }
  MOUNTD_ASSIGN(const auto allocations, client.ListAllocations());
  for (const AllocationEntry& entry : allocations) {
    ++node.allocations[entry.state];
    MOUNTD_TRY(CountMounts(client, entry.id, node));
  }
  return node;
}

std::string ToExposition(const NodeMetrics& node) {
  Exposition out;
  WriteUp(out, true);
  out.Family("mountd_info", kGauge, "mountd's version and the kernel's.");
  out.Sample(
      1, {{"version", node.offers.version}, {"kernel", node.offers.kernel}});
  WriteOperations(out, node.statistics);
  WriteOwed(out, node);
  WriteRoom(out, node);
  WriteTrouble(out, node.offers);
  WriteDroppedPeers(out, node);
  WritePlugins(out, node.plugins);
  WriteByState(out, "mountd_allocations", "Allocations, by state.",
               node.allocations);
  WriteByState(out, "mountd_volumes", "Staged volumes, by state.",
               node.volumes);
  WriteMounts(out, node);
  return out.text();
}

std::string ExpositionOfNothing() {
  Exposition out;
  WriteUp(out, false);
  return out.text();
}

}  // namespace mountd::agent
