// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/direct_plugin.h"

#include <grpcpp/grpcpp.h>

#include <filesystem>
#include <utility>

namespace mountd::bench {
namespace {

namespace pb = ::csi::v1;

Result<void> Check(const grpc::Status& status, const char* rpc,
                   const std::string& volume) {
  return status.ok() ? Ok()
                     : Result<void>(MakeError(Code::kInternal, rpc, volume,
                                              status.error_message()));
}

}  // namespace

DirectPlugin::DirectPlugin(const std::string& socket, std::string directory,
                           Stages stages)
    : directory_(std::move(directory)),
      stages_(stages),
      channel_(grpc::CreateChannel("unix:" + socket,
                                   grpc::InsecureChannelCredentials())),
      controller_(pb::Controller::NewStub(channel_)),
      node_(pb::Node::NewStub(channel_)) {
  capability_.mutable_mount();
  capability_.mutable_access_mode()->set_mode(
      pb::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  if (stages_ == Stages::kYes) {
    std::filesystem::create_directories(Staging());
  }
}

Result<std::string> DirectPlugin::CreateVolume(const std::string& name) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  pb::CreateVolumeRequest request;
  request.set_name(name);
  request.mutable_capacity_range()->set_required_bytes(1 << 20);
  *request.add_volume_capabilities() = capability_;
  pb::CreateVolumeResponse response;
  MOUNTD_TRY(Check(controller_->CreateVolume(&context, request, &response),
                   "CreateVolume", name));
  return response.volume().volume_id();
}

Result<void> DirectPlugin::EmptyCall() {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  pb::NodeGetInfoResponse response;
  return Check(
      node_->NodeGetInfo(&context, pb::NodeGetInfoRequest(), &response),
      "NodeGetInfo", "");
}

Result<void> DirectPlugin::Stage(const std::string& volume) {
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  pb::NodeStageVolumeRequest request;
  request.set_volume_id(volume);
  request.set_staging_target_path(Staging());
  *request.mutable_volume_capability() = capability_;
  pb::NodeStageVolumeResponse response;
  return Check(node_->NodeStageVolume(&context, request, &response),
               "NodeStageVolume", volume);
}

Result<void> DirectPlugin::Publish(const std::string& volume) {
  pb::NodePublishVolumeRequest request;
  if (stages_ == Stages::kYes) {
    MOUNTD_TRY(Stage(volume));
    request.set_staging_target_path(Staging());
  }
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  request.set_volume_id(volume);
  request.set_target_path(Target());
  *request.mutable_volume_capability() = capability_;
  pb::NodePublishVolumeResponse response;
  return Check(node_->NodePublishVolume(&context, request, &response),
               "NodePublishVolume", volume);
}

Result<void> DirectPlugin::Unpublish(const std::string& volume) {
  grpc::ClientContext context;
  pb::NodeUnpublishVolumeRequest request;
  request.set_volume_id(volume);
  request.set_target_path(Target());
  pb::NodeUnpublishVolumeResponse response;
  MOUNTD_TRY(Check(node_->NodeUnpublishVolume(&context, request, &response),
                   "NodeUnpublishVolume", volume));
  return stages_ == Stages::kYes ? Unstage(volume) : Ok();
}

Result<void> DirectPlugin::Unstage(const std::string& volume) {
  grpc::ClientContext context;
  pb::NodeUnstageVolumeRequest request;
  request.set_volume_id(volume);
  request.set_staging_target_path(Staging());
  pb::NodeUnstageVolumeResponse response;
  return Check(node_->NodeUnstageVolume(&context, request, &response),
               "NodeUnstageVolume", volume);
}

}  // namespace mountd::bench
