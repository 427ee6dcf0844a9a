// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <csi.pb.h>
#include <grpcpp/support/status.h>

#include "csi-node/csi_local/volumes.h"

namespace mountd::csi_local {

// How a capability wants a volume used; what no volume of ours can do is
// refused: INVALID_ARGUMENT, or FAILED_PRECONDITION for an access mode of
// several nodes.
grpc::Status CheckCapability(const ::csi::v1::VolumeCapability& capability,
                             MountOptions* options);

}  // namespace mountd::csi_local
