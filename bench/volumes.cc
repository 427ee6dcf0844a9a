// SPDX-License-Identifier: LGPL-2.1-or-later
//
// PublishVolume and UnpublishVolume with csi-local, beside the same RPCs made
// directly, to another csi-local.
#include <csi.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "bench/report.h"
#include "bench/world.h"
#include "tests/csi/process.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;
namespace pb = ::csi::v1;
using Clock = std::chrono::steady_clock;

constexpr char kDirect[] = "/run/bench/direct";
constexpr char kVolumeId[] = "volume";

testing::Process StartCsiLocal(const std::string& socket,
                               const std::string& data) {
  return testing::Process({CSI_LOCAL, "--endpoint", "unix://" + socket,
                           "--data-dir", data, "--node-id", "node-1",
                           "--create-on-stage"});
}

Result<double> TimeOf(const std::function<Result<void>()>& call) {
  const Clock::time_point begun = Clock::now();
  MOUNTD_TRY(call());
  return std::chrono::duration<double, std::micro>(Clock::now() - begun)
      .count();
}

Result<void> Check(const grpc::Status& status, const char* rpc) {
  return status.ok() ? Ok()
                     : Result<void>(MakeError(Code::kInternal, rpc, kVolumeId,
                                              status.error_message()));
}

// A plugin's Node service without anything in between.
class Direct {
 public:
  Direct()
      : plugin_(StartCsiLocal(std::string(kDirect) + "/csi.sock",
                              std::string(kDirect) + "/data")),
        node_(pb::Node::NewStub(
            grpc::CreateChannel(std::string("unix:") + kDirect + "/csi.sock",
                                grpc::InsecureChannelCredentials()))) {
    capability_.mutable_mount();
    capability_.mutable_access_mode()->set_mode(
        pb::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  }

  Result<void> Publish() {
    grpc::ClientContext stage_context;
    stage_context.set_wait_for_ready(true);
    pb::NodeStageVolumeRequest stage;
    stage.set_volume_id(kVolumeId);
    stage.set_staging_target_path(Staging());
    *stage.mutable_volume_capability() = capability_;
    pb::NodeStageVolumeResponse staged;
    MOUNTD_TRY(Check(node_->NodeStageVolume(&stage_context, stage, &staged),
                     "NodeStageVolume"));
    grpc::ClientContext context;
    pb::NodePublishVolumeRequest request;
    request.set_volume_id(kVolumeId);
    request.set_staging_target_path(Staging());
    request.set_target_path(Target());
    *request.mutable_volume_capability() = capability_;
    pb::NodePublishVolumeResponse response;
    return Check(node_->NodePublishVolume(&context, request, &response),
                 "NodePublishVolume");
  }

  Result<void> Unpublish() {
    grpc::ClientContext context;
    pb::NodeUnpublishVolumeRequest request;
    request.set_volume_id(kVolumeId);
    request.set_target_path(Target());
    pb::NodeUnpublishVolumeResponse response;
    MOUNTD_TRY(Check(node_->NodeUnpublishVolume(&context, request, &response),
                     "NodeUnpublishVolume"));
    grpc::ClientContext unstage_context;
    pb::NodeUnstageVolumeRequest unstage;
    unstage.set_volume_id(kVolumeId);
    unstage.set_staging_target_path(Staging());
    pb::NodeUnstageVolumeResponse unstaged;
    return Check(node_->NodeUnstageVolume(&unstage_context, unstage, &unstaged),
                 "NodeUnstageVolume");
  }

 private:
  static std::string Staging() { return std::string(kDirect) + "/staging"; }
  static std::string Target() { return std::string(kDirect) + "/target"; }

  testing::Process plugin_;
  std::unique_ptr<pb::Node::Stub> node_;
  pb::VolumeCapability capability_;
};

Result<void> AwaitHealthy(agent::Client& client) {
  for (int tries = 0; tries < 200; ++tries) {
    MOUNTD_ASSIGN(const agent::PluginStatus plugin, client.GetPlugin("local"));
    if (plugin.state == "healthy") {
      return Ok();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
  return MakeError(Code::kUnavailable, "await", "csi-local");
}

Result<void> Measure(agent::Client& client, Report& report, int rounds) {
  Direct direct;
  agent::VolumeSpec spec;
  spec.alias = "data";
  spec.volume = kVolumeId;
  spec.plugin = "local";
  Samples up;
  Samples down;
  Samples direct_up;
  Samples direct_down;
  Samples empty;
  // Taken in turn, so that whatever the machine does meanwhile is done to all.
  for (int i = 0; i < rounds; ++i) {
    MOUNTD_ASSIGN(const double publish, TimeOf([&]() -> Result<void> {
                    MOUNTD_TRY(client.PublishVolume("bench", spec));
                    return Ok();
                  }));
    MOUNTD_ASSIGN(const double unpublish, TimeOf([&] {
                    return client.UnpublishVolume("bench", "data");
                  }));
    MOUNTD_ASSIGN(const double direct_publish,
                  TimeOf([&] { return direct.Publish(); }));
    MOUNTD_ASSIGN(const double direct_unpublish,
                  TimeOf([&] { return direct.Unpublish(); }));
    MOUNTD_ASSIGN(const double call, TimeOf([&]() -> Result<void> {
                    MOUNTD_TRY(client.ListOwed());
                    return Ok();
                  }));
    up.Add(publish);
    down.Add(unpublish);
    direct_up.Add(direct_publish);
    direct_down.Add(direct_unpublish);
    empty.Add(call);
  }
  report.Row("csi-local", "mountd", up, down);
  report.Row("csi-local", "the RPCs", direct_up, direct_down);
  report.Row("", "empty call", empty, empty);
  std::printf("\n");
  report.Ratio("publish.adds_empty_calls",
               (up.Median() - direct_up.Median()) / empty.Median(), 10, false);
  report.Ratio("unpublish.adds_empty_calls",
               (down.Median() - direct_down.Median()) / empty.Median(), 0,
               false);
  return Ok();
}

Result<void> Main(bool quick, const std::string& json) {
  MOUNTD_ASSIGN(const auto world, World::Make());
  fs::create_directories(std::string(kDirect) + "/staging");
  Report report;
  const auto measure = [&]() -> Result<void> {
    MOUNTD_ASSIGN(agent::Client client, world->Connect());
    MOUNTD_ASSIGN(const agent::PluginRegistration made,
                  client.RegisterPlugin({.plugin = "local"}));
    const testing::Process plugin =
        StartCsiLocal(made.host_path + "/csi.sock", "/run/bench/data");
    MOUNTD_TRY(AwaitHealthy(client));
    MOUNTD_TRY(client.PrepareAllocation("bench"));
    return Measure(client, report, quick ? 50 : 300);
  };
  if (Result<void> measured = measure(); !measured) {
    std::fputs(world->Log().c_str(), stderr);
    return measured;
  }
  if (!json.empty() && !report.WriteJson(json)) {
    return MakeError(Code::kInternal, "write", json);
  }
  return Ok();
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  bool quick = false;
  std::string json;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--quick") == 0) {
      quick = true;
    } else if (std::strcmp(argv[i], "--json") == 0 && i + 1 < argc) {
      json = argv[++i];
    } else {
      std::fputs("usage: mountd-bench-volumes [--quick] [--json FILE]\n",
                 stderr);
      return 2;
    }
  }
  const mountd::Result<void> ran = mountd::bench::Main(quick, json);
  if (!ran) {
    std::fprintf(stderr, "mountd-bench-volumes: %s\n",
                 ran.error().Message().c_str());
    return 1;
  }
  return 0;
}
