// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/types.h"

// The values that an agent sends through mountd to plugins' controllers and
// gets from them. The client sends secrets as it does for a VolumeSpec.
namespace mountd::agent {

struct ControllerPublishSpec {
  bool operator==(const ControllerPublishSpec&) const = default;

  std::string plugin{};
  std::string volume{};
  std::string node_id{};  // PluginStatus::node_id of that node's plugin
  VolumeUsage usage{};
  std::map<std::string, std::string> volume_context{};
  std::map<std::string, std::string> secrets{};
};

struct VolumeValidationSpec {
  bool operator==(const VolumeValidationSpec&) const = default;

  std::string plugin{};
  std::string volume{};
  VolumeUsage usage{};
  std::map<std::string, std::string> volume_context{};
  std::map<std::string, std::string> parameters{};  // as given to CreateVolume
  std::map<std::string, std::string> secrets{};
  std::map<std::string, std::string> mutable_parameters{};
};

struct VolumeValidation {
  bool operator==(const VolumeValidation&) const = default;

  bool confirmed = false;  // the volume can do all that was asked
  std::string message;     // the plugin's message, or the reason why not
};

struct VolumeCreation {
  bool operator==(const VolumeCreation&) const = default;

  std::string plugin{};
  std::string name{};
  std::int64_t required_bytes = 0;                 // 0: not specified
  std::int64_t limit_bytes = 0;                    // 0: no limit
  std::vector<VolumeUsage> usages{VolumeUsage{}};  // at least one
  std::map<std::string, std::string> parameters{};
  std::map<std::string, std::string> mutable_parameters{};
  // The source of the volume's content; at most one of the two.
  std::string source_snapshot{};
  std::string source_volume{};
  // Topologies from which the volume must be, or should be, reachable.
  std::vector<std::map<std::string, std::string>> requisite{};
  std::vector<std::map<std::string, std::string>> preferred{};
  std::map<std::string, std::string> secrets{};
};

// A volume that a plugin has, on any node.
struct PluginVolume {
  bool operator==(const PluginVolume&) const = default;

  std::string volume;               // its id
  std::int64_t capacity_bytes = 0;  // 0: unknown
  std::map<std::string, std::string> volume_context;
  std::string source_snapshot;
  std::string source_volume;
  std::vector<std::map<std::string, std::string>> topology;
  // Set by ListPluginVolumes only.
  std::vector<std::string> published_node_ids;
  bool has_condition = false;  // the plugin reports a condition
  bool abnormal = false;
  std::string condition;
};

struct PageRequest {
  bool operator==(const PageRequest&) const = default;

  std::uint32_t max_entries = 0;  // 0: mountd's default
  std::string starting_token{};   // next_token of the previous page
};

struct PluginVolumePage {
  bool operator==(const PluginVolumePage&) const = default;

  std::vector<PluginVolume> volumes;
  std::string next_token;  // "": this is the last page
};

struct ControllerExpansionSpec {
  bool operator==(const ControllerExpansionSpec&) const = default;

  std::string plugin{};
  std::string volume{};
  std::int64_t required_bytes = 0;
  std::int64_t limit_bytes = 0;  // 0: none
  std::optional<VolumeUsage> usage{};
  std::map<std::string, std::string> secrets{};
};

struct ControllerExpansion {
  bool operator==(const ControllerExpansion&) const = default;

  std::int64_t capacity_bytes = 0;
  bool node_expansion_required = false;  // call ExpandVolume on its nodes
};

// Selects a part of a plugin's storage.
struct CapacityQuery {
  bool operator==(const CapacityQuery&) const = default;

  std::vector<VolumeUsage> usages{};
  std::map<std::string, std::string> parameters{};
  std::map<std::string, std::string> topology{};
};

struct PluginCapacity {
  bool operator==(const PluginCapacity&) const = default;

  std::int64_t available_bytes = 0;
  // Absent if the plugin does not say.
  std::optional<std::int64_t> maximum_volume_bytes{};
  std::optional<std::int64_t> minimum_volume_bytes{};
};

// A call that has no method of its own in Client.
struct ControllerCall {
  bool operator==(const ControllerCall&) const = default;

  std::string plugin{};
  std::string rpc{};      // "CreateSnapshot"
  std::string request{};  // csi.v1.<rpc>Request as protobuf, without secrets
  std::map<std::string, std::string> secrets{};
};

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const ControllerPublishSpec& value);
std::ostream& operator<<(std::ostream& out, const VolumeValidationSpec& value);
std::ostream& operator<<(std::ostream& out, const VolumeValidation& value);
std::ostream& operator<<(std::ostream& out, const VolumeCreation& value);
std::ostream& operator<<(std::ostream& out, const PluginVolume& value);
std::ostream& operator<<(std::ostream& out, const PageRequest& value);
std::ostream& operator<<(std::ostream& out, const PluginVolumePage& value);
std::ostream& operator<<(std::ostream& out,
                         const ControllerExpansionSpec& value);
std::ostream& operator<<(std::ostream& out, const ControllerExpansion& value);
std::ostream& operator<<(std::ostream& out, const CapacityQuery& value);
std::ostream& operator<<(std::ostream& out, const PluginCapacity& value);
std::ostream& operator<<(std::ostream& out, const ControllerCall& value);

}  // namespace mountd::agent
