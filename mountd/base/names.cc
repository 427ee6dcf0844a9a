// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/names.h"

#include <nettle/sha2.h>

#include <algorithm>
#include <cstring>

namespace mountd {
namespace {

bool IsNameByte(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-' ||
         c == '[' || c == ']';
}

// Returns the length in bytes of the UTF-8 sequence at `at`, 0 if none is
// valid. Rejects overlong forms, surrogates and values over U+10FFFF (RFC
// 3629).
std::size_t SequenceLength(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
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
    return continuation(1) && continuation(2) && continuation(3) && !overlong &&
                   !too_big
               ? 4
               : 0;
  }
  return 0;
}

// Hashes the text's length before the text. So no two (plugin, id) pairs hash
// alike because a byte moved from one to the other.
void Absorb(sha256_ctx& hash, std::string_view text) {
  const std::uint64_t size = text.size();
  std::array<std::uint8_t, sizeof(size)> prefix{};
  std::memcpy(prefix.data(), &size, sizeof(size));
  sha256_update(&hash, prefix.size(), prefix.data());
  sha256_update(&hash, text.size(),
                reinterpret_cast<const std::uint8_t*>(text.data()));
}

template <std::size_t kDigits>
void HashTo(std::string_view one, std::string_view other,
            std::array<char, kDigits>& hex) {
  sha256_ctx hash{};
  sha256_init(&hash);
  Absorb(hash, one);
  Absorb(hash, other);
  std::array<std::uint8_t, kDigits / 2> digest{};
  sha256_digest(&hash, digest.size(), digest.data());
  constexpr std::string_view kAll = "0123456789abcdef";
  for (std::size_t i = 0; i < digest.size(); ++i) {
    hex[2 * i] = kAll[digest[i] >> 4U];
    hex[2 * i + 1] = kAll[digest[i] & 15U];
  }
}

bool IsHex(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
  });
}

}  // namespace

bool IsValidName(std::string_view name) {
  return !name.empty() && name.size() <= kMaxNameBytes && name != "." &&
         name != ".." && std::all_of(name.begin(), name.end(), IsNameByte);
}

Result<Name> Name::Parse(std::string_view what, std::string_view text) {
  if (!IsValidName(text)) {
    return MakeError(
        Code::kInvalidArgument, "check", std::string(what),
        "must be 1 to 128 bytes of [A-Za-z0-9._[]-], but not . or ..");
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
  VolumeKey key;
  HashTo(plugin, volume_id, key.hex_);
  return key;
}

Result<VolumeKey> VolumeKey::Parse(std::string_view hex) {
  if (hex.size() != kHexDigits || !IsHex(hex)) {
    return MakeError(Code::kInvalidArgument, "check", "volume key",
                     "must be 32 lower-case hex digits");
  }
  VolumeKey key;
  std::copy(hex.begin(), hex.end(), key.hex_.begin());
  return key;
}

InstanceKey InstanceKey::Derive(std::string_view allocation,
                                std::string_view type) {
  InstanceKey key;
  // A node or monolith plugin without an allocation keeps the key of zeros.
  if (!allocation.empty() || type == "controller") {
    HashTo(allocation, type, key.hex_);
  }
  return key;
}

Result<InstanceKey> InstanceKey::Parse(std::string_view hex) {
  if (hex.size() != kHexDigits || !IsHex(hex)) {
    return MakeError(Code::kInvalidArgument, "check", "instance",
                     "must be 16 lower-case hex digits");
  }
  InstanceKey key;
  std::copy(hex.begin(), hex.end(), key.hex_.begin());
  return key;
}

}  // namespace mountd
