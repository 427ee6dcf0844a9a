// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountd-cni/mac_address.h"

#include <charconv>

#include "agent/mountd-cni/values.h"
#include "netns/address/address.h"
#include "netns/cni/documents/names.h"

namespace mountd::cni_plugin {

Outcome<std::string> AddressOfMac(const std::string& mac) {
  if (!cni::IsMac(mac)) {
    return BadConfig("mac", "must be six bytes in hex, with colons");
  }
  netns::Mac bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const char* digits = &mac.at(3 * i);
    std::from_chars(digits, digits + 2, bytes.at(i), 16);
  }
  const netns::Ipv4 address = {bytes[2], bytes[3], bytes[4], bytes[5]};
  if (netns::LinkMac(address) != bytes) {
    return BadConfig("mac",
                     mac +
                         " is not possible; mountd derives it from the IPv4 "
                         "address: 10.88.0.9 has 02:4d:0a:58:00:09");
  }
  return netns::ToString(address);
}

}  // namespace mountd::cni_plugin
