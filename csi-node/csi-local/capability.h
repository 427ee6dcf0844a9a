// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>
#include <grpcpp/support/status.h>

#include "csi-node/csi-local/node_volumes.h"

namespace mountd::csi_local {

// Reads from a capability how a volume is to be used. INVALID_ARGUMENT if
// csi-local has no volume for this use, FAILED_PRECONDITION for an access mode
// of several nodes.
grpc::Status CheckCapability(const ::csi::v1::VolumeCapability& capability,
                             MountOptions* options);

}  // namespace mountd::csi_local
