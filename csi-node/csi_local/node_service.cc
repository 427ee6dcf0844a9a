// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi_local/node_service.h"

#include <sys/mount.h>

#include <optional>

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;
using Mode = pb::VolumeCapability::AccessMode;

grpc::Status Missing(const char* field) {
  return {grpc::StatusCode::INVALID_ARGUMENT,
          std::string(field) + " is missing"};
}

grpc::StatusCode ToGrpc(Code code) {
  switch (code) {
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Code::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kFailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Code::kAborted:
      return grpc::StatusCode::ABORTED;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

grpc::Status ToStatus(const Result<void>& result) {
  if (result) {
    return grpc::Status::OK;
  }
  return {ToGrpc(result.error().code), result.error().Message()};
}

// NOT_FOUND is about the volume (CSI, "Volume does not exist"); a path that is
// not there is the caller's mistake.
grpc::Status ToStatus(const Result<void>& result, const std::string& volume) {
  if (!result && result.error().code == Code::kNotFound &&
      result.error().object != volume) {
    return {grpc::StatusCode::INVALID_ARGUMENT, result.error().Message()};
  }
  return ToStatus(result);
}

std::optional<std::uint64_t> AttributeOf(const std::string& flag) {
  if (flag == "ro") {
    return MOUNT_ATTR_RDONLY;
  }
  if (flag == "noexec") {
    return MOUNT_ATTR_NOEXEC;
  }
  if (flag == "noatime") {
    return MOUNT_ATTR_NOATIME;
  }
  // What holds anyway.
  if (flag == "rw" || flag == "nosuid" || flag == "nodev") {
    return 0;
  }
  return std::nullopt;
}

// Directories of this node: mounted, by this node only.
grpc::Status CheckCapability(const pb::VolumeCapability& capability,
                             MountOptions* options) {
  if (capability.has_block()) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            "volumes are directories: no block access"};
  }
  if (!capability.has_mount()) {
    return Missing("volume_capability.access_type");
  }
  const auto& mount = capability.mount();
  if (!mount.fs_type().empty()) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            "volumes are directories: fs_type must be empty"};
  }
  if (!mount.volume_mount_group().empty()) {
    return {grpc::StatusCode::INVALID_ARGUMENT,
            "volume_mount_group is not supported"};
  }
  for (const std::string& flag : mount.mount_flags()) {
    const std::optional<std::uint64_t> attribute = AttributeOf(flag);
    if (!attribute) {
      return {grpc::StatusCode::INVALID_ARGUMENT,
              "a mount flag is not one of ro, rw, noexec, noatime, nosuid, "
              "nodev"};
    }
    options->attributes |= *attribute;
  }
  options->access_mode = capability.access_mode().mode();
  switch (capability.access_mode().mode()) {
    case Mode::SINGLE_NODE_READER_ONLY:
      options->attributes |= MOUNT_ATTR_RDONLY;
      return grpc::Status::OK;
    case Mode::SINGLE_NODE_WRITER:
    case Mode::SINGLE_NODE_SINGLE_WRITER:
    case Mode::SINGLE_NODE_MULTI_WRITER:
      return grpc::Status::OK;
    case Mode::MULTI_NODE_READER_ONLY:
    case Mode::MULTI_NODE_SINGLE_WRITER:
    case Mode::MULTI_NODE_MULTI_WRITER:
      return {grpc::StatusCode::FAILED_PRECONDITION,
              "volumes are this node's own: no MULTI_NODE access mode"};
    default:
      return Missing("volume_capability.access_mode");
  }
}

}  // namespace

grpc::Status NodeService::NodeStageVolume(
    grpc::ServerContext* /*context*/, const pb::NodeStageVolumeRequest* request,
    pb::NodeStageVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->staging_target_path().empty()) {
    return Missing("staging_target_path");
  }
  if (!request->has_volume_capability()) {
    return Missing("volume_capability");
  }
  MountOptions options;
  grpc::Status checked =
      CheckCapability(request->volume_capability(), &options);
  if (!checked.ok()) {
    return checked;
  }
  return ToStatus(volumes_->Stage(request->volume_id(),
                                  request->staging_target_path(), options),
                  request->volume_id());
}

grpc::Status NodeService::NodeUnstageVolume(
    grpc::ServerContext* /*context*/,
    const pb::NodeUnstageVolumeRequest* request,
    pb::NodeUnstageVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->staging_target_path().empty()) {
    return Missing("staging_target_path");
  }
  return ToStatus(
      volumes_->Unstage(request->volume_id(), request->staging_target_path()));
}

grpc::Status NodeService::NodePublishVolume(
    grpc::ServerContext* /*context*/,
    const pb::NodePublishVolumeRequest* request,
    pb::NodePublishVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->target_path().empty()) {
    return Missing("target_path");
  }
  if (!request->has_volume_capability()) {
    return Missing("volume_capability");
  }
  if (request->staging_target_path().empty()) {
    return {grpc::StatusCode::FAILED_PRECONDITION,
            "staging_target_path is missing"};
  }
  MountOptions options;
  grpc::Status checked =
      CheckCapability(request->volume_capability(), &options);
  if (!checked.ok()) {
    return checked;
  }
  if (request->readonly()) {
    options.attributes |= MOUNT_ATTR_RDONLY;
  }
  return ToStatus(
      volumes_->Publish(request->volume_id(), request->staging_target_path(),
                        request->target_path(), options),
      request->volume_id());
}

grpc::Status NodeService::NodeUnpublishVolume(
    grpc::ServerContext* /*context*/,
    const pb::NodeUnpublishVolumeRequest* request,
    pb::NodeUnpublishVolumeResponse* /*response*/) {
  if (request->volume_id().empty()) {
    return Missing("volume_id");
  }
  if (request->target_path().empty()) {
    return Missing("target_path");
  }
  return ToStatus(
      volumes_->Unpublish(request->volume_id(), request->target_path()));
}

grpc::Status NodeService::NodeGetCapabilities(
    grpc::ServerContext* /*context*/,
    const pb::NodeGetCapabilitiesRequest* /*request*/,
    pb::NodeGetCapabilitiesResponse* response) {
  using Rpc = pb::NodeServiceCapability::RPC;
  for (const Rpc::Type type :
       {Rpc::STAGE_UNSTAGE_VOLUME, Rpc::SINGLE_NODE_MULTI_WRITER}) {
    response->add_capabilities()->mutable_rpc()->set_type(type);
  }
  return grpc::Status::OK;
}

grpc::Status NodeService::NodeGetInfo(grpc::ServerContext* /*context*/,
                                      const pb::NodeGetInfoRequest* /*request*/,
                                      pb::NodeGetInfoResponse* response) {
  response->set_node_id(node_id_);
  return grpc::Status::OK;
}

}  // namespace mountd::csi_local
