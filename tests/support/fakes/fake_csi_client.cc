// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/fakes/fake_csi_client.h"

namespace mountd::csi {
namespace {

constexpr int kStageUnstage = 1;  // NodeServiceCapability.RPC.Type
constexpr int kSingleNodeMultiWriter = 5;
constexpr int kVolumeMountGroup = 6;
constexpr int kControllerService = 1;  // PluginCapability.Service.Type

// Returns "staging/<key>" or "publish/<allocation>/<key>" of a path, in
// whatever directory the plugin sees it.
std::string PartOf(const std::string& path) {
  const std::size_t staging = path.rfind("/staging/");
  const std::size_t publish = path.rfind("/publish/");
  const std::size_t at = staging != std::string::npos ? staging : publish;
  return at == std::string::npos ? path : path.substr(at + 1);
}

}  // namespace

void FakeCsiClient::FailNext(const std::string& method, RpcCode code,
                             FailWhen when, std::size_t times) {
  script_.FailNext(method, {code, "as the test wants"}, when, times);
}

FakeCsiClient::Plugin FakeCsiClient::DefaultPlugin(const std::string& id) {
  Plugin plugin;
  plugin.info = {"fake.example", "1.0"};
  plugin.capabilities.services = {kControllerService};
  plugin.capabilities.node_rpcs = {kStageUnstage, kSingleNodeMultiWriter,
                                   kVolumeMountGroup};
  plugin.node.node_id = "node-" + id;
  plugin.node.topology = {{"zone", "z1"}};
  return plugin;
}

FakeCsiClient::Plugin& FakeCsiClient::PluginLocked(const std::string& id) {
  return plugins_.emplace(id, DefaultPlugin(id)).first->second;
}

void FakeCsiClient::SetPlugin(const std::string& id, Plugin plugin) {
  const std::lock_guard lock(mutex_);
  plugins_.insert_or_assign(id, std::move(plugin));
}

void FakeCsiClient::SetReady(const std::string& id, bool ready) {
  const std::lock_guard lock(mutex_);
  PluginLocked(id).ready = ready;
}

void FakeCsiClient::LoseChannels() {
  const std::lock_guard lock(mutex_);
  channels_.clear();
}

std::vector<std::string> FakeCsiClient::OpenChannels() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> all;
  for (const auto& [channel, socket] : channels_) {
    all.push_back(channel.first + "/" + std::to_string(channel.second));
  }
  return all;
}

std::vector<std::string> FakeCsiClient::TextsOf(const Volumes& volumes) {
  std::vector<std::string> all;
  for (const auto& [place, volume_id] : volumes) {
    all.push_back(place.first + " " + volume_id + " at " + place.second);
  }
  return all;
}

std::vector<std::string> FakeCsiClient::Staged() const {
  const std::lock_guard lock(mutex_);
  return TextsOf(staged_);
}

std::vector<std::string> FakeCsiClient::Published() const {
  const std::lock_guard lock(mutex_);
  return TextsOf(published_);
}

StageRequest FakeCsiClient::last_stage() const {
  const std::lock_guard lock(mutex_);
  return last_stage_;
}

PublishRequest FakeCsiClient::last_publish() const {
  const std::lock_guard lock(mutex_);
  return last_publish_;
}

ExpandRequest FakeCsiClient::last_expand() const {
  const std::lock_guard lock(mutex_);
  return last_expand_;
}

bool FakeCsiClient::last_had_secrets() const {
  const std::lock_guard lock(mutex_);
  return last_had_secrets_;
}

template <typename T, typename F>
RpcResult<T> FakeCsiClient::Run(const std::string& method,
                                const ChannelRef& ref,
                                const std::string& volume_id, const F& effect) {
  const std::string object =
      volume_id.empty() ? ref.plugin : ref.plugin + " " + volume_id;
  return script_.Run<RpcResult<T>>(method, object, [&]() -> RpcResult<T> {
    const std::lock_guard lock(mutex_);
    if (!channels_.contains({ref.plugin, ref.generation})) {
      return RpcError{RpcCode::kUnavailable, "no such channel"};
    }
    return effect(PluginLocked(ref.plugin));
  });
}

RpcResult<void> FakeCsiClient::Open(const ChannelRef& ref, UniqueFd socket) {
  return script_.Run<
      RpcResult<void>>("Open", ref.plugin, [&]() -> RpcResult<void> {
    const std::lock_guard lock(mutex_);
    channels_.insert_or_assign({ref.plugin, ref.generation}, std::move(socket));
    return {};
  });
}

void FakeCsiClient::Close(const ChannelRef& ref) {
  const std::lock_guard lock(mutex_);
  channels_.erase({ref.plugin, ref.generation});
}

RpcResult<bool> FakeCsiClient::Probe(const ChannelRef& ref,
                                     Clock::time_point /*deadline*/) {
  return Run<bool>("Probe", ref, "",
                   [](const Plugin& plugin) { return plugin.ready; });
}

RpcResult<PluginInfo> FakeCsiClient::GetPluginInfo(
    const ChannelRef& ref, Clock::time_point /*deadline*/) {
  return Run<PluginInfo>("GetPluginInfo", ref, "",
                         [](const Plugin& plugin) { return plugin.info; });
}

RpcResult<PluginCapabilities> FakeCsiClient::GetCapabilities(
    const ChannelRef& ref, Clock::time_point /*deadline*/) {
  return Run<PluginCapabilities>(
      "GetCapabilities", ref, "",
      [](const Plugin& plugin) { return plugin.capabilities; });
}

RpcResult<NodeInfo> FakeCsiClient::NodeGetInfo(const ChannelRef& ref,
                                               Clock::time_point /*deadline*/) {
  return Run<NodeInfo>("NodeGetInfo", ref, "",
                       [](const Plugin& plugin) { return plugin.node; });
}

RpcResult<void> FakeCsiClient::NodeStageVolume(const ChannelRef& ref,
                                               const StageRequest& request,
                                               const UniqueFd& secrets,
                                               Clock::time_point /*deadline*/) {
  return Run<void>(
      "NodeStageVolume", ref, request.volume_id,
      [&](const Plugin& /*plugin*/) -> RpcResult<void> {
        last_stage_ = request;
        last_had_secrets_ = secrets.valid();
        const std::string part = PartOf(request.staging_target_path);
        if (staged_.emplace(Place{ref.plugin, part}, request.volume_id)
                .second) {
          executor_.PutVolume(ref.plugin, part);
        }
        return {};
      });
}

RpcResult<void> FakeCsiClient::NodeUnstageVolume(
    const ChannelRef& ref, const std::string& volume_id,
    const std::string& staging_target_path, Clock::time_point /*deadline*/) {
  return Run<void>("NodeUnstageVolume", ref, volume_id,
                   [&](const Plugin& /*plugin*/) -> RpcResult<void> {
                     const std::string part = PartOf(staging_target_path);
                     staged_.erase({ref.plugin, part});
                     executor_.TakeVolume(ref.plugin, part);
                     return {};
                   });
}

RpcResult<void> FakeCsiClient::NodePublishVolume(
    const ChannelRef& ref, const PublishRequest& request,
    const UniqueFd& secrets, Clock::time_point /*deadline*/) {
  return Run<void>(
      "NodePublishVolume", ref, request.volume_id,
      [&](const Plugin& plugin) -> RpcResult<void> {
        last_publish_ = request;
        last_had_secrets_ = secrets.valid();
        const std::string part = PartOf(request.target_path);
        if (plugin.makes_nothing) {
          return {};
        }
        if (published_.emplace(Place{ref.plugin, part}, request.volume_id)
                .second) {
          using PutAs = exec::FakeExecutor::PutAs;
          executor_.PutVolume(ref.plugin, part,
                              plugin.bare_directory ? PutAs::kBareDirectory
                              : request.capability.block && !plugin.no_device
                                  ? PutAs::kDevice
                                  : PutAs::kMount);
        }
        return {};
      });
}

RpcResult<void> FakeCsiClient::NodeUnpublishVolume(
    const ChannelRef& ref, const std::string& volume_id,
    const std::string& target_path, Clock::time_point /*deadline*/) {
  return Run<void>("NodeUnpublishVolume", ref, volume_id,
                   [&](const Plugin& plugin) -> RpcResult<void> {
                     if (plugin.leaves_mounts) {
                       return {};
                     }
                     const std::string part = PartOf(target_path);
                     published_.erase({ref.plugin, part});
                     executor_.TakeVolume(ref.plugin, part);
                     return {};
                   });
}

RpcResult<std::int64_t> FakeCsiClient::NodeExpandVolume(
    const ChannelRef& ref, const ExpandRequest& request,
    const UniqueFd& secrets, Clock::time_point /*deadline*/) {
  return Run<std::int64_t>("NodeExpandVolume", ref, request.volume_id,
                           [&](const Plugin& /*plugin*/) {
                             last_expand_ = request;
                             last_had_secrets_ = secrets.valid();
                             return request.required_bytes;
                           });
}

RpcResult<VolumeStats> FakeCsiClient::NodeGetVolumeStats(
    const ChannelRef& ref, const std::string& volume_id,
    const std::string& /*volume_path*/,
    const std::string& /*staging_target_path*/,
    Clock::time_point /*deadline*/) {
  return Run<VolumeStats>("NodeGetVolumeStats", ref, volume_id,
                          [](const Plugin& plugin) { return plugin.stats; });
}

RpcResult<VolumeCondition> FakeCsiClient::NodeGetVolumeHealth(
    const ChannelRef& ref, const std::string& volume_id,
    const std::string& /*volume_publish_path*/,
    const std::string& /*staging_target_path*/,
    Clock::time_point /*deadline*/) {
  return Run<VolumeCondition>(
      "NodeGetVolumeHealth", ref, volume_id,
      [](const Plugin& plugin) { return plugin.health; });
}

void FakeCsiClient::SetController(Controller controller) {
  const std::lock_guard lock(mutex_);
  controller_ = std::move(controller);
}

ControllerCall FakeCsiClient::last_controller_call() const {
  const std::lock_guard lock(mutex_);
  return last_controller_call_;
}

RpcResult<std::string> FakeCsiClient::CallController(
    const ChannelRef& ref, const ControllerCall& call, const UniqueFd& secrets,
    Clock::time_point /*deadline*/) {
  return Run<std::string>(
      call.rpc, ref, "",
      [&](const Plugin& /*plugin*/) -> RpcResult<std::string> {
        last_controller_call_ = call;
        last_had_secrets_ = secrets.valid();
        if (!controller_) {
          return RpcError{RpcCode::kUnimplemented, "no controller"};
        }
        return controller_(call);
      });
}

}  // namespace mountd::csi
