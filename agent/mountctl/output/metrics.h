// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "agent/client.h"
#include "agent/types.h"

// Collects the metrics of mountd that a node's monitoring reads.
namespace mountd::agent {

// Counts only those allocations, plugins and mounts that the caller may see.
struct NodeMetrics {
  Capabilities offers;
  std::vector<MethodStatistics> statistics;
  std::uint32_t free_host_ports = 0;  // of all that any rule grants
  std::map<std::string, std::uint64_t> dropped_peers;  // by reason
  std::uint32_t owed = 0;                              // of all users
  std::chrono::seconds oldest_owed{0};
  std::vector<PluginStatus> plugins;
  std::map<std::string, std::uint64_t> allocations;  // by state
  // By state and health.
  std::map<std::pair<std::string, std::string>, std::uint64_t> mounts;
  std::map<std::string, std::uint64_t> volumes;  // by state
};

Result<NodeMetrics> CollectMetrics(Client& client);

// Returns the metrics in Prometheus' text format, with mountd_up 1.
std::string ToExposition(const NodeMetrics& node);
// Returns mountd_up 0 alone, for a mountd that does not answer.
std::string ExpositionOfNothing();

}  // namespace mountd::agent
