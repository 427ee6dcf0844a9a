// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace mountd::netns {

// Returns the fixed header at the start of a netlink message's payload
// (ifinfomsg, nfgenmsg). Empty if the payload is too short.
template <typename Header>
std::optional<Header> HeaderOf(std::span<const std::byte> payload) {
  Header header{};
  if (payload.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, payload.data(), sizeof(header));
  return header;
}

// The attributes after that header, or nested in another attribute. Refers to
// the payload's bytes, which must outlive it.
class Attributes {
 public:
  Attributes(std::span<const std::byte> payload, std::size_t header);

  // Returns the attribute's bytes; an empty span if it is missing.
  std::span<const std::byte> Bytes(int type) const;
  // Calls `each` for what is nested in each attribute, in order.
  void Each(const std::function<void(const Attributes&)>& each) const;
  Attributes Nested(int type) const { return {Bytes(type), 0}; }
  // Returns the attribute's text; "" if it is missing.
  std::string Text(int type) const;
  // Returns the attribute's value. Empty if it is missing or of another size.
  template <typename T>
  std::optional<T> Value(int type) const {
    const std::span<const std::byte> bytes = Bytes(type);
    return bytes.size() == sizeof(T) ? HeaderOf<T>(bytes) : std::nullopt;
  }

 private:
  std::span<const std::byte> bytes_;
};

// Returns the attributes of a message whose fixed header is a Header.
template <typename Header>
Attributes AttributesAfter(std::span<const std::byte> payload) {
  return {payload, sizeof(Header)};
}

}  // namespace mountd::netns
