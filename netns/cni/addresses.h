// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace mountd::cni {

// An address as plugins write it, in one spelling.
struct IpAddress {
  bool is_ipv6 = false;
  std::string text;
};

// "10.0.0.2", "fd00::2"; no zone, no port.
std::optional<IpAddress> ParseIpAddress(std::string_view text);

// "10.0.0.2/24": the address of the host, and the prefix within its family.
struct Cidr {
  IpAddress address;
  unsigned prefix = 0;
  std::string ToText() const;
};
std::optional<Cidr> ParseCidr(std::string_view text);

}  // namespace mountd::cni
