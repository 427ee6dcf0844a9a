// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/veth.h"

#include <linux/if_link.h>
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
#include "netns/plans/veth_messages.h"

namespace mountd::netns {
namespace {

// LOOPBACK_IFINDEX of the kernel: lo is the first link of each namespace.
constexpr std::uint32_t kLoopback = 1;
constexpr std::uint8_t kOperUp = 6;  // IF_OPER_UP of linux/if.h, RFC 2863

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
  veth.host_name = LinkNameOf(plan);
  veth.name = plan.interface.data();
  veth.ipv4 = plan.ipv4;
  veth.ipv6 = plan.ipv6;
  veth.mac = LinkMac(plan.ipv4, plan.ipv6);
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
  // Addresses and routes of an earlier call may exist already.
  const int flags = again ? NLM_F_CREATE | NLM_F_REPLACE : kMake;
  std::vector<Message> messages;
  if (again) {
    messages.push_back(LinkAddress(index, kGatewayMac));
  }
  messages.push_back(AddressModes(index, true, veth.object));
  // NOARP, because each question from inside would leave an entry in the
  // neighbour table, of which the whole machine has only one.
  messages.push_back(LinkUp(index, IFF_NOARP));
  if (!IsNone(veth.ipv4)) {
    AddHostEnd(index, veth.ipv4, veth.host_ipv4, veth.mac, flags, &messages);
  }
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
