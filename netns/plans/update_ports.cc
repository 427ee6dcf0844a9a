// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/update_ports.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "mountd/plan/protocols.h"
#include "netns/events/attributes.h"
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

// Returns a port map's key with the name of its map, in which IPv4 and IPv6
// differ.
std::string KeyOf(const char* map, const ElementBytes& key) {
  std::string text = map;
  for (const std::uint8_t byte : key.bytes()) {
    text += static_cast<char>(byte);
  }
  return text;
}

std::set<std::string> KeysOf(const std::vector<Element>& elements) {
  std::set<std::string> keys;
  for (const Element& element : elements) {
    keys.insert(KeyOf(element.set, element.key));
  }
  return keys;
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
// that a socket which was bound later, or which keeps the port for the
// allocation, does not count against a port that the network has already. The
// maps `own` may lead to other ports of the container.
Result<NetworkPlan> OnlyNew(Channel* nft, const std::vector<Element>& own,
                            const NetworkPlan& plan) {
  const std::set<std::string> own_keys = KeysOf(own);
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
      MOUNTD_ASSIGN(std::vector<Element> missing,
                    Those(nft, MapsOf(alone), false, NameOf(plan)));
      std::erase_if(missing, [&](const Element& element) {
        return own_keys.contains(KeyOf(element.set, element.key));
      });
      if (missing.empty()) {
        PortMap& port = fresh.ports.at(i);
        port.protocols = static_cast<std::uint8_t>(port.protocols & ~bit);
        port.if_free = static_cast<std::uint8_t>(port.if_free & ~bit);
      }
    }
  }
  return fresh;
}

// Asks for the connections that the container answers.
template <typename Address>
Message ListConnections(const Address& container) {
  constexpr bool kIsV4 = sizeof(Address) == sizeof(Ipv4);
  constexpr std::uint32_t kMatchSource = 1;  // CTA_FILTER_FLAG(CTA_IP_SRC)
  nfgenmsg header = {};
  header.nfgen_family = kIsV4 ? AF_INET : AF_INET6;
  Message message((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET, NLM_F_DUMP,
                  header);
  message.Begin(CTA_TUPLE_REPLY)
      .Begin(CTA_TUPLE_IP)
      .Put(kIsV4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, container)
      .End()
      .End()
      .Begin(CTA_FILTER)
      .Put(CTA_FILTER_REPLY_FLAGS, kMatchSource)
      .End();
  return message;
}

// Returns whether one of the port maps `gone` led the connection to the
// container.
template <typename Address>
bool IsLedBy(const std::set<std::string>& gone, const Attributes& connection,
             const Address& container) {
  constexpr bool kIsV4 = sizeof(Address) == sizeof(Ipv4);
  const Attributes asked = connection.Nested(CTA_TUPLE_ORIG);
  const Attributes ports = asked.Nested(CTA_TUPLE_PROTO);
  const auto protocol = ports.Value<std::uint8_t>(CTA_PROTO_NUM);
  const auto port =
      ports.Value<std::array<std::uint8_t, 2>>(CTA_PROTO_DST_PORT);
  const auto host = asked.Nested(CTA_TUPLE_IP)
                        .Value<Address>(kIsV4 ? CTA_IP_V4_DST : CTA_IP_V6_DST);
  // A connection to the container's own address needed no map. Kernels before
  // Linux 5.8 list the connections of others, too.
  if (!protocol || !port || !host || *host == container ||
      connection.Nested(CTA_TUPLE_REPLY)
              .Nested(CTA_TUPLE_IP)
              .Value<Address>(kIsV4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC) !=
          container) {
    return false;
  }
  ElementBytes of_any;
  of_any.Append({&*protocol, 1}).Append(*port);
  ElementBytes of_one;
  of_one.Append(*host).Append({&*protocol, 1}).Append(*port);
  return gone.contains(KeyOf(kIsV4 ? "pm4" : "pm6", of_any)) ||
         gone.contains(KeyOf(kIsV4 ? "pm4h" : "pm6h", of_one));
}

// Forgets the connections that `gone` led to the container. Lists them once and
// names each. A filter for each port would take longer, because the kernel goes
// through its whole table for each filter, and the plans for all other networks
// wait meanwhile.
template <typename Address>
void ForgetConnections(Channel* nft, const std::set<std::string>& gone,
                       const Address& container) {
  constexpr std::size_t kAtOnce = 256;
  std::vector<Message> list;
  list.push_back(ListConnections(container));
  const Result<std::vector<Answer>> answers = nft->Exchange(list, 0);
  std::vector<Message> messages;
  for (const Answer& answer : answers ? *answers : std::vector<Answer>()) {
    const auto connection = AttributesAfter<nfgenmsg>(answer.payload);
    const auto header = HeaderOf<nfgenmsg>(answer.payload);
    if (!header || !IsLedBy(gone, connection, container)) {
      continue;
    }
    messages.emplace_back((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE,
                          0, *header);
    messages.back().PutBytes(CTA_TUPLE_REPLY | NLA_F_NESTED,
                             connection.Bytes(CTA_TUPLE_REPLY));
    if (messages.size() == kAtOnce) {
      IgnoreBecauseBestEffort(nft->Exchange(messages, messages.size() - 1));
      messages.clear();
    }
  }
  if (!messages.empty()) {
    IgnoreBecauseBestEffort(nft->Exchange(messages, messages.size() - 1));
  }
}

// Forgets the connections that port maps led. Without this, packets of a UDP
// client would reach the allocation for as long as the client sends.
void ForgetConnections(Channel* nft, const std::vector<Element>& gone,
                       const NetworkPlan& plan) {
  const std::set<std::string> keys = KeysOf(gone);
  const auto has = [&](const char* map) {
    const auto found = keys.lower_bound(map);
    return found != keys.end() && found->starts_with(map);
  };
  if (has("pm4")) {
    ForgetConnections(nft, keys, plan.ipv4);
  }
  if (has("pm6")) {
    ForgetConnections(nft, keys, plan.ipv6);
  }
}

struct Change {
  std::vector<Element> gone;
  std::vector<Element> added;
  // Those of the old ports that are not to stay, whether they are there or an
  // update that was cut off has removed them already.
  std::vector<Element> forgotten;
};

// Returns the change to the maps of the plan from those that the network has,
// `own`, which are some of the `old` ones.
Result<Change> ChangeFor(Channel* nft, const std::vector<Element>& old,
                         const std::vector<Element>& own,
                         const NetworkPlan& wanted) {
  const std::vector<Element> all = MapsOf(wanted);
  const auto whole = [](const Element& element) {
    return KeyOf(element.set, element.key) + KeyOf("", element.data);
  };
  std::set<std::string> kept;
  std::transform(all.begin(), all.end(), std::inserter(kept, kept.end()),
                 whole);
  const auto goes = [&](const Element& element) {
    return !kept.contains(whole(element));
  };
  Change change;
  std::copy_if(own.begin(), own.end(), std::back_inserter(change.gone), goes);
  std::copy_if(old.begin(), old.end(), std::back_inserter(change.forgotten),
               goes);
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
  const std::vector<Element> old = MapsOf(before);
  MOUNTD_ASSIGN(const std::vector<Element> own,
                Those(access.netfilter, old, true, name));
  MOUNTD_ASSIGN(NetworkPlan fresh, OnlyNew(access.netfilter, own, wanted));
  MOUNTD_TRY(KeepFreePorts(context, access.netfilter, KeptSockets{}, own,
                           &fresh, &state.unmapped));
  for (std::size_t i = 0; i < state.unmapped.size(); ++i) {
    PortMap& port = wanted.ports.at(i);
    port.protocols =
        static_cast<std::uint8_t>(port.protocols & ~state.unmapped.at(i));
  }
  MOUNTD_ASSIGN(const Change change,
                ChangeFor(access.netfilter, old, own, wanted));
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
  ForgetConnections(access.netfilter, change.forgotten, wanted);
  return Ok();
}

}  // namespace mountd::netns
