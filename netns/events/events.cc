// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/events/events.h"

#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string_view>

#include "netns/events/attributes.h"
#include "netns/events/host_link.h"
#include "netns/events/ruleset_names.h"

namespace mountd::netns {
namespace {

using Payload = std::span<const std::byte>;

constexpr std::string_view kHostLinkPrefix = "md";
constexpr std::string_view kExecutor = "mountd-exec";  // its comm

// Calls `each(type, flags, payload)` for every queued message. Returns false if
// messages were lost.
template <typename Each>
Result<bool> Drain(int socket, Each each) {
  alignas(nlmsghdr) static thread_local std::array<std::byte, 65536> buffer;
  bool complete = true;
  for (;;) {
    const ssize_t size =
        ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    // The kernel dropped messages because the socket's buffer was full.
    if (size < 0 && errno == ENOBUFS) {
      complete = false;
      continue;
    }
    if (size < 0 && errno == EINTR) {
      continue;
    }
    // EAGAIN: all messages are read (MSG_DONTWAIT).
    if (size < 0 && errno == EAGAIN) {
      return complete;
    }
    if (size <= 0) {
      return ErrnoError(size < 0 ? errno : EPIPE, "recv", "netlink");
    }
    auto left = static_cast<int>(size);
    auto* header = reinterpret_cast<nlmsghdr*>(buffer.data());
    for (; nlmsg_ok(header, left) != 0; header = nlmsg_next(header, &left)) {
      each(header->nlmsg_type, header->nlmsg_flags,
           std::span(static_cast<const std::byte*>(nlmsg_data(header)),
                     static_cast<std::size_t>(nlmsg_datalen(header))));
    }
  }
}

// Records a changed link. The last message on a link counts, because a new link
// is down at first. Records a renamed link by its alias, which is the
// allocation's name.
void TakeLinkChange(int type, Payload payload, LinkEvents* events) {
  const auto attributes = AttributesAfter<ifinfomsg>(payload);
  const std::string name = attributes.Text(IFLA_IFNAME);
  if (!name.starts_with(kHostLinkPrefix)) {
    if (const std::string alias = attributes.Text(IFLA_IFALIAS);
        !alias.empty()) {
      events->allocations.insert(alias);
    }
  } else if (type == RTM_DELLINK || !IsHostLinkRight(payload)) {
    events->links.insert(name);
  } else {
    events->links.erase(name);
  }
}

void TakeAddress(const Attributes& attributes, int type, unsigned char family,
                 LinkEvents* events) {
  if (family == AF_INET) {
    if (const auto address = attributes.Value<Ipv4>(type)) {
      events->ipv4.insert(*address);
    }
  } else if (const auto address = attributes.Value<Ipv6>(type)) {
    events->ipv6.insert(*address);
  }
}

// Returns whether the neighbour is as an executor makes it: permanent, and with
// one of mountd's MACs.
bool IsOurNeighbour(const ndmsg& header, const Attributes& attributes) {
  const auto mac = attributes.Value<Mac>(NDA_LLADDR);
  if ((header.ndm_state & NUD_PERMANENT) == 0 || !mac) {
    return false;
  }
  if (header.ndm_family == AF_INET) {
    const auto address = attributes.Value<Ipv4>(NDA_DST);
    return address && *mac == LinkMac(*address);
  }
  // Compare the prefix only: the rest comes from the IPv4 address, which an
  // IPv6 neighbour does not show.
  const Mac ours = LinkMac(Ipv4{});
  return std::equal(ours.begin(), ours.begin() + 2, mac->begin());
}

void TakeNeighbour(int type, Payload payload, LinkEvents* events) {
  const auto header = HeaderOf<ndmsg>(payload);
  const auto attributes = AttributesAfter<ndmsg>(payload);
  if (header &&
      (type == RTM_DELNEIGH || !IsOurNeighbour(*header, attributes))) {
    TakeAddress(attributes, NDA_DST, header->ndm_family, events);
  }
}

// Records a removed or replaced route. Skips a new one, because it belongs to a
// network that an executor is making.
void TakeRoute(int type, int flags, Payload payload, LinkEvents* events) {
  const auto header = HeaderOf<rtmsg>(payload);
  if (header && (type == RTM_DELROUTE || (flags & NLM_F_REPLACE) != 0)) {
    TakeAddress(AttributesAfter<rtmsg>(payload), RTA_DST, header->rtm_family,
                events);
  }
}

// Records an address that a link of the host has lost.
void TakeHostAddress(Payload payload, LinkEvents* events) {
  if (const auto header = HeaderOf<ifaddrmsg>(payload)) {
    TakeAddress(AttributesAfter<ifaddrmsg>(payload), IFA_ADDRESS,
                header->ifa_family, events);
  }
}

void TakeLinkEvent(int type, int flags, Payload payload, LinkEvents* events) {
  switch (type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return TakeLinkChange(type, payload, events);
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
      return TakeRoute(type, flags, payload, events);
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      return TakeNeighbour(type, payload, events);
    case RTM_DELADDR:
      return TakeHostAddress(payload, events);
    default:
      return;
  }
}

// Returns whether the object belongs to the operators, or is a set or chain
// "__..." that the kernel made for one rule. The kernel also reports the rule
// itself, so a change of mountd's rules is still seen.
bool IsOperators(int message, const Attributes& attributes) {
  constexpr std::string_view kOfARule = "__";
  switch (message) {
    case NFT_MSG_NEWRULE:
    case NFT_MSG_DELRULE: {
      const std::string chain = attributes.Text(NFTA_RULE_CHAIN);
      return chain == kAdminChain || chain.starts_with(kOfARule);
    }
    case NFT_MSG_NEWCHAIN:
    case NFT_MSG_DELCHAIN:
      return attributes.Text(NFTA_CHAIN_NAME).starts_with(kOfARule);
    case NFT_MSG_NEWSET:
    case NFT_MSG_DELSET:
      return attributes.Text(NFTA_SET_NAME).starts_with(kOfARule);
    case NFT_MSG_NEWSETELEM:
    case NFT_MSG_DELSETELEM:
      return attributes.Text(NFTA_SET_ELEM_LIST_SET).starts_with(kOfARule);
    default:
      return false;
  }
}

}  // namespace

Result<LinkEvents> ReadLinkEvents(int socket) {
  LinkEvents events;
  MOUNTD_ASSIGN(const bool complete,
                Drain(socket, [&](int type, int flags, Payload payload) {
                  TakeLinkEvent(type, flags, payload, &events);
                }));
  events.overflowed = !complete;
  return events;
}

void RulesetEventReader::Take(int type, std::span<const std::byte> payload,
                              RulesetEvents* events) {
  const int message = type & 0xff;
  const auto attributes = AttributesAfter<nfgenmsg>(payload);
  // NEWGEN ends a transaction and names the process that made it.
  if (message == NFT_MSG_NEWGEN) {
    const bool others = attributes.Text(NFTA_GEN_PROC_NAME) != kExecutor;
    events->changed = events->changed || (touched_ && others);
    events->forward = events->forward || (touched_forward_ && others);
    touched_ = touched_forward_ = false;
    return;
  }
  // The table is the first attribute of every kind of object.
  static_assert(static_cast<int>(NFTA_RULE_TABLE) == NFTA_TABLE_NAME &&
                static_cast<int>(NFTA_CHAIN_TABLE) == NFTA_TABLE_NAME &&
                static_cast<int>(NFTA_SET_TABLE) == NFTA_TABLE_NAME &&
                static_cast<int>(NFTA_SET_ELEM_LIST_TABLE) == NFTA_TABLE_NAME);
  const std::string table = attributes.Text(NFTA_TABLE_NAME);
  touched_forward_ = touched_forward_ || table == kFilterTable;
  if (table != kTable) {
    return;
  }
  touched_ = touched_ || !IsOperators(message, attributes);
}

Result<RulesetEvents> RulesetEventReader::Read(int socket) {
  RulesetEvents events;
  MOUNTD_ASSIGN(const bool complete,
                Drain(socket, [&](int type, int /*flags*/, Payload payload) {
                  if ((type >> 8) == NFNL_SUBSYS_NFTABLES) {
                    Take(type, payload, &events);
                  }
                }));
  events.overflowed = !complete;
  return events;
}

}  // namespace mountd::netns
