// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <optional>
#include <span>
#include <string>

namespace mountd::netns {

// The fixed header that a netlink message's payload starts with (ifinfomsg,
// nfgenmsg); none if it is too short for one.
template <typename Header>
std::optional<Header> HeaderOf(std::span<const std::byte> payload) {
  Header header{};
  if (payload.size() < sizeof(header)) {
    return std::nullopt;
  }
  std::memcpy(&header, payload.data(), sizeof(header));
  return header;
}

// The attributes that follow that header, or are nested in one of them. Of the
// bytes, which outlive it.
class Attributes {
 public:
  Attributes(std::span<const std::byte> payload, std::size_t header);

  // Without data for one that is not there.
  std::span<const std::byte> Bytes(int type) const;
  // What is nested in each of them, in their order.
  void Each(const std::function<void(const Attributes&)>& each) const;
  Attributes Nested(int type) const { return {Bytes(type), 0}; }
  // "" for none.
  std::string Text(int type) const;
  // None, too, for one of another size.
  template <typename T>
  std::optional<T> Value(int type) const {
    const std::span<const std::byte> bytes = Bytes(type);
    return bytes.size() == sizeof(T) ? HeaderOf<T>(bytes) : std::nullopt;
  }

 private:
  std::span<const std::byte> bytes_;
};

// Those of a message whose fixed header is a Header.
template <typename Header>
Attributes AttributesAfter(std::span<const std::byte> payload) {
  return {payload, sizeof(Header)};
}

}  // namespace mountd::netns
