// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "csi-node/types/csi_client.h"

// The calls of the Controller service that the core knows by type. Each is one
// CsiClient::CallController. Names are those of the CSI specification.
namespace mountd::csi {

using Segments = std::map<std::string, std::string>;

struct CapacityRange {
  std::int64_t required_bytes = 0;  // 0: not specified
  std::int64_t limit_bytes = 0;     // 0: not specified
};

struct ControllerPublishRequest {
  std::string volume_id;
  std::string node_id;
  VolumeCapability capability;
  bool read_only = false;
  std::map<std::string, std::string> volume_context;
};

struct ControllerUnpublishRequest {
  std::string volume_id;
  std::string node_id;  // never empty, because that means all nodes
};

struct ValidateRequest {
  std::string volume_id;
  std::map<std::string, std::string> volume_context;
  std::vector<VolumeCapability> capabilities;
  std::map<std::string, std::string> parameters;
  std::map<std::string, std::string> mutable_parameters{};
};

struct CreateVolumeRequest {
  std::string name;
  CapacityRange capacity;
  std::vector<VolumeCapability> capabilities;
  std::map<std::string, std::string> parameters;
  std::map<std::string, std::string> mutable_parameters;
  std::string source_snapshot;  // at most one of the two
  std::string source_volume;
  std::vector<Segments> requisite;
  std::vector<Segments> preferred;
};

struct DeleteVolumeRequest {
  std::string volume_id;
};

struct ControllerExpandRequest {
  std::string volume_id;
  CapacityRange capacity;
  std::optional<VolumeCapability> capability;
};

struct ListVolumesRequest {
  std::int32_t max_entries = 0;
  std::string starting_token;
};

struct GetCapacityRequest {
  std::vector<VolumeCapability> capabilities;
  std::map<std::string, std::string> parameters;
  Segments topology;
};

// A volume as its controller describes it.
struct ControllerVolume {
  std::string volume_id;
  std::int64_t capacity_bytes = 0;  // 0: the plugin does not say
  std::map<std::string, std::string> volume_context;
  std::string source_snapshot;
  std::string source_volume;
  std::vector<Segments> topology;
};

struct Validation {
  bool confirmed = false;
  std::string message;  // why not; never shows a mount flag
};

struct ControllerExpansion {
  std::int64_t capacity_bytes = 0;
  bool node_expansion_required = false;
};

struct ListedVolume {
  ControllerVolume volume;
  std::vector<std::string> published_node_ids;
  std::optional<VolumeCondition> condition;
};

struct VolumePage {
  std::vector<ListedVolume> volumes;
  std::string next_token;  // empty: this is the last page
};

struct Capacity {
  std::int64_t available_bytes = 0;
  std::optional<std::int64_t> maximum_volume_bytes;
  std::optional<std::int64_t> minimum_volume_bytes;
};

// Convert a request to protobuf's JSON.
ControllerCall ToCall(const ControllerPublishRequest& request);
ControllerCall ToCall(const ControllerUnpublishRequest& request);
ControllerCall ToCall(const ValidateRequest& request);
ControllerCall ToCall(const CreateVolumeRequest& request);
ControllerCall ToCall(const DeleteVolumeRequest& request);
ControllerCall ToCall(const ControllerExpandRequest& request);
ControllerCall ToCall(const ListVolumesRequest& request);
ControllerCall ToCall(const GetCapacityRequest& request);

// Read an answer. They return nothing if the text is no such answer, or breaks
// the specification, for example by a volume without an id.
std::optional<std::map<std::string, std::string>> ReadPublishContext(
    const std::string& json);
// Reads whether the plugin confirms all that the request asked for. Compares
// the access modes, kinds and file systems if the plugin says which ones it
// confirms.
std::optional<Validation> ReadValidation(const std::string& json,
                                         const ValidateRequest& request);
std::optional<ControllerVolume> ReadCreatedVolume(const std::string& json);
std::optional<ControllerExpansion> ReadExpansion(const std::string& json);
std::optional<VolumePage> ReadVolumePage(const std::string& json);
std::optional<Capacity> ReadCapacity(const std::string& json);

}  // namespace mountd::csi
