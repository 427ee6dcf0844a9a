// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "mountd/base/result.h"

// Errors of mountd as the statuses of CSI.
namespace mountd::csi_proxy {

// Returns gRPC's code for the error. InProgress and Aborted are ABORTED, by
// which CSI means that the caller repeats the call. Busy is
// FAILED_PRECONDITION, as of a volume in use. A plugin's OUT_OF_RANGE, which is
// InvalidArgument at mountd, is OUT_OF_RANGE again.
grpc::Status ToStatus(const Error& error);

template <typename T>
grpc::Status ToStatus(const Result<T>& result) {
  return result ? grpc::Status::OK : ToStatus(result.error());
}

// InvalidArgument for a request. The object is the field's name.
Error Invalid(const char* field, std::string why);

}  // namespace mountd::csi_proxy
