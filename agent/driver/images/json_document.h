// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

// Reads JSON that an image's author wrote. Each function gives InvalidArgument
// with `object`, which names the document, and the member.
namespace mountd::driver {

using Json = nlohmann::json;

// Parses an object of at most 4 MiB, 32 levels and 65536 values. runc, skopeo
// and registries bound manifests at 4 MiB, too.
Result<Json> ParseJsonObject(std::string_view text, const std::string& object);

// Returns a member; nullptr if it is missing or null, because Go's
// encoding/json treats both alike.
const Json* FindMember(const Json& object, const char* key);

// Returns a string member; "" if it is missing. Refuses a string with a zero
// byte or with more than 128 KiB, because execve(2) takes no such argument.
Result<std::string> TextMember(const Json& parent, const char* key,
                               const std::string& object);

// Returns a member that is a list of such strings; empty if it is missing.
Result<std::vector<std::string>> TextsMember(const Json& parent,
                                             const char* key,
                                             const std::string& object);

}  // namespace mountd::driver
