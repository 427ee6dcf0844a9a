// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <type_traits>
#include <utility>

#include "mountd/base/result.h"
#include "netns/cni/documents/json.h"

namespace mountd::cni {

// The specification's codes ("Error", section 5). Codes above 99 are a plugin's
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

// An error, with the facts about the plugin that caused it, if one did.
struct PluginError {
  PluginError(Error reason) : error(std::move(reason)) {}

  Error error;
  // The plugin's type; "" if no plugin caused the error.
  std::string plugin;
  // One of CniCode or the plugin's own; 0 if the plugin gave none.
  int cni_code = 0;
  // Set if another attempt may succeed.
  bool may_retry = false;
};

template <typename T>
using PluginOutcome = Result<T, PluginError>;

// Turns a result in which no plugin had a part into an outcome.
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

// Returns the error that a failing plugin reported: {"code", "msg", "details"}.
// Scrubs and cuts its words.
PluginError ReadPluginError(const Json& answer, const std::string& verb,
                            const std::string& plugin);

}  // namespace mountd::cni
