// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace mountd {

// The journal splits a longer line (journald.conf(5), LineMax=) and reads "<0>"
// at the beginning of each part as its level (sd-daemon(3)).
inline constexpr std::size_t kMaxLogLine = 8192;

// Returns the text as one line of a log of at most kMaxLogLine bytes, because
// callers or plugins may have written parts of the text. Replaces by "?" each
// control character (C0, DEL, C1), line and paragraph separator (U+2028,
// U+2029), character that changes the direction of text, and byte that is not
// UTF-8.
std::string OnOneLine(std::string_view text);

}  // namespace mountd
