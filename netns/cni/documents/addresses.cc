// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/documents/addresses.h"

#include <arpa/inet.h>

#include <array>

#include "mountd/base/number.h"

namespace mountd::cni {

std::optional<IpAddress> ParseIpAddress(std::string_view text) {
  // inet_pton(3) would stop at a NUL and accept the text before it.
  if (text.find('\0') != std::string_view::npos) {
    return std::nullopt;
  }
  const std::string copy(text);
  std::array<unsigned char, sizeof(in6_addr)> bytes{};
  std::array<char, INET6_ADDRSTRLEN> spelling{};
  for (const int family : {AF_INET, AF_INET6}) {
    if (::inet_pton(family, copy.c_str(), bytes.data()) == 1 &&
        ::inet_ntop(family, bytes.data(), spelling.data(), spelling.size()) !=
            nullptr) {
      return IpAddress{family == AF_INET6, spelling.data()};
    }
  }
  return std::nullopt;
}

std::string Cidr::ToText() const {
  return address.text + "/" + std::to_string(prefix);
}

std::optional<Cidr> ParseCidr(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) {
    return std::nullopt;
  }
  const auto address = ParseIpAddress(text.substr(0, slash));
  const auto prefix = ParseNumber<unsigned>(text.substr(slash + 1));
  if (!address || !prefix || *prefix > (address->is_ipv6 ? 128U : 32U)) {
    return std::nullopt;
  }
  return Cidr{*address, *prefix};
}

}  // namespace mountd::cni
