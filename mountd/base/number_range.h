// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "mountd/base/number.h"

namespace mountd {

// A range that includes both ends.
struct NumberRange {
  std::uint32_t first = 0;
  std::uint32_t last = 0;
};

// Parses "FIRST-LAST", or one number for both ends. Nothing unless all numbers
// are from 1 to `most` and in order.
inline std::optional<NumberRange> ParseNumberRange(std::string_view text,
                                                   std::uint32_t most) {
  const std::size_t dash = text.find('-');
  const auto first = ParseNumber<std::uint32_t>(text.substr(0, dash));
  const auto last = dash == std::string_view::npos
                        ? first
                        : ParseNumber<std::uint32_t>(text.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first || *last > most) {
    return std::nullopt;
  }
  return NumberRange{*first, *last};
}

}  // namespace mountd
