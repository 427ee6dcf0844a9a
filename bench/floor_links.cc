// SPDX-License-Identifier: LGPL-2.1-or-later
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>

#include <cstdio>

#include "bench/floor_messages.h"

namespace mountd::bench {
namespace {

constexpr int kMake = NLM_F_CREATE | NLM_F_EXCL;
constexpr V4 kHost4 = {10, 89, 0, 1};
constexpr V6 kHost6 = {0xfd, 0x89, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr V4 kGateway4 = {169, 254, 1, 1};
constexpr V6 kGateway6 = {0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
constexpr Mac kHostMac = {0x02, 0x4d, 0, 0, 0, 1};
// Chooses the indexes, so that nobody need ask the kernel for them.
constexpr int kFirstIndex = 1'000'000;
constexpr int kInnerIndex = 1000;
constexpr int kLoopback = 1;

template <typename Address>
constexpr unsigned char Family() {
  return sizeof(Address) == sizeof(V4) ? AF_INET : AF_INET6;
}

ifinfomsg Link(int index, unsigned up = 0) {
  ifinfomsg link = {};
  link.ifi_index = index;
  link.ifi_flags = up;
  link.ifi_change = up;
  return link;
}

void PutEnd(Requests& requests, const std::string& name, const Mac& mac) {
  requests.PutText(IFLA_IFNAME, name)
      .Put(IFLA_ADDRESS, mac)
      .Put(IFLA_NUM_TX_QUEUES, std::uint32_t{1})
      .Put(IFLA_NUM_RX_QUEUES, std::uint32_t{1});
}

void AddPair(Requests& requests, const Ends& ends, int target) {
  requests.Add(RTM_NEWLINK, kMake, Link(ends.index));
  PutEnd(requests, ends.name, kHostMac);
  requests.Begin(IFLA_LINKINFO)
      .PutText(IFLA_INFO_KIND, "veth")
      .Begin(IFLA_INFO_DATA)
      .Begin(VETH_INFO_PEER)
      .Raw(Link(kInnerIndex));
  PutEnd(requests, "eth0", ends.mac);
  requests.Put(IFLA_NET_NS_FD, target).End().End().End();
}

void AddUp(Requests& requests, int index, bool route_localnet) {
  requests.Add(RTM_NEWLINK, 0, Link(index))
      .Begin(IFLA_AF_SPEC)
      .Begin(AF_INET6)
      .Put(IFLA_INET6_ADDR_GEN_MODE, std::uint8_t{IN6_ADDR_GEN_MODE_NONE})
      .End();
  if (route_localnet) {
    requests.Begin(AF_INET)
        .Begin(IFLA_INET_CONF)
        .Put(IPV4_DEVCONF_ROUTE_LOCALNET, std::uint32_t{1})
        .End()
        .End();
  }
  requests.End();
  requests.Add(RTM_NEWLINK, 0, Link(index, IFF_UP));
}

template <typename Address>
void AddAddress(Requests& requests, int index, const Address& address,
                int flags) {
  ifaddrmsg header = {};
  header.ifa_family = Family<Address>();
  header.ifa_prefixlen = sizeof(Address) * 8;
  header.ifa_index = static_cast<std::uint32_t>(index);
  requests.Add(RTM_NEWADDR, flags, header)
      .Put(IFA_LOCAL, address)
      .Put(IFA_ADDRESS, address);
  if (Family<Address>() == AF_INET6) {
    // IFA_F_NODAD, because else the address is tentative until the kernel has
    // looked for duplicates.
    requests.Put(IFA_FLAGS, std::uint32_t{IFA_F_NODAD});
  }
}

template <typename Address>
void AddNeighbour(Requests& requests, int index, const Address& address,
                  const Mac& mac) {
  ndmsg header = {};
  header.ndm_family = Family<Address>();
  header.ndm_ifindex = index;
  header.ndm_state = NUD_PERMANENT;
  requests.Add(RTM_NEWNEIGH, kMake, header)
      .Put(NDA_DST, address)
      .Put(NDA_LLADDR, mac);
}

template <typename Address>
rtmsg Route(std::size_t prefix) {
  rtmsg header = {};
  header.rtm_family = Family<Address>();
  header.rtm_dst_len = static_cast<unsigned char>(prefix);
  header.rtm_table = RT_TABLE_MAIN;
  header.rtm_protocol = RTPROT_STATIC;
  header.rtm_type = RTN_UNICAST;
  return header;
}

template <typename Address>
void AddHostRoute(Requests& requests, int index, const Address& address,
                  const Address& source, int flags) {
  rtmsg header = Route<Address>(sizeof(Address) * 8);
  header.rtm_scope = RT_SCOPE_LINK;
  requests.Add(RTM_NEWROUTE, kMake | flags, header)
      .Put(RTA_DST, address)
      .Put(RTA_OIF, index)
      .Put(RTA_PREFSRC, source);
}

template <typename Address>
void AddDefaultRoute(Requests& requests, int index, const Address& gateway,
                     int flags) {
  rtmsg header = Route<Address>(0);
  // onlink, because the gateway is in no subnet of the interface (ip-route(8)).
  header.rtm_flags = RTNH_F_ONLINK;
  requests.Add(RTM_NEWROUTE, kMake | flags, header)
      .Put(RTA_GATEWAY, gateway)
      .Put(RTA_OIF, index);
}

}  // namespace

Ends::Ends(int number)
    : index(kFirstIndex + number),
      name("fl" + std::to_string(number)),
      ipv4(kHost4),
      ipv6(kHost6),
      mac{0x02, 0x4d, kHost4[0], kHost4[1], 0, 0} {
  const auto low = static_cast<std::uint16_t>(number + 2);
  ipv4[2] = ipv6[14] = mac[4] = static_cast<std::uint8_t>(low >> 8U);
  ipv4[3] = ipv6[15] = mac[5] = static_cast<std::uint8_t>(low & 0xFFU);
}

Requests HostAddresses() {
  Requests requests;
  AddAddress(requests, kLoopback, kHost4, NLM_F_CREATE);
  AddAddress(requests, kLoopback, kHost6, NLM_F_CREATE | NLM_F_ACK);
  return requests;
}

Requests HostEnd(const Ends& ends, int netns) {
  Requests requests;
  AddPair(requests, ends, netns);
  AddUp(requests, ends.index, true);
  AddNeighbour(requests, ends.index, ends.ipv4, ends.mac);
  AddNeighbour(requests, ends.index, ends.ipv6, ends.mac);
  AddHostRoute(requests, ends.index, ends.ipv4, kHost4, 0);
  AddHostRoute(requests, ends.index, ends.ipv6, kHost6, NLM_F_ACK);
  return requests;
}

Requests HostEndReady(const Ends& ends) {
  Requests requests;
  requests.Add(RTM_GETLINK, NLM_F_ACK, Link(ends.index));
  return requests;
}

Requests AllocationEnd(const Ends& ends) {
  Requests requests;
  AddUp(requests, kInnerIndex, false);
  AddAddress(requests, kInnerIndex, ends.ipv4, kMake);
  AddAddress(requests, kInnerIndex, ends.ipv6, kMake);
  AddNeighbour(requests, kInnerIndex, kGateway4, kHostMac);
  AddNeighbour(requests, kInnerIndex, kGateway6, kHostMac);
  AddDefaultRoute(requests, kInnerIndex, kGateway4, 0);
  AddDefaultRoute(requests, kInnerIndex, kGateway6, NLM_F_ACK);
  return requests;
}

}  // namespace mountd::bench
