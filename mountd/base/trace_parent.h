// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace mountd {

using TraceId = std::array<std::uint8_t, 16>;
using SpanId = std::array<std::uint8_t, 8>;

// The value of a "traceparent" (W3C Trace Context, level 2, section 3.2): the
// trace, the caller's span in it, and whether somebody records the trace.
struct TraceParent {
  // The flags that level 2 knows: sampled, and random trace id.
  static constexpr std::uint8_t kSampled = 0x01;
  static constexpr std::uint8_t kKnownFlags = 0x03;

  TraceId trace_id{};
  SpanId span_id{};
  std::uint8_t flags = 0;

  bool sampled() const { return (flags & kSampled) != 0; }
  friend bool operator==(const TraceParent&, const TraceParent&) = default;
};

// Returns nothing unless the text is a valid traceparent. Accepts only
// lower-case hex. Refuses the version ff and ids of zeros only. A version 00
// has 55 characters. A later version may have more after a "-", up to 128
// characters (section 3.2.4). Drops the flags that level 2 does not know.
std::optional<TraceParent> ParseTraceParent(std::string_view text);

// Returns the text of version 00, such as "00-<32 digits>-<16 digits>-01".
std::string ToText(const TraceParent& parent);

// Returns two lower-case hex digits for each byte.
std::string ToHex(std::span<const std::uint8_t> bytes);

// Returns a random id that is not all zeros.
SpanId NewSpanId();

// Returns whether the text may be a request's id: 1 to 128 characters of
// printable ASCII without a space, so that it ends where a log line's next word
// begins.
inline constexpr std::size_t kMaxRequestId = 128;
bool IsRequestId(std::string_view text);

// The names that a caller gave its call. mountd believes nothing of them, and
// only repeats them.
struct CallTrace {
  std::optional<TraceParent> parent;
  std::string request_id;  // "": none

  friend bool operator==(const CallTrace&, const CallTrace&) = default;
};

// Returns the caller's names that a store kept as texts. "" stands for none.
CallTrace CallTraceOf(const std::string& traceparent,
                      const std::string& request_id);

// Returns the caller's names for a log line: " trace_id=<32 digits>
// request_id=<id>". Leaves out a name that the caller did not give.
std::string ToLogText(const CallTrace& call);

}  // namespace mountd
