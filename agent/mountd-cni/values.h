// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/mountd-cni/failure.h"
#include "netns/cni/documents/json.h"

// Read the members of a configuration, by type. kInvalidConfig with the key if
// a member has another type or is too long. A null member counts as absent.
namespace mountd::cni_plugin {

Failure BadConfig(const std::string& key, const std::string& why);

// Returns `fallback` if the member is absent. Accepts UTF-8 without control
// characters.
Outcome<std::string> TextAt(const cni::Json& object, const char* key,
                            const char* fallback, std::size_t max_bytes);
Outcome<bool> FlagAt(const cni::Json& object, const char* key);
Outcome<std::uint64_t> NumberAt(const cni::Json& object, const char* key,
                                std::uint64_t fallback, std::uint64_t max);
// Returns an empty one if the member is absent.
Outcome<cni::Json> ObjectAt(const cni::Json& object, const char* key);
Outcome<std::vector<cni::Json>> ItemsAt(const cni::Json& object,
                                        const char* key, std::size_t max_count);

}  // namespace mountd::cni_plugin
