// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-csi-proxy/status.h"

#include <array>
#include <utility>

namespace mountd::csi_proxy {
namespace {

struct Row {
  Code code;
  grpc::StatusCode status;
};

// CSI (spec.md, "Error Scheme") gives these meanings to gRPC's codes.
constexpr std::array<Row, 13> kRows = {{
    {Code::kNotFound, grpc::StatusCode::NOT_FOUND},
    {Code::kAlreadyExists, grpc::StatusCode::ALREADY_EXISTS},
    {Code::kInvalidArgument, grpc::StatusCode::INVALID_ARGUMENT},
    {Code::kPermissionDenied, grpc::StatusCode::PERMISSION_DENIED},
    {Code::kBusy, grpc::StatusCode::FAILED_PRECONDITION},
    {Code::kUnavailable, grpc::StatusCode::UNAVAILABLE},
    {Code::kDeadlineExceeded, grpc::StatusCode::DEADLINE_EXCEEDED},
    {Code::kResourceExhausted, grpc::StatusCode::RESOURCE_EXHAUSTED},
    {Code::kFailedPrecondition, grpc::StatusCode::FAILED_PRECONDITION},
    {Code::kAborted, grpc::StatusCode::ABORTED},
    {Code::kNotSupported, grpc::StatusCode::UNIMPLEMENTED},
    {Code::kInProgress, grpc::StatusCode::ABORTED},
    {Code::kInternal, grpc::StatusCode::INTERNAL},
}};
static_assert(kRows.size() == static_cast<std::size_t>(kLastCode));

grpc::StatusCode StatusCodeOf(Code code) {
  for (const Row& row : kRows) {
    if (row.code == code) {
      return row.status;
    }
  }
  return grpc::StatusCode::INTERNAL;
}

// mountd has no code for OUT_OF_RANGE and answers InvalidArgument instead. The
// detail of the error begins with the plugin's own code.
bool IsOutOfRange(const Error& error) {
  return error.code == Code::kInvalidArgument &&
         error.detail.find(": OUT_OF_RANGE") != std::string::npos;
}

}  // namespace

grpc::Status ToStatus(const Error& error) {
  const std::string text =
      error.code == Code::kInProgress
          ? "mountd still works on it; repeat the call for its result (" +
                error.Message() + ")"
          : error.Message();
  return {IsOutOfRange(error) ? grpc::StatusCode::OUT_OF_RANGE
                              : StatusCodeOf(error.code),
          text};
}

Error Invalid(const char* field, std::string why) {
  return MakeError(Code::kInvalidArgument, "check", field, std::move(why));
}

}  // namespace mountd::csi_proxy
