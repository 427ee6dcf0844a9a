// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <cstdlib>

#include "mountd/base/number.h"

namespace mountd::testing {

// Returns the number in an environment variable, or `otherwise`.
inline std::uint32_t NumberOf(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  const auto number = ParseNumber<std::uint32_t>(text != nullptr ? text : "");
  return number ? *number : otherwise;
}

}  // namespace mountd::testing
