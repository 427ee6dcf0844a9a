// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "csi-node/types/csi_client.h"
#include "mountd/base/trace_parent.h"

// Defines the messages between mountd and mountd-csi, and their only codec:
// CBOR, one message a frame (ipc/frame_socket.h). Decoders trust nothing: they
// check every field's presence, type and size, bound the nesting, and never
// throw.
namespace mountd::csi::ipc {

enum class Method : std::uint32_t {
  kOpen = 1,  // the frame's fd is the connected plugin socket
  kClose = 2,
  kProbe = 3,
  kGetPluginInfo = 4,
  kGetCapabilities = 5,
  kNodeGetInfo = 6,
  kNodeStageVolume = 7,  // the frame's fd, if any, is the secrets' memfd
  kNodeUnstageVolume = 8,
  kNodePublishVolume = 9,  // as kNodeStageVolume
  kNodeUnpublishVolume = 10,
  kNodeExpandVolume = 11,  // as kNodeStageVolume
  kNodeGetVolumeStats = 12,
  kCallController = 13,       // as kNodeStageVolume
  kNodeGetVolumeHealth = 14,  // answered by VolumeStats with a condition
};
inline constexpr Method kLastMethod = Method::kNodeGetVolumeHealth;

struct UnstageRequest {
  std::string volume_id;
  std::string staging_target_path;
};

struct UnpublishRequest {
  std::string volume_id;
  std::string target_path;
};

struct StatsRequest {
  std::string volume_id;
  std::string volume_path;
  std::string staging_target_path;
};

using Arguments =
    std::variant<std::monostate, StageRequest, UnstageRequest, PublishRequest,
                 UnpublishRequest, ExpandRequest, StatsRequest, ControllerCall>;

struct Request {
  std::uint64_t id = 0;  // unique among a connection's calls in flight
  Method method = Method::kProbe;
  ChannelRef channel;
  // The deadline on CLOCK_MONOTONIC, which both ends share. So a request that
  // waited in the socket of a stopped process is late, and gets no new time.
  std::int64_t deadline_ms = 0;
  Arguments arguments;
  // The trace that the call is part of. The plugin gets it as the metadata
  // "traceparent", as gRPC's callers send W3C Trace Context.
  std::optional<TraceParent> trace = {};
};

struct ProbeResult {
  bool ready = false;
};

struct ExpandResult {
  std::int64_t capacity_bytes = 0;
};

struct ControllerAnswer {
  std::string response;
};

using Answer =
    std::variant<std::monostate, ProbeResult, PluginInfo, PluginCapabilities,
                 NodeInfo, ExpandResult, VolumeStats, ControllerAnswer>;

struct Reply {
  std::uint64_t id = 0;
  RpcCode code = RpcCode::kOk;
  std::string message;  // empty if kOk
  Answer answer;        // monostate unless kOk
};

// Bounds of the fields, the CSI specification's if it has one.
inline constexpr std::size_t kMaxText = 128;  // a field without its own
inline constexpr std::size_t kMaxNodeId = 256;
inline constexpr std::size_t kMaxPluginName = 63;
inline constexpr std::size_t kMaxMapBytes = 4096;  // keys and values together
inline constexpr std::size_t kMaxMountFlagsBytes = 4096;
inline constexpr std::size_t kMaxCapabilities = 64;  // of one kind
inline constexpr std::size_t kMaxUsages = 8;         // of a volume
inline constexpr std::size_t kMaxMessage = 1024;
inline constexpr std::size_t kMaxPath = 4095;
inline constexpr std::size_t kMaxControllerRequest = std::size_t{256} << 10U;
// mountd-csi bounds a plugin's answer more narrowly, but the answer's JSON is
// longer.
inline constexpr std::size_t kMaxControllerAnswer = std::size_t{3} << 20U;

// Returns the call's name in the CSI specification, "NodeStageVolume"; "" for
// kOpen and kClose, which mountd-csi answers itself.
std::string RpcName(const Request& request);

bool FitsText(const std::string& text, std::size_t max_bytes);
bool FitsMap(const std::map<std::string, std::string>& map);

std::vector<std::uint8_t> Encode(const Request& request);
std::vector<std::uint8_t> Encode(const Reply& reply);

// InvalidArgument for bytes that Encode cannot have made.
Result<Request> DecodeRequest(const std::vector<std::uint8_t>& bytes);
Result<Reply> DecodeReply(const std::vector<std::uint8_t>& bytes);

}  // namespace mountd::csi::ipc
