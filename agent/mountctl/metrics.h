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

// What a node's monitoring is told of mountd.
namespace mountd::agent {

// Of allocations, plugins and mounts those that the caller may see.
struct NodeMetrics {
  Capabilities offers;
  std::vector<MethodStatistics> statistics;
  std::uint32_t free_host_ports = 0;  // of all that any rule grants
  std::map<std::string, std::uint64_t> dropped_peers;  // by reason
  std::uint32_t owed = 0;                              // every user's
  std::chrono::seconds oldest_owed{0};
  std::vector<PluginStatus> plugins;
  std::map<std::string, std::uint64_t> allocations;  // by state
  // By state and health.
  std::map<std::pair<std::string, std::string>, std::uint64_t> mounts;
  std::map<std::string, std::uint64_t> volumes;  // by state
};

Result<NodeMetrics> CollectMetrics(Client& client);

// In Prometheus' text format, with mountd_up 1.
std::string ToExposition(const NodeMetrics& node);
// mountd_up 0 alone: of a mountd that does not answer.
std::string ExpositionOfNothing();

}  // namespace mountd::agent
