// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "mountd/base/result.h"
#include "netns/cni/documents/json.h"
#include "netns/cni/documents/plugin_error.h"

namespace mountd::cni_plugin {

// The error that the plugin answers (CNI 1.1, section 5, "Error").
struct Failure {
  int code = 0;  // cni::CniCode, or 100 plus mountd's Code
  std::string message;
};

template <typename T>
using Outcome = Result<T, Failure>;

// Turns Unavailable, Busy, InProgress and DeadlineExceeded into "try again
// later". Turns all others into 100 + the Code, because a runtime can only
// treat them as a failure.
Failure FailureOf(const Error& error);

// Returns the same outcome, with mountd's error as a CNI error.
template <typename T>
Outcome<T> Told(Result<T> result) {
  if (!result) {
    return FailureOf(result.error());
  }
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(result).value();
  }
}

// {"cniVersion", "code", "msg"}
cni::Json ToJson(const Failure& failure, const std::string& version);

}  // namespace mountd::cni_plugin
