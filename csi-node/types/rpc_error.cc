// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/types/rpc_error.h"

#include <utility>

namespace mountd::csi {
namespace {

const char* RpcCodeName(RpcCode code) {
  switch (code) {
    case RpcCode::kOk:
      return "OK";
    case RpcCode::kCancelled:
      return "CANCELLED";
    case RpcCode::kUnknown:
      return "UNKNOWN";
    case RpcCode::kInvalidArgument:
      return "INVALID_ARGUMENT";
    case RpcCode::kDeadlineExceeded:
      return "DEADLINE_EXCEEDED";
    case RpcCode::kNotFound:
      return "NOT_FOUND";
    case RpcCode::kAlreadyExists:
      return "ALREADY_EXISTS";
    case RpcCode::kPermissionDenied:
      return "PERMISSION_DENIED";
    case RpcCode::kResourceExhausted:
      return "RESOURCE_EXHAUSTED";
    case RpcCode::kFailedPrecondition:
      return "FAILED_PRECONDITION";
    case RpcCode::kAborted:
      return "ABORTED";
    case RpcCode::kOutOfRange:
      return "OUT_OF_RANGE";
    case RpcCode::kUnimplemented:
      return "UNIMPLEMENTED";
    case RpcCode::kInternal:
      return "INTERNAL";
    case RpcCode::kUnavailable:
      return "UNAVAILABLE";
    case RpcCode::kDataLoss:
      return "DATA_LOSS";
    case RpcCode::kUnauthenticated:
      return "UNAUTHENTICATED";
  }
  return "UNKNOWN";
}

}  // namespace

Code ToCode(RpcCode code) {
  switch (code) {
    case RpcCode::kInvalidArgument:
    case RpcCode::kOutOfRange:
      return Code::kInvalidArgument;
    case RpcCode::kNotFound:
      return Code::kNotFound;
    case RpcCode::kAlreadyExists:
      return Code::kAlreadyExists;
    case RpcCode::kPermissionDenied:
    case RpcCode::kUnauthenticated:
      return Code::kPermissionDenied;
    case RpcCode::kResourceExhausted:
      return Code::kResourceExhausted;
    case RpcCode::kFailedPrecondition:
      return Code::kFailedPrecondition;
    case RpcCode::kAborted:
      return Code::kAborted;
    case RpcCode::kUnimplemented:
      return Code::kNotSupported;
    case RpcCode::kUnavailable:
    case RpcCode::kCancelled:
      return Code::kUnavailable;
    case RpcCode::kDeadlineExceeded:
      return Code::kDeadlineExceeded;
    case RpcCode::kOk:
    case RpcCode::kUnknown:
    case RpcCode::kInternal:
    case RpcCode::kDataLoss:
      return Code::kInternal;
  }
  return Code::kInternal;
}

// Final are the codes that a plugin returns by itself after it has finished, as
// other orchestrators read them. Codes that gRPC itself or a half-done call can
// cause are uncertain. UNKNOWN is uncertain, too, because a handler that
// crashed half way looks the same.
bool RpcError::IsFinal() const {
  switch (code) {
    case RpcCode::kInvalidArgument:
    case RpcCode::kNotFound:
    case RpcCode::kAlreadyExists:
    case RpcCode::kPermissionDenied:
    case RpcCode::kFailedPrecondition:
    case RpcCode::kOutOfRange:
    case RpcCode::kUnimplemented:
    case RpcCode::kInternal:
    case RpcCode::kUnauthenticated:
      return true;
    case RpcCode::kOk:
    case RpcCode::kCancelled:
    case RpcCode::kUnknown:
    case RpcCode::kDeadlineExceeded:
    case RpcCode::kResourceExhausted:
    case RpcCode::kAborted:
    case RpcCode::kUnavailable:
    case RpcCode::kDataLoss:
      return false;
  }
  return false;
}

Error ToError(const RpcError& error, std::string op, std::string object) {
  std::string detail = RpcCodeName(error.code);
  if (!error.message.empty()) {
    detail += ": " + error.message;
  }
  Error made = MakeError(ToCode(error.code), std::move(op), std::move(object),
                         std::move(detail));
  // CANCELLED becomes Unavailable, too, but says nothing about the plugin.
  if (error.code == RpcCode::kUnavailable) {
    made.away = error.csi_is_away ? Away::kRestarting : Away::kPlugin;
  }
  return made;
}

}  // namespace mountd::csi
