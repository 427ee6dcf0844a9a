// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/fields/field.h"

// Internal to agent/. Turns CSI's numbers of capabilities into the names of the
// CSI specification.
namespace mountd::agent {

// Returns the names in the order of the numbers. A number that this release
// does not know stays a number. `kind` is a Form for which IsCapabilities.
std::vector<std::string> CapabilityNames(
    Form kind, const std::vector<std::int32_t>& numbers);

}  // namespace mountd::agent
