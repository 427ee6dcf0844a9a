// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/update_ports.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/plan/protocols.h"
#include "netns/plans/access.h"
#include "netns/plans/elements.h"
#include "netns/plans/free_ports.h"
#include "netns/plans/home.h"

namespace mountd::netns {
namespace {

using exec::NetworkPlan;
using exec::PortMap;

Error NotAsMade(const NetworkPlan& plan, const char* why) {
  return MakeError(Code::kFailedPrecondition, "update ports", NameOf(plan),
                   why);
}

// Checks that the link and its addresses are this network's.
Result<void> CheckIsOwn(const Context& context, Access* access,
                        const NetworkPlan& plan) {
  MOUNTD_ASSIGN(const Home home,
                PinnedHome(context.kernel, plan, access->place));
  MOUNTD_ASSIGN(const LinkFacts link,
                FindLink(access->route, LinkNameOf(plan)));
  const bool is_named = link.index != 0 && link.alias == NameOf(plan);
  MOUNTD_ASSIGN(const bool leads, is_named
                                      ? LeadsTo(access->route, link, home.fd)
                                      : Result<bool>(false));
  if (!leads) {
    return NotAsMade(plan, "its link is gone or another's; mountd repairs it");
  }
  MOUNTD_ASSIGN(
      const std::vector<bool> found,
      FindElements(access->netfilter, LinkElementsOf(plan), NameOf(plan)));
  return std::find(found.begin(), found.end(), false) == found.end()
             ? Ok()
             : Result<void>(
                   NotAsMade(plan,
                             "its addresses are not this link's in the table "
                             "inet mountd; mountd repairs it"));
}

// Returns the port maps among the elements of the plan.
std::vector<Element> MapsOf(const NetworkPlan& plan) {
  std::vector<Element> elements = ElementsOf(plan);
  std::erase_if(elements,
                [](const Element& one) { return one.host_port == 0; });
  return elements;
}

// Returns those of `elements` that the table has, or has not.
Result<std::vector<Element>> Those(Channel* nft, std::vector<Element> elements,
                                   bool there, const std::string& object) {
  MOUNTD_ASSIGN(const std::vector<bool> found,
                FindElements(nft, elements, object));
  std::vector<Element> some;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    if (found[i] == there) {
      some.push_back(elements[i]);
    }
  }
  return some;
}

// Returns the plan with only the protocols of ports that are not all mapped, so
// that a socket which was bound later does not count against a port that the
// network has already.
Result<NetworkPlan> OnlyNew(Channel* nft, const NetworkPlan& plan) {
  NetworkPlan fresh = plan;
  const std::size_t count =
      std::min<std::size_t>(plan.port_count, plan.ports.size());
  for (std::size_t i = 0; i < count; ++i) {
    for (const auto& [bit, number] : exec::kProtocolNumbers) {
      NetworkPlan alone = plan;
      alone.port_count = 1;
      alone.ports[0] = plan.ports.at(i);
      alone.ports[0].protocols = bit;
      if ((plan.ports.at(i).protocols & bit) == 0) {
        continue;
      }
      MOUNTD_ASSIGN(const std::vector<Element> missing,
                    Those(nft, MapsOf(alone), false, NameOf(plan)));
      if (missing.empty()) {
        PortMap& port = fresh.ports.at(i);
        port.protocols = static_cast<std::uint8_t>(port.protocols & ~bit);
        port.if_free = static_cast<std::uint8_t>(port.if_free & ~bit);
      }
    }
  }
  return fresh;
}

// Forgets the connections that a port map led. Without this, packets of a UDP
// client would reach the allocation for as long as the client sends.
Message Forgetting(const Element& element) {
  // CTA_FILTER_FLAG(CTA_PROTO_NUM), (CTA_PROTO_DST_PORT), (CTA_IP_SRC) of
  // the kernel's net/netfilter/nf_internals.h.
  constexpr std::uint32_t kOriginal = 1U << 3U | 1U << 5U;
  constexpr std::uint32_t kReply = 1U;
  const bool ipv4 = std::string_view(element.set).starts_with("pm4");
  const std::size_t size = ipv4 ? sizeof(Ipv4) : sizeof(Ipv6);
  const auto key = element.key.bytes();
  const auto data = std::as_bytes(element.data.bytes());
  // The protocol comes before the port, each in four bytes.
  const std::uint8_t protocol = key[key.size() - 8];
  const std::array<std::uint8_t, 2> port = {key[key.size() - 4],
                                            key[key.size() - 3]};
  nfgenmsg header = {};
  header.nfgen_family = ipv4 ? AF_INET : AF_INET6;
  Message message((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE, 0,
                  header);
  message.Begin(CTA_TUPLE_ORIG)
      .Begin(CTA_TUPLE_PROTO)
      .Put(CTA_PROTO_NUM, protocol)
      .Put(CTA_PROTO_DST_PORT, port)
      .End()
      .End()
      .Begin(CTA_TUPLE_REPLY)
      .Begin(CTA_TUPLE_IP)
      .PutBytes(ipv4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, data.first(size))
      .End()
      .End()
      .Begin(CTA_FILTER)
      .Put(CTA_FILTER_ORIG_FLAGS, kOriginal)
      .Put(CTA_FILTER_REPLY_FLAGS, kReply)
      .End();
  return message;
}

void ForgetConnections(Channel* nft, const std::vector<Element>& gone) {
  for (const Element& element : gone) {
    const auto key = element.key.bytes();
    // The kernel's filter compares no ports of SCTP.
    if (key.size() < 8 || key[key.size() - 8] == IPPROTO_SCTP) {
      continue;
    }
    std::vector<Message> messages;
    messages.push_back(Forgetting(element));
    IgnoreBecauseBestEffort(nft->Exchange(messages, 0));
  }
}

struct Change {
  std::vector<Element> gone;
  std::vector<Element> added;
};

// Returns the change from the maps that the network has, `own`, to those of the
// plan.
Result<Change> ChangeFor(Channel* nft, const std::vector<Element>& own,
                         const NetworkPlan& wanted) {
  const std::vector<Element> all = MapsOf(wanted);
  Change change;
  std::copy_if(
      own.begin(), own.end(), std::back_inserter(change.gone),
      [&](const Element& element) {
        return std::none_of(all.begin(), all.end(), [&](const Element& one) {
          return HaveSameKey(one, element) &&
                 std::ranges::equal(one.data.bytes(), element.data.bytes());
        });
      });
  MOUNTD_ASSIGN(change.added, Those(nft, all, false, NameOf(wanted)));
  return change;
}

}  // namespace

Result<void> UpdatePorts(const Context& context, const exec::PortsPlan& plan,
                         const exec::Tell<exec::NetworkState>& tell) {
  NetworkPlan wanted = plan.network;
  const std::string name = NameOf(wanted);
  MOUNTD_TRY(exec::Locked(context.kernel, context.markers, name));
  MOUNTD_ASSIGN(Access access, OpenAccess(context, name));
  MOUNTD_TRY(CheckIsOwn(context, &access, wanted));
  exec::NetworkState state{wanted.netns_inode, 0, 1, 0};
  NetworkPlan before = wanted;
  before.port_count = plan.old_count;
  before.ports = plan.old_ports;
  MOUNTD_ASSIGN(const std::vector<Element> own,
                Those(access.netfilter, MapsOf(before), true, name));
  MOUNTD_ASSIGN(NetworkPlan fresh, OnlyNew(access.netfilter, wanted));
  MOUNTD_TRY(KeepFreePorts(context, access.netfilter, KeptSockets{}, own,
                           &fresh, &state.unmapped));
  for (std::size_t i = 0; i < state.unmapped.size(); ++i) {
    PortMap& port = wanted.ports.at(i);
    port.protocols =
        static_cast<std::uint8_t>(port.protocols & ~state.unmapped.at(i));
  }
  MOUNTD_ASSIGN(const Change change, ChangeFor(access.netfilter, own, wanted));
  exec::Undo undo;
  if (!change.gone.empty() || !change.added.empty()) {
    MOUNTD_TRY(
        ChangeElements(access.netfilter, change.gone, change.added, name));
    undo.Add([&] {
      IgnoreBecauseBestEffort(
          ChangeElements(access.netfilter, change.added, change.gone, name));
    });
  }
  // Tell before the commit. If mountd no longer takes the answer, it compares
  // what is there with its record, and the old ports are there.
  MOUNTD_TRY(tell(state));
  undo.Commit();
  ForgetConnections(access.netfilter, change.gone);
  return Ok();
}

}  // namespace mountd::netns
