// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/receive/framing.h"

#include <algorithm>
#include <string_view>

namespace mountd::dbus {
namespace {

// The client's last line. After it both sides send messages (D-Bus
// Specification, "Authentication Protocol").
constexpr std::string_view kBegin = "BEGIN\r\n";

std::uint64_t NumberAt(std::span<const std::byte> bytes, std::size_t at,
                       bool is_big_endian) {
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    const std::size_t place = is_big_endian ? at + i : at + 3 - i;
    value = (value << 8U) | std::to_integer<std::uint64_t>(bytes[place]);
  }
  return value;
}

// Byte 0 says the byte order. The 32-bit number at offset 4 is the body's
// length. The number at offset 12 is the length of the header's fields, which
// are padded to 8 bytes (D-Bus Specification, "Message Format").
std::uint64_t SizeOfMessage(std::span<const std::byte> header) {
  const bool is_big = header[0] == std::byte{'B'};
  const std::uint64_t body = NumberAt(header, 4, is_big);
  const std::uint64_t fields = NumberAt(header, 12, is_big);
  return header.size() + (fields + 7) / 8 * 8 + body;
}

}  // namespace

void Framing::Add(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    bytes =
        bytes.subspan(has_begun_ ? AddToMessage(bytes) : AddToHandshake(bytes));
  }
}

// Looks for a line that is BEGIN alone, because such a line ends the handshake.
std::size_t Framing::AddToHandshake(std::span<const std::byte> bytes) {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char next = static_cast<char>(bytes[i]);
    // Keeps one byte more than BEGIN has, because a longer line is not BEGIN.
    if (line_.size() <= kBegin.size()) {
      line_.push_back(next);
    }
    if (line_ == kBegin) {
      has_begun_ = true;
      return i + 1;
    }
    if (next == '\n') {
      line_.clear();
    }
  }
  return bytes.size();
}

std::size_t Framing::AddToMessage(std::span<const std::byte> bytes) {
  if (at_ < kHeader) {
    const std::size_t count =
        std::min<std::size_t>(kHeader - at_, bytes.size());
    std::copy_n(bytes.begin(), count,
                header_.begin() + static_cast<std::ptrdiff_t>(at_));
    at_ += count;
    if (at_ == kHeader) {
      size_ = SizeOfMessage(header_);
    }
    if (at_ < kHeader || size_ > kHeader) {
      return count;
    }
    bytes = bytes.first(count);
  } else {
    const auto count = static_cast<std::size_t>(
        std::min<std::uint64_t>(size_ - at_, bytes.size()));
    at_ += count;
    bytes = bytes.first(count);
  }
  if (at_ >= size_) {
    ++complete_;
    at_ = 0;
  }
  return bytes.size();
}

}  // namespace mountd::dbus
