// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/one_line.h"

#include <algorithm>
#include <cstdint>

namespace mountd {
namespace {

constexpr std::uint32_t kNoCharacter = 0xFFFFFFFF;

struct Character {
  std::uint32_t code = kNoCharacter;
  std::size_t size = 1;  // bytes
};

// Returns the first character of `text`, which is not empty (RFC 3629, section
// 4).
Character FirstOf(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  if (lead < 0x80) {
    return {lead, 1};
  }
  const std::size_t size = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < size) {
    return {};
  }
  std::uint32_t code = lead & (0xFFU >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xC0U) != 0x80) {
      return {};
    }
    code = (code << 6U) | (byte & 0x3FU);
  }
  constexpr std::uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool is_surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < kLeast[size] || code > 0x10FFFF || is_surrogate
             ? Character{}
             : Character{code, size};
}

// Returns whether the character may appear in a log line as it is.
bool MayStand(std::uint32_t code) {
  const auto is_between = [code](std::uint32_t first, std::uint32_t last) {
    return code >= first && code <= last;
  };
  return code != kNoCharacter && code >= 0x20 && !is_between(0x7F, 0x9F) &&
         !is_between(0x200E, 0x200F) && !is_between(0x2028, 0x202E) &&
         !is_between(0x2066, 0x2069);
}

// Counts the leading bytes that are printable ASCII. OnOneLine copies them at
// once, because most lines are little else.
std::size_t PlainBytes(std::string_view text) {
  const auto* const end = std::find_if(
      text.begin(), text.end(),
      [](unsigned char byte) { return byte < 0x20 || byte >= 0x7F; });
  return static_cast<std::size_t>(end - text.begin());
}

}  // namespace

std::string OnOneLine(std::string_view text) {
  std::string line;
  line.reserve(std::min(text.size(), kMaxLogLine));
  while (!text.empty()) {
    const std::size_t plain =
        std::min(PlainBytes(text), kMaxLogLine - line.size());
    line.append(text.substr(0, plain));
    text.remove_prefix(plain);
    if (text.empty()) {
      break;
    }
    const Character next = FirstOf(text);
    const bool stands = MayStand(next.code);
    if (line.size() + (stands ? next.size : 1) > kMaxLogLine) {
      break;
    }
    line.append(stands ? text.substr(0, next.size) : std::string_view("?"));
    text.remove_prefix(next.size);
  }
  return line;
}

}  // namespace mountd
