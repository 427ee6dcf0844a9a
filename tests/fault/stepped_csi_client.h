// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <utility>

#include "csi-node/types/csi_client.h"
#include "mountd/base/steps.h"

namespace mountd::testing {

// Passes mountd's calls on to another client, each as a step "rpc <its name>".
// A step that fails returns an RpcCode, and sends nothing.
class SteppedCsiClient final : public csi::CsiClient {
 public:
  SteppedCsiClient(csi::CsiClient& client, Steps& steps)
      : client_(client), steps_(steps) {}

  csi::RpcResult<void> Open(const csi::ChannelRef& ref,
                            UniqueFd socket) override {
    return Pass<void>("Open",
                      [&] { return client_.Open(ref, std::move(socket)); });
  }
  void Close(const csi::ChannelRef& ref) override { client_.Close(ref); }
  csi::RpcResult<bool> Probe(const csi::ChannelRef& ref,
                             csi::Clock::time_point deadline) override {
    return Pass<bool>("Probe", [&] { return client_.Probe(ref, deadline); });
  }
  csi::RpcResult<csi::PluginInfo> GetPluginInfo(
      const csi::ChannelRef& ref, csi::Clock::time_point deadline) override {
    return Pass<csi::PluginInfo>(
        "GetPluginInfo", [&] { return client_.GetPluginInfo(ref, deadline); });
  }
  csi::RpcResult<csi::PluginCapabilities> GetCapabilities(
      const csi::ChannelRef& ref, csi::Clock::time_point deadline) override {
    return Pass<csi::PluginCapabilities>("GetCapabilities", [&] {
      return client_.GetCapabilities(ref, deadline);
    });
  }
  csi::RpcResult<csi::NodeInfo> NodeGetInfo(
      const csi::ChannelRef& ref, csi::Clock::time_point deadline) override {
    return Pass<csi::NodeInfo>(
        "NodeGetInfo", [&] { return client_.NodeGetInfo(ref, deadline); });
  }
  csi::RpcResult<void> NodeStageVolume(
      const csi::ChannelRef& ref, const csi::StageRequest& request,
      const UniqueFd& secrets, csi::Clock::time_point deadline) override {
    return Pass<void>("NodeStageVolume", [&] {
      return client_.NodeStageVolume(ref, request, secrets, deadline);
    });
  }
  csi::RpcResult<void> NodeUnstageVolume(
      const csi::ChannelRef& ref, const std::string& volume_id,
      const std::string& staging_target_path,
      csi::Clock::time_point deadline) override {
    return Pass<void>("NodeUnstageVolume", [&] {
      return client_.NodeUnstageVolume(ref, volume_id, staging_target_path,
                                       deadline);
    });
  }
  csi::RpcResult<void> NodePublishVolume(
      const csi::ChannelRef& ref, const csi::PublishRequest& request,
      const UniqueFd& secrets, csi::Clock::time_point deadline) override {
    return Pass<void>("NodePublishVolume", [&] {
      return client_.NodePublishVolume(ref, request, secrets, deadline);
    });
  }
  csi::RpcResult<void> NodeUnpublishVolume(
      const csi::ChannelRef& ref, const std::string& volume_id,
      const std::string& target_path,
      csi::Clock::time_point deadline) override {
    return Pass<void>("NodeUnpublishVolume", [&] {
      return client_.NodeUnpublishVolume(ref, volume_id, target_path, deadline);
    });
  }
  csi::RpcResult<std::int64_t> NodeExpandVolume(
      const csi::ChannelRef& ref, const csi::ExpandRequest& request,
      const UniqueFd& secrets, csi::Clock::time_point deadline) override {
    return Pass<std::int64_t>("NodeExpandVolume", [&] {
      return client_.NodeExpandVolume(ref, request, secrets, deadline);
    });
  }
  csi::RpcResult<csi::VolumeStats> NodeGetVolumeStats(
      const csi::ChannelRef& ref, const std::string& volume_id,
      const std::string& volume_path, const std::string& staging_target_path,
      csi::Clock::time_point deadline) override {
    return Pass<csi::VolumeStats>("NodeGetVolumeStats", [&] {
      return client_.NodeGetVolumeStats(ref, volume_id, volume_path,
                                        staging_target_path, deadline);
    });
  }
  csi::RpcResult<csi::VolumeCondition> NodeGetVolumeHealth(
      const csi::ChannelRef& ref, const std::string& volume_id,
      const std::string& volume_publish_path,
      const std::string& staging_target_path,
      csi::Clock::time_point deadline) override {
    return Pass<csi::VolumeCondition>("NodeGetVolumeHealth", [&] {
      return client_.NodeGetVolumeHealth(ref, volume_id, volume_publish_path,
                                         staging_target_path, deadline);
    });
  }
  csi::RpcResult<std::string> CallController(
      const csi::ChannelRef& ref, const csi::ControllerCall& call,
      const UniqueFd& secrets, csi::Clock::time_point deadline) override {
    return Pass<std::string>(call.rpc, [&] {
      return client_.CallController(ref, call, secrets, deadline);
    });
  }

 private:
  template <typename T, typename Call>
  csi::RpcResult<T> Pass(const std::string& name, const Call& call) {
    if (const int code = steps_.Begin("rpc " + name); code != 0) {
      return csi::RpcError{static_cast<csi::RpcCode>(code), "as a test has it"};
    }
    csi::RpcResult<T> outcome = call();
    steps_.End();
    return outcome;
  }

  csi::CsiClient& client_;
  Steps& steps_;
};

}  // namespace mountd::testing
