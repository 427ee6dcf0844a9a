// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/plans/forget_connections.h"

#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "netns/address/address.h"
#include "netns/events/attributes.h"

namespace mountd::netns {
namespace {

constexpr std::size_t kConnectionsAtOnce = 256;

nfgenmsg HeaderOfFamily(bool is_v4) {
  nfgenmsg header = {};
  header.nfgen_family = is_v4 ? AF_INET : AF_INET6;
  return header;
}

// Selects the connections whose `tuple` has this source: CTA_TUPLE_ORIG for
// those that the container began, CTA_TUPLE_REPLY for those that it answers.
template <typename Address>
void SelectBySource(int tuple, const Address& container, Message* message) {
  constexpr bool kIsV4 = sizeof(Address) == sizeof(Ipv4);
  constexpr std::uint32_t kMatchSource = 1;  // CTA_FILTER_FLAG(CTA_IP_SRC)
  message->Begin(tuple)
      .Begin(CTA_TUPLE_IP)
      .Put(kIsV4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, container)
      .End()
      .End()
      .Begin(CTA_FILTER)
      .Put(tuple == CTA_TUPLE_ORIG ? CTA_FILTER_ORIG_FLAGS
                                   : CTA_FILTER_REPLY_FLAGS,
           kMatchSource)
      .End();
}

template <typename Address>
Message DeleteBySource(int tuple, const Address& container) {
  Message message((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE, 0,
                  HeaderOfFamily(sizeof(Address) == sizeof(Ipv4)));
  SelectBySource(tuple, container, &message);
  return message;
}

// Returns the request for a list of connections. Filters only IPv4 addresses,
// because Linux 6.1 filters IPv6 wrongly: it leaves out exactly the addresses
// that match. So the executor selects IPv6 connections by itself.
template <typename Address>
Message ListConnections(int tuple, const Address& container) {
  constexpr bool kIsV4 = sizeof(Address) == sizeof(Ipv4);
  Message message((NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET, NLM_F_DUMP,
                  HeaderOfFamily(kIsV4));
  if (kIsV4) {
    SelectBySource(tuple, container, &message);
  }
  return message;
}

// Returns whether the connection's tuple has this source. Kernels before Linux
// 5.8 list the connections of others, too.
template <typename Address>
bool HasSource(int tuple, const Attributes& connection,
               const Address& container) {
  constexpr bool kIsV4 = sizeof(Address) == sizeof(Ipv4);
  return connection.Nested(tuple)
             .Nested(CTA_TUPLE_IP)
             .Value<Address>(kIsV4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC) ==
         container;
}

// Returns whether one of the port maps `gone` led the connection to the
// container.
template <typename Address>
bool IsLedBy(const ElementKeys& gone, const Attributes& connection,
             const Address& container) {
  constexpr bool kIsV4 = sizeof(Address) == sizeof(Ipv4);
  const Attributes asked = connection.Nested(CTA_TUPLE_ORIG);
  const Attributes ports = asked.Nested(CTA_TUPLE_PROTO);
  const auto protocol = ports.Value<std::uint8_t>(CTA_PROTO_NUM);
  const auto port =
      ports.Value<std::array<std::uint8_t, 2>>(CTA_PROTO_DST_PORT);
  const auto host = asked.Nested(CTA_TUPLE_IP)
                        .Value<Address>(kIsV4 ? CTA_IP_V4_DST : CTA_IP_V6_DST);
  // A connection to the container's own address needed no map.
  if (!protocol || !port || !host || *host == container) {
    return false;
  }
  ElementBytes of_any;
  of_any.Append({&*protocol, 1}).Append(*port);
  ElementBytes of_one;
  of_one.Append(*host).Append({&*protocol, 1}).Append(*port);
  return gone.Has(kIsV4 ? "pm4" : "pm6", of_any) ||
         gone.Has(kIsV4 ? "pm4h" : "pm6h", of_one);
}

void Flush(Channel* nft, std::vector<Message>* deletions) {
  if (!deletions->empty()) {
    IgnoreBecauseBestEffort(nft->Exchange(*deletions, deletions->size() - 1));
    deletions->clear();
  }
}

// Lists the connections once, and asks the kernel to delete each that is
// wanted. A filter for each port would take longer, because the kernel goes
// through its whole table for each filter, and meanwhile the plans for all
// other networks wait. The list has a socket of its own, because the answers to
// the deletions must not mix with the list's.
template <typename Address, typename Wanted>
void ForgetIf(const Context& context, Channel* nft, int tuple,
              const Address& container, const Wanted& wanted) {
  std::optional<Channel>& list = context.kept.connections;
  if (!list) {
    Result<Channel> opened = Channel::Open(context.kernel, NETLINK_NETFILTER);
    if (!opened) {
      return;
    }
    list = std::move(*opened);
  }
  std::vector<Message> deletions;
  const Result<void> listed = list->Stream(
      ListConnections(tuple, container), "IPCTNL_MSG_CT_GET", "connections",
      [&](const Answer& answer) {
        const auto connection = AttributesAfter<nfgenmsg>(answer.payload);
        const auto header = HeaderOf<nfgenmsg>(answer.payload);
        if (!header || !HasSource(tuple, connection, container) ||
            !wanted(connection)) {
          return;
        }
        deletions.emplace_back(
            (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE, 0, *header);
        deletions.back().PutBytes(CTA_TUPLE_REPLY | NLA_F_NESTED,
                                  connection.Bytes(CTA_TUPLE_REPLY));
        if (deletions.size() == kConnectionsAtOnce) {
          Flush(nft, &deletions);
        }
      });
  Flush(nft, &deletions);
  if (!listed) {
    list.reset();
  }
}

template <typename Address>
void ForgetLed(const Context& context, Channel* nft, const ElementKeys& gone,
               const Address& container) {
  ForgetIf(context, nft, CTA_TUPLE_REPLY, container,
           [&](const Attributes& connection) {
             return IsLedBy(gone, connection, container);
           });
}

// Makes the kernel forget the connections of these addresses. Fails before
// Linux 6.8, which cannot select connections by address.
Result<void> FlushConnections(Channel* netfilter, const Ipv4& ipv4,
                              const Ipv6& ipv6) {
  std::vector<Message> messages;
  for (const int tuple : {CTA_TUPLE_ORIG, CTA_TUPLE_REPLY}) {
    if (!IsNone(ipv4)) {
      messages.push_back(DeleteBySource(tuple, ipv4));
    }
    if (!IsNone(ipv6)) {
      messages.push_back(DeleteBySource(tuple, ipv6));
    }
  }
  // EINVAL: the kernel wants the whole tuple.
  MOUNTD_TRY(netfilter->Ask(messages, "IPCTNL_MSG_CT_DELETE", "connections"));
  return Ok();
}

}  // namespace

void ForgetConnections(const Context& context, Access* access,
                       const std::vector<Element>& gone,
                       const exec::NetworkPlan& plan) {
  const auto has = [&](std::string_view family) {
    return std::any_of(gone.begin(), gone.end(), [&](const Element& element) {
      return std::string_view(element.set).starts_with(family);
    });
  };
  const ElementKeys keys(gone);
  if (has("pm4")) {
    ForgetLed(context, access->netfilter, keys, plan.ipv4);
  }
  if (has("pm6")) {
    ForgetLed(context, access->netfilter, keys, plan.ipv6);
  }
}

void ForgetConnectionsOf(const Context& context, Access* access,
                         const exec::NetworkPlan& plan) {
  if (FlushConnections(access->netfilter, plan.ipv4, plan.ipv6)) {
    return;
  }
  const auto all = [](const Attributes& /*connection*/) { return true; };
  for (const int tuple : {CTA_TUPLE_ORIG, CTA_TUPLE_REPLY}) {
    if (!IsNone(plan.ipv4)) {
      ForgetIf(context, access->netfilter, tuple, plan.ipv4, all);
    }
    if (!IsNone(plan.ipv6)) {
      ForgetIf(context, access->netfilter, tuple, plan.ipv6, all);
    }
  }
  // Close this socket here, because only UpdatePorts keeps it from plan to
  // plan.
  context.kept.connections.reset();
}

}  // namespace mountd::netns
