// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "csi-node/types/csi_values.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// CSI calls in the core's terms, as an interface.
namespace mountd::csi {

using Clock = std::chrono::steady_clock;

// Identifies the connection of a plugin that a call goes to. Each reconnect
// makes a new channel with the next generation, so that an answer of an old
// channel is never taken for one of the new channel.
struct ChannelRef {
  std::string plugin;
  std::uint64_t generation = 0;
};

// The interface for RPCs. Methods block until the answer, the deadline, or the
// death of mountd-csi or of the channel (kUnavailable). Several workers call
// them at once. `secrets` is a sealed memfd whose encoding needs no protobuf
// (csi-node/types/secrets.h) and that mountd never reads; an invalid fd means
// no secrets.
class CsiClient {
 public:
  virtual ~CsiClient() = default;

  // Hands a connected plugin socket to mountd-csi as the channel `ref`.
  virtual RpcResult<void> Open(const ChannelRef& ref, UniqueFd socket) = 0;
  virtual void Close(const ChannelRef& ref) = 0;

  // Returns true if the plugin is ready. An absent `ready` field means ready
  // (CSI spec).
  virtual RpcResult<bool> Probe(const ChannelRef& ref,
                                Clock::time_point deadline) = 0;
  virtual RpcResult<PluginInfo> GetPluginInfo(const ChannelRef& ref,
                                              Clock::time_point deadline) = 0;
  // Calls GetPluginCapabilities, and NodeGetCapabilities and
  // ControllerGetCapabilities if the plugin has these services.
  virtual RpcResult<PluginCapabilities> GetCapabilities(
      const ChannelRef& ref, Clock::time_point deadline) = 0;
  virtual RpcResult<NodeInfo> NodeGetInfo(const ChannelRef& ref,
                                          Clock::time_point deadline) = 0;

  virtual RpcResult<void> NodeStageVolume(const ChannelRef& ref,
                                          const StageRequest& request,
                                          const UniqueFd& secrets,
                                          Clock::time_point deadline) = 0;
  virtual RpcResult<void> NodeUnstageVolume(
      const ChannelRef& ref, const std::string& volume_id,
      const std::string& staging_target_path, Clock::time_point deadline) = 0;
  virtual RpcResult<void> NodePublishVolume(const ChannelRef& ref,
                                            const PublishRequest& request,
                                            const UniqueFd& secrets,
                                            Clock::time_point deadline) = 0;
  virtual RpcResult<void> NodeUnpublishVolume(const ChannelRef& ref,
                                              const std::string& volume_id,
                                              const std::string& target_path,
                                              Clock::time_point deadline) = 0;
  // Returns the new capacity in bytes, 0 if the plugin does not say.
  virtual RpcResult<std::int64_t> NodeExpandVolume(
      const ChannelRef& ref, const ExpandRequest& request,
      const UniqueFd& secrets, Clock::time_point deadline) = 0;
  virtual RpcResult<VolumeStats> NodeGetVolumeStats(
      const ChannelRef& ref, const std::string& volume_id,
      const std::string& volume_path, const std::string& staging_target_path,
      Clock::time_point deadline) = 0;

  // Returns the health as a condition: abnormal if the plugin lists anything.
  virtual RpcResult<VolumeCondition> NodeGetVolumeHealth(
      const ChannelRef& ref, const std::string& volume_id,
      const std::string& volume_publish_path,
      const std::string& staging_target_path, Clock::time_point deadline) = 0;

  // Returns the answer in the request's form. Errors:
  // - kInvalidArgument, before anything is sent, for a request with an unknown
  //   field or with secrets in it.
  // - kUnimplemented for an RPC that no controller service has.
  // - kDataLoss for an answer beyond its bounds; the plugin has carried out the
  //   call then.
  virtual RpcResult<std::string> CallController(const ChannelRef& ref,
                                                const ControllerCall& call,
                                                const UniqueFd& secrets,
                                                Clock::time_point deadline) = 0;
};

}  // namespace mountd::csi
