// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "netns/cni/json.h"
#include "netns/cni/plugin_error.h"

// The one JSON document on stdout: see kUsage.
namespace mountd::cni {

Json Success(Json members);

// `left` says what could not be undone.
Json Failure(const PluginError& error,
             const std::vector<PluginError>& left = {});

}  // namespace mountd::cni
