// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/request.h"

#include <algorithm>

#include "csi-node/csi-local/capability.h"
#include "csi-node/csi-local/filesystem.h"
#include "csi-node/csi-local/status.h"
#include "mountd/base/names.h"

namespace mountd::csi_local {
namespace {

namespace pb = ::csi::v1;

// CSI spec, "Size Limits".
constexpr std::size_t kMaxName = 128;
// Kubernetes' external-provisioner adds parameters with this prefix
// (--extra-create-metadata).
constexpr std::string_view kForeignPrefix = "csi.storage.k8s.io/";

grpc::Status ParseKind(const std::string& text, VolumeRequest* spec) {
  if (text == "directory") {
    spec->kind = DIRECTORY;
  } else if (text == "tmpfs") {
    spec->kind = TMPFS;
  } else if (text == "image") {
    spec->kind = IMAGE;
  } else {
    return Invalid("the parameter kind must be directory, tmpfs or image");
  }
  return grpc::Status::OK;
}

}  // namespace

grpc::Status CheckName(const std::string& name) {
  if (name.empty()) {
    return Missing("name");
  }
  const bool controls = std::any_of(name.begin(), name.end(), [](char c) {
    return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
  });
  if (name.size() > kMaxName || controls || !IsValidUtf8(name)) {
    return Invalid("name must be 1 to 128 bytes of printable UTF-8");
  }
  return grpc::Status::OK;
}

grpc::Status ParseParameters(
    const google::protobuf::Map<std::string, std::string>& given,
    VolumeRequest* spec) {
  for (const auto& [key, value] : given) {
    if (key.compare(0, kForeignPrefix.size(), kForeignPrefix) == 0) {
      continue;
    }
    if (key != "kind") {
      return Invalid("parameters: only kind is allowed");
    }
    spec->parameters[key] = value;
    grpc::Status parsed = ParseKind(value, spec);
    if (!parsed.ok()) {
      return parsed;
    }
  }
  return grpc::Status::OK;
}

grpc::Status ParseCapabilities(const google::protobuf::RepeatedPtrField<
                                   pb::VolumeCapability>& capabilities,
                               VolumeRequest* spec) {
  if (capabilities.empty()) {
    return Missing("volume_capabilities");
  }
  for (const pb::VolumeCapability& capability : capabilities) {
    MountOptions options;
    const grpc::Status checked = CheckCapability(capability, &options);
    if (!checked.ok()) {
      return Invalid(checked.error_message());
    }
    (options.block ? spec->block : spec->mount) = true;
    if (options.fs_type.empty()) {
      continue;
    }
    if (!spec->fs_type.empty() && spec->fs_type != options.fs_type) {
      return Invalid("volume_capabilities: all must have the same fs_type");
    }
    spec->fs_type = options.fs_type;
  }
  if (spec->block && spec->mount) {
    return Invalid(
        "volume_capabilities: a volume is either for block access or for "
        "mounts; ask for one");
  }
  return grpc::Status::OK;
}

grpc::Status ParseCreate(const pb::CreateVolumeRequest& request,
                         VolumeRequest* spec) {
  for (const grpc::Status& checked :
       {CheckName(request.name()),
        ParseCapabilities(request.volume_capabilities(), spec),
        ParseParameters(request.parameters(), spec)}) {
    if (!checked.ok()) {
      return checked;
    }
  }
  if (!request.mutable_parameters().empty()) {
    return Invalid("mutable_parameters: must be empty");
  }
  spec->name = request.name();
  spec->range = {request.capacity_range().required_bytes(),
                 request.capacity_range().limit_bytes()};
  const pb::VolumeContentSource& source = request.volume_content_source();
  spec->source_volume_id = source.volume().volume_id();
  spec->source_snapshot_id = source.snapshot().snapshot_id();
  if (request.has_volume_content_source() && spec->source_volume_id.empty() &&
      spec->source_snapshot_id.empty()) {
    return Missing("volume_content_source");
  }
  return grpc::Status::OK;
}

}  // namespace mountd::csi_local
