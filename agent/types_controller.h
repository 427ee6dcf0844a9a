// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/types.h"

// What an agent asks plugins' controllers through mountd, and hears from them.
// Secrets are sent as those of a VolumeSpec are.
namespace mountd::agent {

struct ControllerPublishSpec {
  std::string plugin{};
  std::string volume{};
  std::string node_id{};  // as that node's plugin tells it (PluginStatus)
  VolumeUsage usage{};
  std::map<std::string, std::string> volume_context{};
  std::map<std::string, std::string> secrets{};
};

struct VolumeValidationSpec {
  std::string plugin{};
  std::string volume{};
  VolumeUsage usage{};
  std::map<std::string, std::string> volume_context{};
  std::map<std::string, std::string> parameters{};  // of CreateVolume
  std::map<std::string, std::string> secrets{};
};

struct VolumeValidation {
  bool confirmed = false;  // all that was asked
  std::string message;     // the plugin's, or why not
};

struct VolumeCreation {
  std::string plugin{};
  std::string name{};
  std::int64_t required_bytes = 0;                 // 0: not said
  std::int64_t limit_bytes = 0;                    // 0: none
  std::vector<VolumeUsage> usages{VolumeUsage{}};  // at least one
  std::map<std::string, std::string> parameters{};
  std::map<std::string, std::string> mutable_parameters{};
  // Its content's; at most one of them.
  std::string source_snapshot{};
  std::string source_volume{};
  // Topologies.
  std::vector<std::map<std::string, std::string>> requisite{};
  std::vector<std::map<std::string, std::string>> preferred{};
  std::map<std::string, std::string> secrets{};
};

// A volume that a plugin has, on whichever node.
struct PluginVolume {
  std::string volume;               // its id
  std::int64_t capacity_bytes = 0;  // 0: not told
  std::map<std::string, std::string> volume_context;
  std::string source_snapshot;
  std::string source_volume;
  std::vector<std::map<std::string, std::string>> topology;
  // Of ListPluginVolumes alone.
  std::vector<std::string> published_node_ids;
  bool has_condition = false;  // its plugin tells it
  bool abnormal = false;
  std::string condition;
};

struct PageRequest {
  std::uint32_t max_entries = 0;  // 0: as many as mountd asks for by itself
  std::string starting_token{};   // the page before's next_token
};

struct PluginVolumePage {
  std::vector<PluginVolume> volumes;
  std::string next_token;  // "": there is no more
};

struct ControllerExpansionSpec {
  std::string plugin{};
  std::string volume{};
  std::int64_t required_bytes = 0;
  std::int64_t limit_bytes = 0;  // 0: none
  std::optional<VolumeUsage> usage{};
  std::map<std::string, std::string> secrets{};
};

struct ControllerExpansion {
  std::int64_t capacity_bytes = 0;
  bool node_expansion_required = false;  // ExpandVolume on its nodes
};

// Which of a plugin's storage is meant.
struct CapacityQuery {
  std::vector<VolumeUsage> usages{};
  std::map<std::string, std::string> parameters{};
  std::map<std::string, std::string> topology{};
};

struct PluginCapacity {
  std::int64_t available_bytes = 0;
  // If told.
  std::optional<std::int64_t> maximum_volume_bytes{};
  std::optional<std::int64_t> minimum_volume_bytes{};
};

// A call that has no method of its own.
struct ControllerCall {
  std::string plugin{};
  std::string rpc{};      // "CreateSnapshot"
  std::string request{};  // csi.v1.<rpc>Request as protobuf, without secrets
  std::map<std::string, std::string> secrets{};
};

}  // namespace mountd::agent
