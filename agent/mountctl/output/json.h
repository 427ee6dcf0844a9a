// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agent/mountctl/output/snapshot_message.h"
#include "agent/types.h"
#include "agent/types_controller.h"

// Builds the output of --json, with the contract's own names as keys. Bytes
// that are not UTF-8 (paths may hold any) become U+FFFD.
namespace mountd::agent {

using Json = nlohmann::ordered_json;

Json ToJson(const Port& port);
Json ToJson(const NetworkStatus& network);
Json ToJson(const PublishedVolume& volume);
Json ToJson(const MountConfig& config);
Json ToJson(const Holders& holders);
Json ToJson(const HandedOutList& list);
Json ToJson(const TaskReport& report);
Json ToJson(const InboxConfig& inbox);
Json ToJson(const RepairedMount& repaired);
Json ToJson(const Receipt& receipt);
Json ToJson(const VolumeStatus& volume);
Json ToJson(const MountStatus& mount);
Json ToJson(const AllocationStatus& allocation);
Json ToJson(const AllocationEntry& allocation);
Json ToJson(const StagedVolume& volume);
Json ToJson(const VolumeStats& stats);
Json ToJson(const PluginVolume& volume);
Json ToJson(const Snapshot& snapshot);
Json ToJson(const PluginRegistration& registration);
Json ToJson(const PluginStatus& plugin);
Json ToJson(const OwedTeardown& owed);
Json ToJson(const ReconciledAllocation& one);
Json ToJson(const TreeResult& result);
Json ToJson(const std::map<std::string, AddressUsage>& addresses);
Json ToJson(const Capabilities& capabilities);
Json ToJson(const MethodStatistics& statistics);
Json ToJson(const OperationStatus& operation);

template <typename T>
Json ToJson(const std::vector<T>& list) {
  Json array = Json::array();
  for (const T& element : list) {
    array.push_back(ToJson(element));
  }
  return array;
}

std::string Dump(const Json& json, int indent = 2);

}  // namespace mountd::agent
