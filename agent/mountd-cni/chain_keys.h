// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

#include "agent/mountd-cni/failure.h"
#include "agent/mountd-cni/personality.h"
#include "netns/cni/documents/json.h"

// The keys that a configuration has for the CNI project's plugin of a
// personality's name. The personality accepts a value that mountd carries out
// in any case, and a value that means nothing without that plugin's bridge,
// chains or files. It refuses other values, because people would believe that
// these have an effect.
namespace mountd::cni_plugin {

// True if the personality knows the key.
bool IsChainKey(Personality personality, std::string_view key);

// kInvalidConfig for a known key with a value that the personality refuses.
Outcome<void> CheckChainKeys(Personality personality,
                             const cni::Json& document);

}  // namespace mountd::cni_plugin
