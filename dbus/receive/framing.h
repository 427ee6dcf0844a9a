// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mountd::dbus {

// Finds where messages begin and end in the bytes that a D-Bus client sends.
// These are the lines of the handshake up to BEGIN, then messages by the
// lengths in their headers (D-Bus specification, "Authentication Protocol",
// "Message Format"). Looks at nothing else of a message.
class Framing {
 public:
  // Takes the next bytes of the stream.
  void Add(std::span<const std::byte> bytes);

  // Returns the number of whole messages so far, malformed ones included.
  std::uint64_t complete() const { return complete_; }
  // True if some but not all bytes of a message have come.
  bool IsInMessage() const { return has_begun_ && at_ != 0; }

 private:
  static constexpr std::size_t kHeader = 16;

  std::size_t AddToHandshake(std::span<const std::byte> bytes);
  std::size_t AddToMessage(std::span<const std::byte> bytes);

  bool has_begun_ = false;
  std::string line_;  // the last bytes of the current line
  std::array<std::byte, kHeader> header_{};
  std::uint64_t at_ = 0;    // bytes of the current message so far
  std::uint64_t size_ = 0;  // of the current message, once its header is there
  std::uint64_t complete_ = 0;
};

}  // namespace mountd::dbus
