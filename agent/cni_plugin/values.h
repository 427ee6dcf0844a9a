// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/cni_plugin/failure.h"
#include "netns/cni/json.h"

// The members of a configuration, by type. All fail with kInvalidConfig, which
// names the key, if it is of another type or too long; null is absent.
namespace mountd::cni_plugin {

Failure BadConfig(const std::string& key, const std::string& why);

// Absent: `fallback`. UTF-8 without control characters.
Outcome<std::string> TextAt(const cni::Json& object, const char* key,
                            const char* fallback, std::size_t max_bytes);
Outcome<bool> FlagAt(const cni::Json& object, const char* key);
Outcome<std::uint64_t> NumberAt(const cni::Json& object, const char* key,
                                std::uint64_t fallback, std::uint64_t max);
// Absent: an empty one.
Outcome<cni::Json> ObjectAt(const cni::Json& object, const char* key);
Outcome<std::vector<cni::Json>> ItemsAt(const cni::Json& object,
                                        const char* key, std::size_t max_count);

}  // namespace mountd::cni_plugin
