// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "netns/plans/veth.h"

// Internal to plans/: the messages of rtnetlink(7) that make and configure the
// two ends of a veth.
namespace mountd::netns {

// With NLM_F_EXCL the kernel never changes an object that exists (netlink(7)).
inline constexpr int kMake = NLM_F_CREATE | NLM_F_EXCL;

inline ifinfomsg LinkHeader(std::uint32_t index, unsigned flags = 0) {
  ifinfomsg header = {};
  header.ifi_index = static_cast<int>(index);
  header.ifi_flags = flags;
  // Change these flags only.
  header.ifi_change = flags;
  return header;
}

inline Message LinkUp(std::uint32_t index, unsigned more_flags = 0) {
  return Message(RTM_NEWLINK, 0, LinkHeader(index, IFF_UP | more_flags));
}

inline Message LinkAddress(std::uint32_t index, const Mac& mac) {
  Message message(RTM_NEWLINK, 0, LinkHeader(index));
  message.Put(IFLA_ADDRESS, mac);
  return message;
}

// Sets the link's modes: no link-local address and, on the host end, packets
// from and to 127/8. The guard chain lets such packets pass only as answers of
// mapped ports.
inline Message AddressModes(std::uint32_t index, bool route_localnet,
                            const std::string& alias) {
  Message message(RTM_NEWLINK, 0, LinkHeader(index));
  message.PutBytes(IFLA_IFALIAS, std::as_bytes(std::span(alias)));
  message.Begin(IFLA_AF_SPEC);
  message.Begin(AF_INET6)
      .Put(IFLA_INET6_ADDR_GEN_MODE, std::uint8_t{IN6_ADDR_GEN_MODE_NONE})
      .End();
  if (route_localnet) {
    message.Begin(AF_INET)
        .Begin(IFLA_INET_CONF)
        .Put(IPV4_DEVCONF_ROUTE_LOCALNET, std::uint32_t{1})
        .End()
        .End();
  }
  message.End();
  return message;
}

template <typename Address>
constexpr unsigned char FamilyOf() {
  return sizeof(Address) == sizeof(Ipv4) ? AF_INET : AF_INET6;
}

template <typename Address>
Message NewAddress(std::uint32_t index, const Address& address, int flags) {
  ifaddrmsg header = {};
  header.ifa_family = FamilyOf<Address>();
  header.ifa_prefixlen = sizeof(Address) * 8;
  header.ifa_index = index;
  Message message(RTM_NEWADDR, flags, header);
  message.Put(IFA_LOCAL, address).Put(IFA_ADDRESS, address);
  if (FamilyOf<Address>() == AF_INET6) {
    // Makes the address usable at once; duplicate address detection takes 1.2
    // s.
    message.Put(IFA_FLAGS, std::uint32_t{IFA_F_NODAD});
  }
  return message;
}

template <typename Address>
Message NewNeighbour(std::uint32_t index, const Address& address,
                     const Mac& mac, int flags = kMake) {
  ndmsg header = {};
  header.ndm_family = FamilyOf<Address>();
  header.ndm_ifindex = static_cast<int>(index);
  // PERMANENT, so that the kernel never asks for the MAC and never forgets it.
  header.ndm_state = NUD_PERMANENT;
  Message message(RTM_NEWNEIGH, flags, header);
  message.Put(NDA_DST, address).Put(NDA_LLADDR, mac);
  return message;
}

template <typename Address>
rtmsg RouteHeader(std::size_t prefix) {
  rtmsg header = {};
  header.rtm_family = FamilyOf<Address>();
  header.rtm_dst_len = static_cast<unsigned char>(prefix);
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_type = RTN_UNICAST;
  return header;
}

template <typename Address>
Message HostRoute(std::uint32_t index, const Address& address,
                  const Address& source, int flags) {
  rtmsg header = RouteHeader<Address>(sizeof(Address) * 8);
  header.rtm_scope = RT_SCOPE_LINK;
  Message message(RTM_NEWROUTE, flags, header);
  message.Put(RTA_DST, address).Put(RTA_OIF, index).Put(RTA_PREFSRC, source);
  return message;
}

// Makes a route to `range` through the gateway; prefix 0 is the default route.
template <typename Address>
Message GatewayRoute(std::uint32_t index, const Range<Address>& range,
                     const Address& gateway) {
  rtmsg header = RouteHeader<Address>(range.prefix);
  // ONLINK, because no address of the link covers the gateway's.
  header.rtm_flags = RTNH_F_ONLINK;
  Message message(RTM_NEWROUTE, kMake, header);
  if (range.prefix != 0) {
    message.Put(RTA_DST, range.base);
  }
  message.Put(RTA_GATEWAY, gateway).Put(RTA_OIF, index);
  return message;
}

// Adds what one family needs at the host end.
template <typename Address>
void AddHostEnd(std::uint32_t index, const Address& address,
                const Address& source, const Mac& mac, int flags,
                std::vector<Message>* messages) {
  messages->push_back(NewNeighbour(index, address, mac, flags));
  messages->push_back(HostRoute(index, address, source, flags));
}

// Adds what one family needs at the allocation's end.
template <typename Address>
void AddFamily(std::uint32_t index, const Address& address,
               const Address& gateway,
               const std::vector<Range<Address>>& routes,
               std::vector<Message>* messages) {
  messages->push_back(NewAddress(index, address, kMake));
  messages->push_back(NewNeighbour(index, gateway, kGatewayMac));
  for (const Range<Address>& range : routes) {
    messages->push_back(GatewayRoute(index, range, gateway));
  }
}

inline void AddAllocationEnd(std::uint32_t index, const Veth& veth,
                             std::vector<Message>* messages) {
  messages->push_back(LinkUp(index));
  if (!IsNone(veth.ipv4)) {
    AddFamily(index, veth.ipv4, kGateway4, veth.routes4, messages);
  }
  if (!IsNone(veth.ipv6)) {
    AddFamily(index, veth.ipv6, kGateway6, veth.routes6, messages);
  }
}

}  // namespace mountd::netns
