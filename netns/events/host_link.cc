// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/events/host_link.h"

#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include "netns/address/address.h"
#include "netns/events/attributes.h"

namespace mountd::netns {
namespace {

// The kernel's array of an interface's IPv4 settings starts at index 1.
bool RoutesLocalnet(const Attributes& link) {
  constexpr std::size_t kSize = sizeof(std::uint32_t);
  constexpr std::size_t kAt = (IPV4_DEVCONF_ROUTE_LOCALNET - 1) * kSize;
  const std::span<const std::byte> settings =
      link.Nested(IFLA_AF_SPEC).Nested(AF_INET).Bytes(IFLA_INET_CONF);
  return settings.size() >= kAt + kSize &&
         HeaderOf<std::uint32_t>(settings.subspan(kAt)) != 0U;
}

}  // namespace

bool IsHostLinkRight(std::span<const std::byte> payload) {
  const auto header = HeaderOf<ifinfomsg>(payload);
  const auto attributes = AttributesAfter<ifinfomsg>(payload);
  constexpr unsigned kFlags = IFF_UP | IFF_NOARP;
  return header && (header->ifi_flags & kFlags) == kFlags &&
         attributes.Value<Mac>(IFLA_ADDRESS) == kGatewayMac &&
         RoutesLocalnet(attributes);
}

}  // namespace mountd::netns
