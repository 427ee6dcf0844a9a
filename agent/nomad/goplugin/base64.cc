// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/goplugin/base64.h"

#include <cstdint>

namespace mountd::goplugin {

std::string Base64WithoutPadding(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  constexpr unsigned kBits = 6;
  constexpr std::uint32_t kMask = (1U << kBits) - 1;
  std::string text;
  std::uint32_t held = 0;
  unsigned count = 0;  // of bits in `held` that no digit has yet
  for (const char byte : bytes) {
    held = held << 8U | static_cast<unsigned char>(byte);
    for (count += 8; count >= kBits; count -= kBits) {
      text += kDigits[held >> (count - kBits) & kMask];
    }
  }
  if (count > 0) {
    text += kDigits[held << (kBits - count) & kMask];
  }
  return text;
}

}  // namespace mountd::goplugin
