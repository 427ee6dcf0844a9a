// SPDX-License-Identifier: LGPL-2.1-or-later
//
// PublishVolume and UnpublishVolume with csi-local, beside the same RPCs made
// directly, to another csi-local.
#include <csi.grpc.pb.h>
#include <grpcpp/grpcpp.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>

#include "bench/bench_main.h"
#include "bench/csi_plugin.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;
namespace pb = ::csi::v1;

constexpr char kDirect[] = "/run/bench/direct";
constexpr char kVolumeId[] = "volume";

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

Result<void> InTurn(agent::Client& client, Report& report, int rounds) {
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
  // The first call connects, and waits for the plugin to listen.
  MOUNTD_TRY(direct.Publish());
  MOUNTD_TRY(direct.Unpublish());
  // Taken in turn, so that whatever the machine does meanwhile is done to all.
  for (int i = 0; i < rounds; ++i) {
    MOUNTD_TRY(Time(up, [&] { return client.PublishVolume("bench", spec); }));
    MOUNTD_TRY(
        Time(down, [&] { return client.UnpublishVolume("bench", "data"); }));
    MOUNTD_TRY(Time(direct_up, [&] { return direct.Publish(); }));
    MOUNTD_TRY(Time(direct_down, [&] { return direct.Unpublish(); }));
    MOUNTD_TRY(Time(empty, [&] { return client.ListOwed(); }));
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

Result<void> MeasureVolumes(agent::Client& client, Report& report, bool quick) {
  fs::create_directories(std::string(kDirect) + "/staging");
  MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
  MOUNTD_TRY(client.PrepareAllocation("bench"));
  return InTurn(client, report, quick ? 50 : 300);
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  return mountd::bench::RunBench(
      argc, argv, [](auto& /*world*/, auto& client, auto& report, bool quick) {
        return mountd::bench::MeasureVolumes(client, report, quick);
      });
}
