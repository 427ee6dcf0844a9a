// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "netns/cni/documents/json.h"
#include "netns/cni/documents/plugin_error.h"

// Returns the JSON document for stdout (kUsage) of an operation that succeeded.
namespace mountd::cni {

Json Success(Json members);

// Returns the document of an operation that failed. `left` lists what could not
// be undone.
Json Failure(const PluginError& error,
             const std::vector<PluginError>& left = {});

}  // namespace mountd::cni
