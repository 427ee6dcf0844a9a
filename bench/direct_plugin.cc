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

DirectPlugin::DirectPlugin(const std::string& socket, std::string directory)
    : directory_(std::move(directory)),
      channel_(grpc::CreateChannel("unix:" + socket,
                                   grpc::InsecureChannelCredentials())),
      controller_(pb::Controller::NewStub(channel_)),
      node_(pb::Node::NewStub(channel_)) {
  capability_.mutable_mount();
  capability_.mutable_access_mode()->set_mode(
      pb::VolumeCapability::AccessMode::SINGLE_NODE_WRITER);
  std::filesystem::create_directories(Staging());
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

Result<void> DirectPlugin::Publish(const std::string& volume) {
  grpc::ClientContext stage_context;
  stage_context.set_wait_for_ready(true);
  pb::NodeStageVolumeRequest stage;
  stage.set_volume_id(volume);
  stage.set_staging_target_path(Staging());
  *stage.mutable_volume_capability() = capability_;
  pb::NodeStageVolumeResponse staged;
  MOUNTD_TRY(Check(node_->NodeStageVolume(&stage_context, stage, &staged),
                   "NodeStageVolume", volume));
  grpc::ClientContext context;
  pb::NodePublishVolumeRequest request;
  request.set_volume_id(volume);
  request.set_staging_target_path(Staging());
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
  grpc::ClientContext unstage_context;
  pb::NodeUnstageVolumeRequest unstage;
  unstage.set_volume_id(volume);
  unstage.set_staging_target_path(Staging());
  pb::NodeUnstageVolumeResponse unstaged;
  return Check(node_->NodeUnstageVolume(&unstage_context, unstage, &unstaged),
               "NodeUnstageVolume", volume);
}

}  // namespace mountd::bench
