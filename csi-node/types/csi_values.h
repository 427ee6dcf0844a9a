// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "csi-node/types/rpc_error.h"

// The values of CSI calls in the core's terms: plain values, no gRPC, no
// protobuf, because only mountd-csi links those. Names are those of the CSI
// specification 1.x.
namespace mountd::csi {

enum class AccessMode : int {
  kSingleNodeWriter = 1,
  kSingleNodeReaderOnly = 2,
  kMultiNodeReaderOnly = 3,
  kMultiNodeSingleWriter = 4,
  kMultiNodeMultiWriter = 5,
  kSingleNodeSingleWriter = 6,
  kSingleNodeMultiWriter = 7,
};

struct VolumeCapability {
  bool block = false;  // block-device attachment; else a file system
  AccessMode access_mode = AccessMode::kSingleNodeWriter;
  std::string fs_type;
  std::vector<std::string> mount_flags;  // never logged
  std::string volume_mount_group;
};

struct PluginInfo {
  std::string name;
  std::string vendor_version;
  friend bool operator==(const PluginInfo&, const PluginInfo&) = default;
};

// Numbers of PluginCapability.Service.Type,
// ControllerServiceCapability.RPC.Type and NodeServiceCapability.RPC.Type,
// including unknown ones.
struct PluginCapabilities {
  std::vector<int> services;
  std::vector<int> controller_rpcs;
  std::vector<int> node_rpcs;
  friend bool operator==(const PluginCapabilities&,
                         const PluginCapabilities&) = default;
};

// NodeServiceCapability.RPC.Type
enum class NodeRpc : int {
  kStageUnstageVolume = 1,
  kGetVolumeStats = 2,
  kExpandVolume = 3,
  kVolumeCondition = 4,
  kSingleNodeMultiWriter = 5,
  kVolumeMountGroup = 6,
  kGetVolumeHealth = 7,  // from 1.13 on, in the place of kVolumeCondition
};

bool Offers(const PluginCapabilities& capabilities, NodeRpc rpc);

struct NodeInfo {
  std::string node_id;
  std::int64_t max_volumes = 0;  // 0: the plugin sets no limit
  std::map<std::string, std::string> topology;
  friend bool operator==(const NodeInfo&, const NodeInfo&) = default;
};

// The plugin's description of itself. mountd checks only its size and UTF-8,
// and does not trust it.
struct Fingerprint {
  PluginInfo info;
  PluginCapabilities capabilities;
  NodeInfo node;  // of node and monolith plugins
  friend bool operator==(const Fingerprint&, const Fingerprint&) = default;
};

struct StageRequest {
  std::string volume_id;
  std::map<std::string, std::string> publish_context;
  std::string staging_target_path;  // as the plugin sees it
  VolumeCapability capability;
  std::map<std::string, std::string> volume_context;
};

struct PublishRequest {
  std::string volume_id;
  std::map<std::string, std::string> publish_context;
  std::string staging_target_path;  // empty if the plugin stages nothing
  std::string target_path;
  VolumeCapability capability;
  bool read_only = false;
  std::map<std::string, std::string> volume_context;
};

struct ExpandRequest {
  std::string volume_id;
  std::string volume_path;
  std::string staging_target_path;
  std::int64_t required_bytes = 0;  // 0: not specified
  std::int64_t limit_bytes = 0;     // 0: not specified
  VolumeCapability capability;
};

// A claim of the plugin, checked for size and UTF-8 only.
struct VolumeCondition {
  bool abnormal = false;
  std::string message;  // up to 1 KiB, without control characters
  friend bool operator==(const VolumeCondition&,
                         const VolumeCondition&) = default;
};

struct VolumeStats {
  struct Usage {
    std::int64_t available = 0;
    std::int64_t total = 0;
    std::int64_t used = 0;
    bool inodes = false;  // else bytes
  };
  std::vector<Usage> usage;
  std::optional<VolumeCondition> condition;  // absent: the plugin does not say
};

// Any call of a controller service. Request and answer are the messages
// csi.v1.<rpc>Request and csi.v1.<rpc>Response, as protobuf writes them. They
// never contain secrets.
struct ControllerCall {
  enum class Form : int {
    kJson =
        0,  // protobuf's JSON; enumerations as numbers, names as in the file
    kBytes = 1,  // the serialized message
  };
  std::string rpc;
  Form form = Form::kJson;
  std::string request;
};

}  // namespace mountd::csi
