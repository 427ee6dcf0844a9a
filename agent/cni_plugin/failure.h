// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "mountd/base/result.h"
#include "netns/cni/json.h"
#include "netns/cni/plugin_error.h"

namespace mountd::cni_plugin {

// What the plugin says when it fails (CNI 1.1, section 5, "Error").
struct Failure {
  int code = 0;  // cni::CniCode, or 100 and mountd's own Code
  std::string message;
};

template <typename T>
using Outcome = Result<T, Failure>;

// Unavailable, Busy, InProgress and DeadlineExceeded are "try again later"; of
// the rest the runtime can make no more than that it failed: 100 + the Code.
Failure FailureOf(const Error& error);

// The same call's outcome, with mountd's error as a runtime understands it.
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
