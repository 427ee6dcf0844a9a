// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/veth.h"

#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/net_namespace.h>
#include <linux/rtnetlink.h>
#include <linux/veth.h>
#include <net/if.h>
#include <netlink/msg.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>
#include <utility>

#include "netns/events/attributes.h"

namespace mountd::netns {
namespace {

// With NLM_F_EXCL the kernel never changes an object that exists (netlink(7)).
constexpr int kMake = NLM_F_CREATE | NLM_F_EXCL;
// LOOPBACK_IFINDEX of the kernel: lo is the first link of each namespace.
constexpr std::uint32_t kLoopback = 1;
constexpr std::uint8_t kOperUp = 6;  // IF_OPER_UP of linux/if.h, RFC 2863

ifinfomsg LinkHeader(std::uint32_t index, unsigned flags = 0) {
  ifinfomsg header = {};
  header.ifi_index = static_cast<int>(index);
  header.ifi_flags = flags;
  // Change these flags only.
  header.ifi_change = flags;
  return header;
}

Message LinkUp(std::uint32_t index, unsigned more_flags = 0) {
  return Message(RTM_NEWLINK, 0, LinkHeader(index, IFF_UP | more_flags));
}

Message LinkAddress(std::uint32_t index, const Mac& mac) {
  Message message(RTM_NEWLINK, 0, LinkHeader(index));
  message.Put(IFLA_ADDRESS, mac);
  return message;
}

// Sets the link's modes: no link-local address and, on the host end, packets
// from and to 127/8. The guard chain lets such packets pass only as answers of
// mapped ports.
Message AddressModes(std::uint32_t index, bool route_localnet,
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

void AddAllocationEnd(std::uint32_t index, const Veth& veth,
                      std::vector<Message>* messages) {
  messages->push_back(LinkUp(index));
  AddFamily(index, veth.ipv4, kGateway4, veth.routes4, messages);
  if (!IsNone(veth.ipv6)) {
    AddFamily(index, veth.ipv6, kGateway6, veth.routes6, messages);
  }
}

template <typename Address>
Address HostAddressFor(const std::vector<Range<Address>>& ranges,
                       const Address& address) {
  const Range<Address>* range = RangeOf(ranges, address);
  return range == nullptr ? Address{} : HostAddress(*range);
}

void PutEnd(Message* message, const std::string& name, const Mac& mac,
            std::uint32_t mtu) {
  message->PutText(IFLA_IFNAME, name)
      .Put(IFLA_ADDRESS, mac)
      .Put(IFLA_NUM_TX_QUEUES, std::uint32_t{1})
      .Put(IFLA_NUM_RX_QUEUES, std::uint32_t{1});
  if (mtu != 0) {
    message->Put(IFLA_MTU, mtu);
  }
}

// Reads the link's facts. Leaves `link` alone if the answer describes no link.
void ReadLink(const Answer& answer, LinkFacts* link) {
  const auto header = HeaderOf<ifinfomsg>(answer.payload);
  if (answer.type != RTM_NEWLINK || !header) {
    return;
  }
  const auto found = AttributesAfter<ifinfomsg>(answer.payload);
  link->index = static_cast<std::uint32_t>(header->ifi_index);
  link->up = (header->ifi_flags & IFF_UP) != 0;
  link->mac = found.Value<Mac>(IFLA_ADDRESS).value_or(link->mac);
  link->carries = found.Value<std::uint8_t>(IFLA_OPERSTATE) == kOperUp;
  link->peer_nsid =
      found.Value<std::int32_t>(IFLA_LINK_NETNSID).value_or(link->peer_nsid);
  link->peer_index =
      found.Value<std::uint32_t>(IFLA_LINK).value_or(link->peer_index);
  link->alias = found.Text(IFLA_IFALIAS);
}

// Asks for one link. An answer of ENODEV means that there is none.
Result<LinkFacts> AskForLink(Channel* channel, Message get,
                             const std::string& object) {
  std::vector<Message> messages;
  messages.push_back(std::move(get));
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                channel->Exchange(messages, 0));
  LinkFacts link;
  for (const Answer& answer : answers) {
    // ENODEV: no link has this name.
    if (answer.err == ENODEV) {
      return LinkFacts{};
    }
    if (answer.err != 0) {
      return ErrnoError(answer.err, "RTM_GETLINK", object);
    }
    ReadLink(answer, &link);
  }
  return link;
}

Error GoneAgain(const Veth& veth) {
  return MakeError(Code::kAborted, "find link", veth.object,
                   "the new link disappeared at once; call again");
}

}  // namespace

Veth VethFor(const exec::NetworkPlan& plan, const NetworkConfig& network) {
  Veth veth;
  veth.object = std::string(plan.allocation.view());
  veth.host_name = HostLinkName(plan.ipv4);
  veth.name = plan.interface.data();
  veth.ipv4 = plan.ipv4;
  veth.ipv6 = plan.ipv6;
  veth.mac = LinkMac(plan.ipv4);
  veth.host_ipv4 = HostAddressFor(network.ipv4, plan.ipv4);
  veth.host_ipv6 = HostAddressFor(network.ipv6, plan.ipv6);
  veth.mtu = network.mtu;
  if ((plan.flags & exec::kDefaultRoute) != 0) {
    veth.routes4 = {Ipv4Range{}};
    veth.routes6 = {Ipv6Range{}};
  } else {
    veth.routes4 = network.ipv4;
    veth.routes6 = network.ipv6;
  }
  return veth;
}

Result<void> AddHostAddresses(Channel* host, const NetworkConfig& network,
                              const std::string& object) {
  // REPLACE, so that an address that is there already is no error.
  constexpr int kKeep = NLM_F_CREATE | NLM_F_REPLACE;
  std::vector<Message> messages;
  for (const Ipv4Range& range : network.ipv4) {
    messages.push_back(NewAddress(kLoopback, HostAddress(range), kKeep));
  }
  for (const Ipv6Range& range : network.ipv6) {
    messages.push_back(NewAddress(kLoopback, HostAddress(range), kKeep));
  }
  if (!messages.empty()) {
    MOUNTD_TRY(host->Ask(messages, "RTM_NEWADDR", object));
  }
  return Ok();
}

Result<LinkFacts> FindLink(Channel* channel, const std::string& name) {
  Message get(RTM_GETLINK, 0, LinkHeader(0));
  get.PutText(IFLA_IFNAME, name);
  return AskForLink(channel, std::move(get), name);
}

Result<LinkFacts> FindLink(Channel* channel, std::uint32_t index) {
  return AskForLink(channel, Message(RTM_GETLINK, 0, LinkHeader(index)),
                    std::to_string(index));
}

Result<void> RenameLink(Channel* host, std::uint32_t index,
                        const std::string& name) {
  ifinfomsg down = LinkHeader(index);
  down.ifi_change = IFF_UP;
  std::vector<Message> messages;
  messages.emplace_back(RTM_NEWLINK, 0, down);
  messages.emplace_back(RTM_NEWLINK, 0, LinkHeader(index));
  messages.back().PutText(IFLA_IFNAME, name);
  MOUNTD_TRY(host->Ask(messages, "rename link", name));
  return Ok();
}

Result<bool> LeadsTo(Channel* host, const LinkFacts& link, int netns) {
  rtgenmsg header = {};
  header.rtgen_family = AF_UNSPEC;
  std::vector<Message> messages;
  messages.emplace_back(RTM_GETNSID, 0, header);
  messages.back().Put(NETNSA_FD, netns);
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                host->Ask(messages, "RTM_GETNSID", ""));
  for (const Answer& answer : answers) {
    if (answer.type == RTM_NEWNSID) {
      const auto nsid = AttributesAfter<rtgenmsg>(answer.payload)
                            .Value<std::int32_t>(NETNSA_NSID);
      return nsid && *nsid >= 0 && *nsid == link.peer_nsid;
    }
  }
  return false;
}

Result<VethIndexes> CreateVeth(Channel* host, const Veth& veth, int netns) {
  std::vector<Message> messages;
  // Since Linux 6.2 the kernel answers with the link that it made (NLM_F_ECHO).
  Message& pair =
      messages.emplace_back(RTM_NEWLINK, kMake | NLM_F_ECHO, LinkHeader(0));
  PutEnd(&pair, veth.host_name, kGatewayMac, veth.mtu);
  pair.Begin(IFLA_LINKINFO)
      .PutText(IFLA_INFO_KIND, "veth")
      .Begin(IFLA_INFO_DATA)
      .Begin(VETH_INFO_PEER);
  const ifinfomsg peer = LinkHeader(0);
  pair.PutRaw(std::as_bytes(std::span(&peer, 1)));
  PutEnd(&pair, veth.name, veth.mac, veth.mtu);
  pair.Put(IFLA_NET_NS_FD, netns).End().End().End();
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                host->Ask(messages, "RTM_NEWLINK", veth.object));
  LinkFacts link;
  for (const Answer& answer : answers) {
    ReadLink(answer, &link);
  }
  // An older kernel does not echo, so ask.
  if (link.index == 0) {
    MOUNTD_ASSIGN(link, FindLink(host, veth.host_name));
  }
  if (link.index == 0 || link.peer_index == 0) {
    return GoneAgain(veth);
  }
  return VethIndexes{link.index, link.peer_index};
}

Result<void> ConfigureHostEnd(Channel* host, const Veth& veth,
                              std::uint32_t index, bool again) {
  // Addresses and routes of an earlier call may be there.
  const int flags = again ? NLM_F_CREATE | NLM_F_REPLACE : kMake;
  std::vector<Message> messages;
  if (again) {
    messages.push_back(LinkAddress(index, kGatewayMac));
  }
  messages.push_back(AddressModes(index, true, veth.object));
  // NOARP, because each question from inside would leave an entry in the
  // neighbour table, of which the whole machine has only one.
  messages.push_back(LinkUp(index, IFF_NOARP));
  AddHostEnd(index, veth.ipv4, veth.host_ipv4, veth.mac, flags, &messages);
  if (!IsNone(veth.ipv6)) {
    AddHostEnd(index, veth.ipv6, veth.host_ipv6, veth.mac, flags, &messages);
  }
  MOUNTD_TRY(host->Ask(messages, "configure host link", veth.object));
  return Ok();
}

Result<void> AwaitCarrier(Channel* host, const Veth& veth,
                          std::uint32_t index) {
  // Since Linux 6.8 asking for the link does the deferred work; on older
  // kernels ask again until it is done.
  constexpr int kMostTries = 50;
  constexpr std::chrono::milliseconds kPause(1);
  for (int tries = 0; tries < kMostTries; ++tries) {
    MOUNTD_ASSIGN(const LinkFacts link, FindLink(host, index));
    if (link.index == 0) {
      return GoneAgain(veth);
    }
    if (link.carries) {
      return Ok();
    }
    std::this_thread::sleep_for(kPause);
  }
  return Ok();
}

Result<void> RaiseLoopback(Channel* inside, const std::string& object) {
  std::vector<Message> messages;
  messages.push_back(LinkUp(kLoopback));
  MOUNTD_TRY(inside->Ask(messages, "raise lo", object));
  return Ok();
}

Result<bool> IsLoopbackUp(Channel* inside) {
  MOUNTD_ASSIGN(const LinkFacts loopback, FindLink(inside, kLoopback));
  return loopback.up;
}

Result<void> LowerLoopback(Channel* inside, const std::string& object) {
  ifinfomsg down = LinkHeader(kLoopback);
  down.ifi_change = IFF_UP;
  std::vector<Message> messages;
  messages.emplace_back(RTM_NEWLINK, 0, down);
  MOUNTD_TRY(inside->Ask(messages, "lower lo", object));
  return Ok();
}

Result<void> ConfigureAllocationEnd(Channel* inside, const Veth& veth,
                                    std::uint32_t index) {
  std::vector<Message> messages;
  messages.push_back(AddressModes(index, false, veth.object));
  AddAllocationEnd(index, veth, &messages);
  MOUNTD_TRY(inside->Ask(messages, "configure link", veth.object));
  return Ok();
}

Result<bool> CompleteAllocationEnd(Channel* inside, const Veth& veth) {
  MOUNTD_ASSIGN(const LinkFacts link, FindLink(inside, veth.name));
  if (link.index == 0) {
    return GoneAgain(veth);
  }
  std::vector<Message> messages;
  if (link.mac != veth.mac) {
    // The host sends to this MAC. A change of MAC removes the neighbours, which
    // are added again below.
    messages.push_back(LinkAddress(link.index, veth.mac));
  }
  if (link.alias.empty()) {
    // An executor was killed after it made the link and before it configured
    // it.
    messages.push_back(AddressModes(link.index, false, veth.object));
  }
  const bool is_link_right = messages.empty() && link.up;
  std::size_t present = messages.size() + 1;  // requests that add nothing:
                                              // those above, LinkUp
  AddAllocationEnd(link.index, veth, &messages);
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                inside->Exchange(messages, messages.size() - 1));
  for (const Answer& answer : answers) {
    // EEXIST means that the request's address, neighbour or route is there.
    if (answer.err == EEXIST) {
      ++present;
    } else if (answer.err != 0) {
      return ErrnoError(answer.err, "configure link", veth.object);
    }
  }
  return !is_link_right || present < messages.size();
}

Result<void> DeleteLink(Channel* host, const std::string& name) {
  std::vector<Message> messages;
  messages.emplace_back(RTM_DELLINK, 0, LinkHeader(0));
  messages.back().PutText(IFLA_IFNAME, name);
  const Result<std::vector<Answer>> answers =
      host->Ask(messages, "RTM_DELLINK", name);
  // ENODEV: the link is gone already.
  return answers || answers.error().sys_errno == ENODEV
             ? Ok()
             : Result<void>(answers.error());
}

}  // namespace mountd::netns
