// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.grpc.pb.h>
#include <grpcpp/grpcpp.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "tests/root/node/node_csi_fixture.h"

namespace mountd::testing {

inline constexpr char kProxySocket[] = "/run/agent/fault.sock";
inline constexpr char kProxyLog[] = "/run/agent/log";
inline constexpr char kTargets[] = "/run/agent/targets";

// Owns a whole mountd with the fault plugin, and a mountd-csi-proxy of the
// unprivileged user, as an orchestrator without root starts it.
class CsiProxyNode : public NodeCsi {
 protected:
  using Mode = ::csi::v1::VolumeCapability::AccessMode;

  void SetUp() override {
    config_.replace(config_.find("rpc_ms = 700"), 12, "rpc_ms = 30000");
    config_.insert(config_.find("[limits]"),
                   "alloc_roots = [\"/run/agent/targets\"]\n");
    NodeCsi::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    for (const char* made : {"/run/agent", kTargets}) {
      ASSERT_EQ(::mkdir(made, 0755), 0);
      ASSERT_EQ(::chown(made, kAgentUid, kAgentUid), 0);
    }
    StartProxy();
  }
  void TearDown() override {
    if (HasFailure()) {
      std::cerr << ProxyLog();
    }
    proxy_ = Process();
    // gRPC's threads end after its last object, and this process leaves its
    // mount namespace only alone (setns(2)).
    identity_.reset();
    controller_.reset();
    node_stub_.reset();
    NodeCsi::TearDown();
  }

  // Starts the proxy; kills a running one first.
  void StartProxy(const std::vector<std::string>& more = {}) {
    proxy_ = Process();
    std::vector<std::string> command = {"/usr/bin/setpriv",
                                        "--reuid=60002",
                                        "--regid=60002",
                                        "--clear-groups",
                                        "/bin/sh",
                                        "-c",
                                        "exec \"$@\" 2>>\"$0\"",
                                        kProxyLog,
                                        MOUNTD_CSI_PROXY,
                                        "--plugin",
                                        std::string("fault=") + kProxySocket};
    command.insert(command.end(), more.begin(), more.end());
    proxy_ = Process(command);
    ASSERT_TRUE(ConnectWithin(kProxySocket, 20).valid());
    Open();
  }
  void KillProxy() { proxy_.KillAndWait(); }
  static std::string ProxyLog() {
    std::ifstream log(kProxyLog);
    return {std::istreambuf_iterator<char>(log), {}};
  }

  static std::shared_ptr<grpc::Channel> ChannelTo(const std::string& socket) {
    grpc::ChannelArguments arguments;
    // A channel of its own for each caller.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    return grpc::CreateCustomChannel(
        "unix:" + socket, grpc::InsecureChannelCredentials(), arguments);
  }
  void Open(const std::string& socket = kProxySocket) {
    const auto channel = ChannelTo(socket);
    identity_ = ::csi::v1::Identity::NewStub(channel);
    controller_ = ::csi::v1::Controller::NewStub(channel);
    node_stub_ = ::csi::v1::Node::NewStub(channel);
  }

  static std::string Target(const std::string& name) {
    return std::string(kTargets) + "/" + name;
  }
  static ::csi::v1::NodePublishVolumeRequest PublishRequest(
      const std::string& target, const std::string& volume = "v") {
    ::csi::v1::NodePublishVolumeRequest request;
    request.set_volume_id(volume);
    request.set_target_path(target);
    auto* capability = request.mutable_volume_capability();
    capability->mutable_mount();
    capability->mutable_access_mode()->set_mode(Mode::SINGLE_NODE_WRITER);
    return request;
  }
  grpc::Status PublishAt(
      const ::csi::v1::NodePublishVolumeRequest& request,
      std::chrono::milliseconds deadline = std::chrono::milliseconds(60'000)) {
    grpc::ClientContext context;
    SetDeadline(context, deadline);
    ::csi::v1::NodePublishVolumeResponse response;
    return node_stub_->NodePublishVolume(&context, request, &response);
  }
  grpc::Status PublishAt(const std::string& target) {
    return PublishAt(PublishRequest(target));
  }
  grpc::Status UnpublishAt(
      const std::string& target, const std::string& volume = "v",
      std::chrono::milliseconds deadline = std::chrono::milliseconds(60'000)) {
    grpc::ClientContext context;
    SetDeadline(context, deadline);
    ::csi::v1::NodeUnpublishVolumeRequest request;
    request.set_volume_id(volume);
    request.set_target_path(target);
    ::csi::v1::NodeUnpublishVolumeResponse response;
    return node_stub_->NodeUnpublishVolume(&context, request, &response);
  }
  static void SetDeadline(grpc::ClientContext& context,
                          std::chrono::milliseconds deadline) {
    context.set_deadline(
        ::gpr_time_add(::gpr_now(GPR_CLOCK_MONOTONIC),
                       ::gpr_time_from_millis(deadline.count(), GPR_TIMESPAN)));
  }

  // Returns how many mounts lie on the path.
  static std::size_t MountsOn(const std::string& path) {
    return MountPointsUnder(path).size();
  }
  // Expects that nothing of any publication is left at mountd or on the disk.
  void ExpectNoPublication() {
    const auto allocations = client_->ListAllocations();
    ASSERT_TRUE(allocations);
    for (const agent::AllocationEntry& one : *allocations) {
      EXPECT_EQ(one.id, "web");
    }
    EXPECT_TRUE(Eventually([&] { return NothingIsLeft(); })) << Recorded();
    EXPECT_EQ(MountsOn(kTargets), 0U);
    EXPECT_TRUE(std::filesystem::is_empty(kTargets));
  }

  Process proxy_;
  std::unique_ptr<::csi::v1::Identity::Stub> identity_;
  std::unique_ptr<::csi::v1::Controller::Stub> controller_;
  std::unique_ptr<::csi::v1::Node::Stub> node_stub_;
};

}  // namespace mountd::testing
