// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "csi-node/csi_client.h"
#include "tests/support/call_script.h"
#include "tests/support/fake_executor.h"

namespace mountd::csi {

// Plugins without processes: what is staged and published where, answered as a
// plugin that keeps to the specification. Its mounts appear in the executor's
// model. CallScript's methods are the C++ names; objects are the plugin, or
// "<plugin> <volume id>". Thread-safe.
class FakeCsiClient final : public CsiClient {
 public:
  explicit FakeCsiClient(exec::FakeExecutor& executor) : executor_(executor) {}

  CallScript<RpcError>& script() { return script_; }
  void FailNext(const std::string& method, RpcCode code,
                FailWhen when = FailWhen::kBefore, std::size_t times = 1);

  // What a plugin says of itself; one not told of has node id "node-<plugin>",
  // stages, and is ready.
  struct Plugin {
    PluginInfo info;
    PluginCapabilities capabilities;
    NodeInfo node;
    VolumeStats stats;  // of any volume
    bool ready = true;
    bool leaves_mounts = false;   // NodeUnpublish answers OK and does nothing
    bool makes_nothing = false;   // NodePublish does
    bool bare_directory = false;  // publishes without a mount
    bool no_device = false;       // publishes a mount for a block device
  };
  static Plugin DefaultPlugin(const std::string& id);
  void SetPlugin(const std::string& id, Plugin plugin);
  void SetReady(const std::string& id, bool ready);

  // mountd-csi dies: all channels are gone.
  void LoseChannels();

  // "<plugin>/<generation>".
  std::vector<std::string> OpenChannels() const;
  // "<plugin> <volume id> at <staging part>", as the plugins have it.
  std::vector<std::string> Staged() const;
  std::vector<std::string> Published() const;
  // The last request of a kind, for what the text of a call leaves out.
  StageRequest last_stage() const;
  PublishRequest last_publish() const;
  ExpandRequest last_expand() const;
  // What every plugin's controller answers, kUnimplemented until it is told;
  // and the last call it got.
  using Controller =
      std::function<RpcResult<std::string>(const ControllerCall&)>;
  void SetController(Controller controller);
  ControllerCall last_controller_call() const;
  // Whether the last stage, publish or expansion, or controller call, came with
  // secrets.
  bool last_had_secrets() const;

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
  RpcResult<VolumeStats> NodeGetVolumeStats(
      const ChannelRef& ref, const std::string& volume_id,
      const std::string& volume_path, const std::string& staging_target_path,
      Clock::time_point deadline) override;
  RpcResult<std::string> CallController(const ChannelRef& ref,
                                        const ControllerCall& call,
                                        const UniqueFd& secrets,
                                        Clock::time_point deadline) override;

 private:
  using Place = std::pair<std::string, std::string>;  // plugin, part
  using Volumes = std::map<Place, std::string>;       // -> volume id

  // One RPC on an open channel.
  template <typename T, typename F>
  RpcResult<T> Run(const std::string& method, const ChannelRef& ref,
                   const std::string& volume_id, const F& effect);
  Plugin& PluginLocked(const std::string& id);
  static std::vector<std::string> TextsOf(const Volumes& volumes);

  exec::FakeExecutor& executor_;
  CallScript<RpcError> script_;
  mutable std::mutex mutex_;
  std::map<std::string, Plugin> plugins_;
  std::map<std::pair<std::string, std::uint64_t>, UniqueFd> channels_;
  Volumes staged_;
  Volumes published_;
  StageRequest last_stage_;
  PublishRequest last_publish_;
  ExpandRequest last_expand_;
  ControllerCall last_controller_call_;
  Controller controller_;
  bool last_had_secrets_ = false;
};

}  // namespace mountd::csi
