// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/types.h"
#include "mountd/base/result.h"

// Encodes and decodes the messages about snapshots that Client::CallController
// takes as bytes, in protobuf's wire format
// (protobuf.dev/programming-guides/encoding). Field numbers are those of
// csi.proto in CSI 1.13. mountctl does this without the protobuf library,
// because three requests of texts do not justify that library in the programs
// of every agent. The messages have no secrets, because mountd takes secrets
// apart from the request.
namespace mountd::agent {

struct SnapshotCreation {
  std::string source_volume{};
  std::string name{};
  std::map<std::string, std::string> parameters{};
};

struct SnapshotQuery {
  std::int32_t max_entries = 0;  // 0: as many as the plugin chooses
  std::string starting_token{};
  std::string source_volume{};  // only of this volume
  std::string snapshot{};       // only this one
};

struct Snapshot {
  std::string snapshot;  // its id
  std::string source_volume;
  std::int64_t size_bytes = 0;  // 0: unknown
  // Absent if the plugin does not say, or the time is outside protobuf's range
  // (years 1 to 9999).
  std::optional<Timestamp> creation_time{};
  bool ready_to_use = false;
  std::string group_snapshot;
};

struct SnapshotPage {
  std::vector<Snapshot> snapshots;
  std::string next_token;  // "": this is the last page
};

// Encode csi.v1.CreateSnapshotRequest, DeleteSnapshotRequest,
// ListSnapshotsRequest.
std::string EncodeCreateSnapshot(const SnapshotCreation& creation);
std::string EncodeDeleteSnapshot(std::string_view snapshot);
std::string EncodeListSnapshots(const SnapshotQuery& query);

// Decode csi.v1.CreateSnapshotResponse, ListSnapshotsResponse. They ignore
// unknown fields. Internal if the bytes are not protobuf.
Result<Snapshot> DecodeCreateSnapshot(std::string_view response);
Result<SnapshotPage> DecodeListSnapshots(std::string_view response);

}  // namespace mountd::agent
