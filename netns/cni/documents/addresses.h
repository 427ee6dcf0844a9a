// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mountd::cni {

// An address that a plugin wrote, in one spelling.
struct IpAddress {
  bool is_ipv6 = false;
  std::string text;
};

// Parses an address such as "10.0.0.2" or "fd00::2". Empty for a text with a
// zone or a port.
std::optional<IpAddress> ParseIpAddress(std::string_view text);

// An address such as "10.0.0.2/24": the host's address, and the prefix within
// its family.
struct Cidr {
  IpAddress address;
  unsigned prefix = 0;
  std::string ToText() const;
};
std::optional<Cidr> ParseCidr(std::string_view text);

}  // namespace mountd::cni
