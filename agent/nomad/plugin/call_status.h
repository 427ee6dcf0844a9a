// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <grpcpp/grpcpp.h>

#include "mountd/base/result.h"

namespace mountd::nomad {

// True if the same call may succeed a moment later.
bool MayPass(const Error& error);

// Returns the error as Nomad knows errors. One that may pass is recoverable, so
// that the job's restart policy decides. Never UNAVAILABLE, which Nomad takes
// for the end of the plugin.
grpc::Status StatusOf(const Error& error);

template <typename T>
grpc::Status StatusOf(const Result<T>& result) {
  return result ? grpc::Status::OK : StatusOf(result.error());
}

}  // namespace mountd::nomad
