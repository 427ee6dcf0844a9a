// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/names.h"

#include <systemd/sd-id128.h>

#include <algorithm>
#include <cstring>

namespace mountd {
namespace {

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' ||
         c == '[' || c == ']';
}

// The number of bytes of the UTF-8 sequence that starts with `lead`, 0 if none
// does; rejects overlong forms, surrogates and values over U+10FFFF (RFC 3629).
std::size_t SequenceLength(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i])
                                : 0U;
  };
  const auto continuation = [&](std::size_t i) {
    return (byte(i) & 0xC0U) == 0x80U;
  };
  const unsigned lead = byte(0);
  if (lead < 0x80U) {
    return 1;
  }
  if (lead >= 0xC2U && lead <= 0xDFU) {
    return continuation(1) ? 2 : 0;
  }
  if (lead >= 0xE0U && lead <= 0xEFU) {
    const bool overlong = lead == 0xE0U && byte(1) < 0xA0U;
    const bool surrogate = lead == 0xEDU && byte(1) > 0x9FU;
    return continuation(1) && continuation(2) && !overlong && !surrogate ? 3
                                                                         : 0;
  }
  if (lead >= 0xF0U && lead <= 0xF4U) {
    const bool overlong = lead == 0xF0U && byte(1) < 0x90U;
    const bool too_big = lead == 0xF4U && byte(1) > 0x8FU;
    return continuation(1) && continuation(2) && continuation(3) &&
                   !overlong && !too_big
               ? 4
               : 0;
  }
  return 0;
}

// One step of a Merkle-Damgard chain whose compression is libsystemd's
// HMAC-SHA256 (sd_id128_get_app_specific(3)): a library's hash, 122 bits.
sd_id128_t Absorb(sd_id128_t state, const sd_id128_t& block) {
  sd_id128_t next = SD_ID128_NULL;
  if (sd_id128_get_app_specific(state, block, &next) < 0) {
    std::abort();  // fails only for a null state, which is never passed
  }
  return next;
}

sd_id128_t AbsorbText(sd_id128_t state, std::string_view text) {
  sd_id128_t block = SD_ID128_NULL;
  const std::uint64_t size = text.size();
  std::memcpy(block.bytes, &size, sizeof(size));
  state = Absorb(state, block);
  for (std::size_t at = 0; at < text.size(); at += sizeof(block.bytes)) {
    block = SD_ID128_NULL;
    std::memcpy(block.bytes, text.data() + at,
                std::min(sizeof(block.bytes), text.size() - at));
    state = Absorb(state, block);
  }
  return state;
}

}  // namespace

bool IsValidName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." &&
         name != ".." && std::all_of(name.begin(), name.end(), IsNameByte);
}

Result<Name> Name::Parse(std::string_view what, std::string_view text) {
  if (!IsValidName(text)) {
    return MakeError(Code::kInvalidArgument, "check", std::string(what),
                     "must be 1 to 128 bytes of [A-Za-z0-9._[]-], and not . "
                     "or ..");
  }
  return Name(std::string(text));
}

bool IsValidUtf8(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = SequenceLength(text, at);
    if (length == 0) {
      return false;
    }
    at += length;
  }
  return true;
}

Result<void> CheckVolumeId(std::string_view volume_id) {
  if (volume_id.empty() || volume_id.size() > kMaxVolumeIdBytes ||
      volume_id.find('\0') != std::string_view::npos ||
      !IsValidUtf8(volume_id)) {
    return MakeError(Code::kInvalidArgument, "check", "volume",
                     "an id must be 1 to 1024 bytes of UTF-8 without NUL");
  }
  return Ok();
}

VolumeKey VolumeKey::Derive(std::string_view plugin,
                            std::string_view volume_id) {
  // A constant start value, drawn once for this purpose.
  sd_id128_t state =
      SD_ID128_MAKE(5f, 1c, 93, 2a, 7e, d0, 4b, 58, 9f, 33, 60, b4, e2, 71, 0d,
                    c6);
  state = AbsorbText(state, plugin);
  state = AbsorbText(state, volume_id);
  std::array<char, SD_ID128_STRING_MAX> text{};
  sd_id128_to_string(state, text.data());
  VolumeKey key;
  std::copy_n(text.begin(), kHexDigits, key.hex_.begin());
  return key;
}

Result<VolumeKey> VolumeKey::Parse(std::string_view hex) {
  const bool valid =
      hex.size() == kHexDigits && std::all_of(hex.begin(), hex.end(), [](char c) {
        return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
      });
  if (!valid) {
    return MakeError(Code::kInvalidArgument, "check", "volume key",
                     "must be 32 lower-case hex digits");
  }
  VolumeKey key;
  std::copy(hex.begin(), hex.end(), key.hex_.begin());
  return key;
}

}  // namespace mountd
