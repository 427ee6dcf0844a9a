// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/call_status.h"

#include <nomad_status.pb.h>
#include <nomad_structs.pb.h>

namespace mountd::nomad {
namespace {

grpc::StatusCode CodeOf(Code code) {
  switch (code) {
    case Code::kNotFound:
      return grpc::StatusCode::NOT_FOUND;
    case Code::kAlreadyExists:
      return grpc::StatusCode::ALREADY_EXISTS;
    case Code::kInvalidArgument:
      return grpc::StatusCode::INVALID_ARGUMENT;
    case Code::kPermissionDenied:
      return grpc::StatusCode::PERMISSION_DENIED;
    case Code::kFailedPrecondition:
      return grpc::StatusCode::FAILED_PRECONDITION;
    case Code::kNotSupported:
      return grpc::StatusCode::UNIMPLEMENTED;
    case Code::kBusy:
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kResourceExhausted:
    case Code::kAborted:
    case Code::kInProgress:
    case Code::kInternal:
      break;
  }
  return grpc::StatusCode::INTERNAL;
}

}  // namespace

bool MayPass(const Error& error) {
  switch (error.code) {
    case Code::kBusy:
    case Code::kUnavailable:
    case Code::kDeadlineExceeded:
    case Code::kResourceExhausted:
    case Code::kAborted:
    case Code::kInProgress:
      return true;
    default:
      return false;
  }
}

grpc::Status StatusOf(const Error& error) {
  const std::string text =
      std::string(CodeName(error.code)) + ": " + error.Message();
  if (!MayPass(error)) {
    return {CodeOf(error.code), text};
  }
  constexpr auto kRecoverable = grpc::StatusCode::FAILED_PRECONDITION;
  hashicorp::nomad::plugins::shared::structs::RecoverableError detail;
  detail.set_recoverable(true);
  RpcStatus status;
  status.set_code(kRecoverable);
  status.set_message(text);
  status.add_details()->PackFrom(detail);
  return {kRecoverable, text, status.SerializeAsString()};
}

}  // namespace mountd::nomad
