// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

namespace mountd::driver {

// Returns the SHA-256 of the bytes as 64 small hexadecimal digits.
std::string Sha256Hex(std::string_view bytes);

// Says whether the text is such a SHA-256.
bool IsSha256Hex(std::string_view text);

}  // namespace mountd::driver
