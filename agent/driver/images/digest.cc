// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/digest.h"

#include <nettle/sha2.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace mountd::driver {

std::string Sha256Hex(std::string_view bytes) {
  sha256_ctx hash{};
  sha256_init(&hash);
  sha256_update(&hash, bytes.size(),
                // nettle reads bytes; the cast changes no value.
                reinterpret_cast<const std::uint8_t*>(bytes.data()));
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&hash, digest.size(), digest.data());
  static constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(digest.size() * 2);
  for (const std::uint8_t byte : digest) {
    text.push_back(kDigits[byte >> 4U]);
    text.push_back(kDigits[byte & 0xfU]);
  }
  return text;
}

bool IsSha256Hex(std::string_view text) {
  return text.size() == std::size_t{2} * SHA256_DIGEST_SIZE &&
         std::all_of(text.begin(), text.end(), [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace mountd::driver
