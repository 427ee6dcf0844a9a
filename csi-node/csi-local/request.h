// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>
#include <grpcpp/support/status.h>

#include <map>
#include <string>

#include "csi-node/csi-local/volume_request.h"

// Checks requests of the Controller service. Ignores secrets.
namespace mountd::csi_local {

// Accepts 1 to 128 bytes of UTF-8 without control characters (CSI,
// "CreateVolume" and "Size Limits").
grpc::Status CheckName(const std::string& name);

// Reads the parameter "kind": "directory", "tmpfs" or "image". Ignores
// parameters that an orchestrator adds (csi.storage.k8s.io/…). INVALID_ARGUMENT
// for all others.
grpc::Status ParseParameters(
    const google::protobuf::Map<std::string, std::string>& given,
    VolumeRequest* spec);

grpc::Status ParseCapabilities(const google::protobuf::RepeatedPtrField<
                                   ::csi::v1::VolumeCapability>& capabilities,
                               VolumeRequest* spec);

grpc::Status ParseCreate(const ::csi::v1::CreateVolumeRequest& request,
                         VolumeRequest* spec);

}  // namespace mountd::csi_local
