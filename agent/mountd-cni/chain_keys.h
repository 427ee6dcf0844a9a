// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

#include "agent/mountd-cni/failure.h"
#include "agent/mountd-cni/personality.h"
#include "netns/cni/documents/json.h"

// The keys with which a configuration addresses the CNI project's plugin of a
// personality's name. The personality accepts what mountd does anyway, and what
// has no meaning without that plugin's bridge, chains or files. It refuses the
// rest, because nobody may believe that it is in force.
namespace mountd::cni_plugin {

// True if the personality knows the key.
bool IsChainKey(Personality personality, std::string_view key);

// kInvalidConfig for a known key with a value that mountd does not put in
// force.
Outcome<void> CheckChainKeys(Personality personality,
                             const cni::Json& document);

}  // namespace mountd::cni_plugin
