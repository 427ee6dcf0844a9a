// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "mountd/base/result.h"
#include "netns/cni/json.h"

namespace mountd::cni {

// The specification's codes ("Error", section 5); above 99 they are a plugin's
// own.
enum CniCode : int {
  kIncompatibleVersion = 1,
  kUnsupportedField = 2,
  kUnknownContainer = 3,
  kInvalidEnvironment = 4,
  kIoFailure = 5,
  kUndecodable = 6,
  kInvalidConfig = 7,
  kTryAgainLater = 11,
  kPluginNotAvailable = 50,
  kLimitedConnectivity = 51,
};

// An error, and what is known of it where a plugin is to blame.
struct PluginError {
  PluginError(Error reason) : error(std::move(reason)) {}

  Error error;
  // The plugin's type; "" where it was none's fault.
  std::string plugin;
  // One of CniCode or its own; 0 where it did not say.
  int cni_code = 0;
  // The same may go well later.
  bool may_retry = false;
};

template <typename T>
using PluginOutcome = Result<T, PluginError>;

// An outcome that no plugin had a part in, where others have.
template <typename T>
PluginOutcome<T> NoPlugins(Result<T> result) {
  if (!result) {
    return PluginError(std::move(result).error());
  }
  if constexpr (std::is_void_v<T>) {
    return {};
  } else {
    return std::move(result).value();
  }
}

// What a plugin said when it failed: {"code", "msg", "details"}. Its words are
// scrubbed and cut.
PluginError ReadPluginError(const Json& answer, const std::string& verb,
                            const std::string& plugin);

}  // namespace mountd::cni
