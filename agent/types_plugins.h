// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "agent/types_timestamp.h"

// CSI plugins: the requests to register and unregister one, and a plugin's
// state.
namespace mountd::agent {

enum class PluginType { kNode, kController, kMonolith };

struct PluginSpec {
  bool operator==(const PluginSpec&) const = default;

  std::string plugin{};
  PluginType type = PluginType::kNode;
  std::string allocation{};              // "": of no allocation
  std::string mount_dir{};               // "": the path on the host
  std::string stage_publish_base_dir{};  // "": in mount_dir
  bool bare_directories = false;
  std::chrono::milliseconds health_timeout{0};  // 0: mountd's configured time
};

// Selects instances of a plugin to unregister.
struct PluginSelection {
  bool operator==(const PluginSelection&) const = default;

  std::optional<PluginType> type{};
  std::optional<std::string> allocation{};
  bool force = false;  // even while volumes of the plugin are staged
};

struct PluginMount {
  bool operator==(const PluginMount&) const = default;

  std::string host_path;
  std::string task_path;
  bool read_only = false;
  std::string propagation;
};

// Describes this node in the words of a plugin (CSI: NodeGetInfo).
struct NodeInfo {
  bool operator==(const NodeInfo&) const = default;

  std::string node_id;
  std::int64_t max_volumes = 0;  // 0: no limit
  std::map<std::string, std::string> topology;
  std::vector<std::string> changed;  // the names of the members that changed
};

struct PluginRegistration {
  bool operator==(const PluginRegistration&) const = default;

  std::string host_path;
  std::string endpoint;  // the value of CSI_ENDPOINT
  std::vector<PluginMount> mounts;
};

// Describes the instance that node calls go to. `instances` describes each
// instance.
struct PluginStatus {
  bool operator==(const PluginStatus& other) const;

  std::string id;
  std::string type;
  std::uint32_t uid = 0;
  std::string allocation;
  std::string state;  // "starting", "healthy", "unhealthy", "gone"
  std::string reason;
  std::string provider;
  std::string vendor_version;
  std::string node_id;
  std::int64_t max_volumes = 0;  // 0: no limit
  std::map<std::string, std::string> topology;
  // The names of the CSI specification ("STAGE_UNSTAGE_VOLUME"). A capability
  // that this release of the client does not know is its number ("4711").
  std::vector<std::string> node_capabilities;
  std::vector<std::string> controller_capabilities;
  std::vector<std::string> plugin_capabilities;
  std::uint64_t generation = 0;
  std::string mount_dir;
  std::string stage_publish_base_dir;
  bool bare_directories = false;
  Timestamp update_time;
  std::vector<PluginStatus> instances;  // the newest first
};

// Returns whether the plugin needs its controller: an instance says that the
// plugin has a CONTROLLER_SERVICE. False as long as no instance was healthy.
bool ControllerRequired(const PluginStatus& plugin);

// Print the values for logs and tests, without secrets.
std::ostream& operator<<(std::ostream& out, const PluginSpec& value);
std::ostream& operator<<(std::ostream& out, const PluginSelection& value);
std::ostream& operator<<(std::ostream& out, const PluginMount& value);
std::ostream& operator<<(std::ostream& out, const PluginRegistration& value);
std::ostream& operator<<(std::ostream& out, const PluginStatus& value);
std::ostream& operator<<(std::ostream& out, const NodeInfo& value);

}  // namespace mountd::agent
