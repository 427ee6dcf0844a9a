// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/trace_parent.h"

#include <sys/random.h>

#include <algorithm>

namespace mountd {
namespace {

constexpr std::size_t kLength = 55;
constexpr std::size_t kMaxLength = 128;
constexpr std::string_view kLowerHex = "0123456789abcdef";

// Reads two digits a byte. Returns false for any other character.
bool ReadHex(std::string_view digits, std::span<std::uint8_t> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::size_t high = kLowerHex.find(digits[2 * i]);
    const std::size_t low = kLowerHex.find(digits[2 * i + 1]);
    if (high == std::string_view::npos || low == std::string_view::npos) {
      return false;
    }
    bytes[i] = static_cast<std::uint8_t>(high << 4U | low);
  }
  return true;
}

bool IsZero(std::span<const std::uint8_t> bytes) {
  return std::all_of(bytes.begin(), bytes.end(),
                     [](std::uint8_t byte) { return byte == 0; });
}

}  // namespace

std::optional<TraceParent> ParseTraceParent(std::string_view text) {
  if (text.size() < kLength || text.size() > kMaxLength || text[2] != '-' ||
      text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  std::array<std::uint8_t, 1> version{};
  std::array<std::uint8_t, 1> flags{};
  TraceParent parent;
  if (!ReadHex(text.substr(0, 2), version) ||
      !ReadHex(text.substr(3, 32), parent.trace_id) ||
      !ReadHex(text.substr(36, 16), parent.span_id) ||
      !ReadHex(text.substr(53, 2), flags)) {
    return std::nullopt;
  }
  // The version ff is invalid (section 3.2.2.1).
  const bool ends_well =
      text.size() == kLength || (version[0] != 0 && text[kLength] == '-');
  if (version[0] == 0xff || !ends_well || IsZero(parent.trace_id) ||
      IsZero(parent.span_id)) {
    return std::nullopt;
  }
  parent.flags = flags[0] & TraceParent::kKnownFlags;
  return parent;
}

std::string ToHex(std::span<const std::uint8_t> bytes) {
  std::string text;
  text.reserve(2 * bytes.size());
  for (const std::uint8_t byte : bytes) {
    text += kLowerHex[byte >> 4U];
    text += kLowerHex[byte & 0xfU];
  }
  return text;
}

std::string ToText(const TraceParent& parent) {
  return "00-" + ToHex(parent.trace_id) + "-" + ToHex(parent.span_id) + "-" +
         ToHex(std::span(&parent.flags, 1));
}

SpanId NewSpanId() {
  SpanId id{};
  do {
    // getrandom(2) gives 8 bytes at once; only an early boot could interrupt
    // it, and the loop then repeats it.
    if (::getrandom(id.data(), id.size(), 0) !=
        static_cast<ssize_t>(id.size())) {
      id.fill(0);
    }
  } while (IsZero(id));
  return id;
}

CallTrace CallTraceOf(const std::string& traceparent,
                      const std::string& request_id) {
  return {ParseTraceParent(traceparent), request_id};
}

std::string ToLogText(const CallTrace& call) {
  std::string text;
  if (call.parent) {
    text += " trace_id=" + ToHex(call.parent->trace_id);
  }
  if (!call.request_id.empty()) {
    text += " request_id=" + call.request_id;
  }
  return text;
}

bool IsRequestId(std::string_view text) {
  return !text.empty() && text.size() <= kMaxRequestId &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return c > 0x20 && c < 0x7f; });
}

}  // namespace mountd
