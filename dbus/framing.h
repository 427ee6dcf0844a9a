// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mountd::dbus {

// Where messages begin and end in the bytes that a D-Bus client sends: the
// lines of the handshake up to BEGIN, then messages by the lengths in their
// headers (D-Bus specification, "Authentication Protocol", "Message Format").
// Nothing else of a message is looked at.
class Framing {
 public:
  // The next bytes of the stream.
  void Add(std::span<const std::byte> bytes);

  // Whole messages until now, malformed ones included.
  std::uint64_t complete() const { return complete_; }
  // Bytes of a message have come, but not all.
  bool IsInMessage() const { return has_begun_ && at_ != 0; }

 private:
  static constexpr std::size_t kHeader = 16;

  std::size_t AddToHandshake(std::span<const std::byte> bytes);
  std::size_t AddToMessage(std::span<const std::byte> bytes);

  bool has_begun_ = false;
  std::string line_;  // its last bytes
  std::array<std::byte, kHeader> header_{};
  std::uint64_t at_ = 0;    // in the message
  std::uint64_t size_ = 0;  // of the message, once the header is there
  std::uint64_t complete_ = 0;
};

}  // namespace mountd::dbus
