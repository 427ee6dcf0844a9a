// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "csi-node/types/csi_client.h"

namespace mountd::csi {

class CsiSession;

namespace ipc {
struct Request;
struct Reply;
}  // namespace ipc

// Implements CsiClient by the mountd-csi process. Thread-safe.
//
// Connects at the first Open. When mountd-csi dies, all calls in flight end
// with kUnavailable at once, and so do all later ones, except Open: the next
// Open connects again. The channels of a lost connection are lost, too: calls
// on them return kUnavailable until a new generation is opened. Disconnects
// when the last channel is closed.
class CsiChannelClient final : public CsiClient {
 public:
  // Returns a connected SOCK_STREAM socket to mountd-csi; must not block for
  // long.
  using Connect = std::function<Result<UniqueFd>()>;

  // Calls `on_disconnect` each time a connection is lost, from a thread of this
  // object. `on_disconnect` may post and notify, but must not call back or
  // block.
  explicit CsiChannelClient(Connect connect = ConnectToCsiSocket,
                            std::function<void()> on_disconnect = {});
  // The caller makes sure that no call is in progress.
  ~CsiChannelClient() override;

  CsiChannelClient(const CsiChannelClient&) = delete;
  CsiChannelClient& operator=(const CsiChannelClient&) = delete;

  // Connects to paths::kCsiSocket.
  static Result<UniqueFd> ConnectToCsiSocket();

  RpcResult<void> Open(const ChannelRef& ref, UniqueFd socket) override;
  void Close(const ChannelRef& ref) override;
  RpcResult<bool> Probe(const ChannelRef& ref,
                        Clock::time_point deadline) override;
  RpcResult<PluginInfo> GetPluginInfo(const ChannelRef& ref,
                                      Clock::time_point deadline) override;
  RpcResult<PluginCapabilities> GetCapabilities(
      const ChannelRef& ref, Clock::time_point deadline) override;
  RpcResult<NodeInfo> NodeGetInfo(const ChannelRef& ref,
                                  Clock::time_point deadline) override;
  RpcResult<void> NodeStageVolume(const ChannelRef& ref,
                                  const StageRequest& request,
                                  const UniqueFd& secrets,
                                  Clock::time_point deadline) override;
  RpcResult<void> NodeUnstageVolume(const ChannelRef& ref,
                                    const std::string& volume_id,
                                    const std::string& staging_target_path,
                                    Clock::time_point deadline) override;
  RpcResult<void> NodePublishVolume(const ChannelRef& ref,
                                    const PublishRequest& request,
                                    const UniqueFd& secrets,
                                    Clock::time_point deadline) override;
  RpcResult<void> NodeUnpublishVolume(const ChannelRef& ref,
                                      const std::string& volume_id,
                                      const std::string& target_path,
                                      Clock::time_point deadline) override;
  RpcResult<std::int64_t> NodeExpandVolume(const ChannelRef& ref,
                                           const ExpandRequest& request,
                                           const UniqueFd& secrets,
                                           Clock::time_point deadline) override;
  RpcResult<VolumeCondition> NodeGetVolumeHealth(
      const ChannelRef& ref, const std::string& volume_id,
      const std::string& volume_publish_path,
      const std::string& staging_target_path,
      Clock::time_point deadline) override;
  RpcResult<VolumeStats> NodeGetVolumeStats(
      const ChannelRef& ref, const std::string& volume_id,
      const std::string& volume_path, const std::string& staging_target_path,
      Clock::time_point deadline) override;
  RpcResult<std::string> CallController(const ChannelRef& ref,
                                        const ControllerCall& call,
                                        const UniqueFd& secrets,
                                        Clock::time_point deadline) override;

 private:
  // Returns the living session, or null.
  std::shared_ptr<CsiSession> Current();
  RpcResult<std::shared_ptr<CsiSession>> CurrentOrConnect(
      const ChannelRef& ref);
  void ReapRetired();
  // Forgets a channel that is closed or was never opened. Disconnects with the
  // last channel.
  void Forget(const ChannelRef& ref);
  RpcResult<ipc::Reply> Call(ipc::Request request, const UniqueFd& secrets,
                             Clock::time_point deadline);
  RpcResult<void> CallForNothing(ipc::Request request, const UniqueFd& secrets,
                                 Clock::time_point deadline);
  template <typename T>
  RpcResult<T> CallFor(ipc::Request request, const UniqueFd& secrets,
                       Clock::time_point deadline);

  const Connect connect_;
  const std::function<void()> on_disconnect_;
  std::mutex mutex_;
  std::shared_ptr<CsiSession> session_;  // mutex_
  // The channels of session_, open or being opened: plugin, generation.
  std::set<std::pair<std::string, std::uint64_t>> channels_;  // mutex_
  // Dead sessions whose thread may still be in on_disconnect.
  std::vector<std::shared_ptr<CsiSession>> retired_;  // mutex_
};

}  // namespace mountd::csi
