// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"

// The error of an RPC to a plugin, and whether the RPC has to be repeated.
namespace mountd::csi {

// gRPC status codes (the CSI error scheme), numbered as in the gRPC protocol.
enum class RpcCode : int {
  kOk = 0,
  kCancelled = 1,
  kUnknown = 2,
  kInvalidArgument = 3,
  kDeadlineExceeded = 4,
  kNotFound = 5,
  kAlreadyExists = 6,
  kPermissionDenied = 7,
  kResourceExhausted = 8,
  kFailedPrecondition = 9,
  kAborted = 10,
  kOutOfRange = 11,
  kUnimplemented = 12,
  kInternal = 13,
  kUnavailable = 14,
  kDataLoss = 15,
  kUnauthenticated = 16,
};

// The error of a call that did not end with OK. `message` is the plugin's own
// text and untrusted, bounded to 1 KiB of valid UTF-8.
struct RpcError {
  RpcCode code = RpcCode::kUnknown;
  std::string message;
  // For kUnavailable: mountd-csi does not answer, and not the plugin.
  bool csi_is_away = false;

  // True if the plugin has surely not done what was asked, and will not do it
  // (CSI spec, "Error Scheme"). Otherwise the volume's state is uncertain, and
  // the same call with the same arguments has to be repeated until the answer
  // is final.
  bool IsFinal() const;
};

// Converts to the API's error. `op` is the RPC's name, `object` the volume. The
// error of kUnavailable says who is away (Error::away).
Error ToError(const RpcError& error, std::string op, std::string object);
// Returns the Code of that error.
Code ToCode(RpcCode code);

template <typename T>
using RpcResult = Result<T, RpcError>;

}  // namespace mountd::csi
