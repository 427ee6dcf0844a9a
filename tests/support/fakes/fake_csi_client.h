// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "csi-node/types/csi_client.h"
#include "tests/support/fakes/call_script.h"
#include "tests/support/fakes/fake_executor.h"

namespace mountd::csi {

// Models plugins without processes, as plugins that keep to the specification
// answer. Records which volume is staged and published where, and shows the
// plugins' mounts in the executor's model. CallScript's methods are the C++
// names; its objects are the plugin, or "<plugin> <volume id>". Thread-safe.
class FakeCsiClient final : public CsiClient {
 public:
  explicit FakeCsiClient(exec::FakeExecutor& executor) : executor_(executor) {}

  CallScript<RpcError>& script() { return script_; }
  void FailNext(const std::string& method, RpcCode code,
                FailWhen when = FailWhen::kBefore, std::size_t times = 1);

  // The answers of a plugin about itself. A plugin that no test has set has the
  // node id "node-<plugin>", stages, and is ready.
  struct Plugin {
    PluginInfo info;
    PluginCapabilities capabilities;
    NodeInfo node;
    VolumeStats stats;       // of any volume
    VolumeCondition health;  // of any volume
    bool ready = true;
    bool leaves_mounts = false;   // NodeUnpublish answers OK and does nothing
    bool makes_nothing = false;   // NodePublish answers OK and does nothing
    bool bare_directory = false;  // publishes without a mount
    bool no_device = false;       // publishes a mount for a block device
  };
  static Plugin DefaultPlugin(const std::string& id);
  void SetPlugin(const std::string& id, Plugin plugin);
  void SetReady(const std::string& id, bool ready);

  // Ends mountd-csi, and with it all channels.
  void LoseChannels();

  // Returns "<plugin>/<generation>" of each open channel.
  std::vector<std::string> OpenChannels() const;
  // Return "<plugin> <volume id> at <staging part>" of each volume that the
  // plugins have.
  std::vector<std::string> Staged() const;
  std::vector<std::string> Published() const;
  // Return the last request of a kind, with the fields that the text of a call
  // leaves out.
  StageRequest last_stage() const;
  PublishRequest last_publish() const;
  ExpandRequest last_expand() const;
  // Sets the answer of every plugin's controller, which is kUnimplemented at
  // first, and returns the last call that a controller got.
  using Controller =
      std::function<RpcResult<std::string>(const ControllerCall&)>;
  void SetController(Controller controller);
  ControllerCall last_controller_call() const;
  // True if the last stage, publish, expansion or controller call came with
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
  using Place = std::pair<std::string, std::string>;  // plugin, part
  using Volumes = std::map<Place, std::string>;       // -> volume id

  // Makes one RPC on an open channel.
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
