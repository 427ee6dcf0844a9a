// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/support/status.h>

#include <string>

#include "mountd/base/result.h"

// Converts results to gRPC statuses, with CSI's meaning of the codes.
namespace mountd::csi_local {

grpc::Status ToStatus(const Error& error);

// Converts the error of a node's call. NOT_FOUND is kept for the volume (CSI,
// "Volume does not exist"), because a missing path is the caller's mistake.
grpc::Status ToStatus(const Error& error, const std::string& volume);

template <typename T>
grpc::Status ToStatus(const Result<T>& result) {
  return result ? grpc::Status::OK : ToStatus(result.error());
}
template <typename T>
grpc::Status ToStatus(const Result<T>& result, const std::string& volume) {
  return result ? grpc::Status::OK : ToStatus(result.error(), volume);
}

// Both return INVALID_ARGUMENT.
grpc::Status Missing(const char* field);
grpc::Status Invalid(const std::string& why);

}  // namespace mountd::csi_local
