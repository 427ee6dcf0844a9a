// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/status.h"

#include <cerrno>

namespace mountd::csi_local {
namespace {

grpc::StatusCode ToGrpc(const Error& error) {
  if (error.sys_errno == ERANGE) {
    return grpc::StatusCode::OUT_OF_RANGE;  // OutOfRange()
  }
  switch (error.code) {
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
    case Code::kResourceExhausted:
      return grpc::StatusCode::RESOURCE_EXHAUSTED;
    case Code::kUnavailable:
      return grpc::StatusCode::UNAVAILABLE;
    default:
      return grpc::StatusCode::INTERNAL;
  }
}

}  // namespace

grpc::Status ToStatus(const Error& error) {
  return {ToGrpc(error), error.Message()};
}

grpc::Status ToStatus(const Error& error, const std::string& volume) {
  return error.code == Code::kNotFound && error.object != volume
             ? Invalid(error.Message())
             : ToStatus(error);
}

grpc::Status Missing(const char* field) {
  return Invalid(std::string(field) + " is missing");
}

grpc::Status Invalid(const std::string& why) {
  return {grpc::StatusCode::INVALID_ARGUMENT, why};
}

}  // namespace mountd::csi_local
