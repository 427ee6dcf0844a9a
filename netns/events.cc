// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/events.h"

#include <linux/if_link.h>
#include <linux/neighbour.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <optional>
#include <string_view>

#include "netns/ruleset_names.h"

namespace mountd::netns {
namespace {

constexpr std::string_view kHostLinkPrefix = "md";
constexpr std::string_view kExecutor = "mountd-exec";  // its comm

// What follows the fixed header of a message.
class Attributes {
 public:
  Attributes(const void* payload, int size, std::size_t header) {
    const auto start = static_cast<int>(NLMSG_ALIGN(header));
    if (size > start) {
      // libnl's functions only read; their signatures are older than const.
      first_ = reinterpret_cast<nlattr*>(const_cast<std::byte*>(
          static_cast<const std::byte*>(payload) + start));
      left_ = size - start;
    }
  }

  std::string Text(int type) const {
    const nlattr* found = Find(type);
    if (found == nullptr) {
      return "";
    }
    const auto* text = static_cast<const char*>(nla_data(found));
    return std::string(
        text, ::strnlen(text, static_cast<std::size_t>(nla_len(found))));
  }

  template <typename T>
  std::optional<T> Value(int type) const {
    const nlattr* found = Find(type);
    T value{};
    if (found == nullptr ||
        static_cast<std::size_t>(nla_len(found)) != sizeof(T)) {
      return std::nullopt;
    }
    std::memcpy(&value, nla_data(found), sizeof(T));
    return value;
  }

 private:
  const nlattr* Find(int type) const {
    return first_ == nullptr ? nullptr : nla_find(first_, left_, type);
  }

  nlattr* first_ = nullptr;
  int left_ = 0;
};

// Calls `each(type, flags, payload, size)` for every message that is queued;
// false if some were lost.
template <typename Each>
Result<bool> Drain(int socket, Each each) {
  alignas(nlmsghdr) static thread_local std::array<std::byte, 65536> buffer;
  bool complete = true;
  for (;;) {
    const ssize_t size =
        ::recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (size < 0 && errno == ENOBUFS) {
      complete = false;
      continue;
    }
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size < 0 && errno == EAGAIN) {
      return complete;
    }
    if (size <= 0) {
      return ErrnoError(size < 0 ? errno : EPIPE, "recv", "netlink");
    }
    auto left = static_cast<int>(size);
    auto* header = reinterpret_cast<nlmsghdr*>(buffer.data());
    for (; nlmsg_ok(header, left) != 0; header = nlmsg_next(header, &left)) {
      each(header->nlmsg_type, header->nlmsg_flags, nlmsg_data(header),
           nlmsg_datalen(header));
    }
  }
}

// What is said last of a link counts: while it is made it is down at first.
void TakeLinkChange(int type, const void* payload, int size,
                    LinkEvents* events) {
  ifinfomsg header{};
  if (size < static_cast<int>(sizeof(header))) {
    return;
  }
  std::memcpy(&header, payload, sizeof(header));
  const std::string name =
      Attributes(payload, size, sizeof(header)).Text(IFLA_IFNAME);
  if (name.compare(0, kHostLinkPrefix.size(), kHostLinkPrefix) != 0) {
    return;
  }
  if (type == RTM_DELLINK || (header.ifi_flags & IFF_UP) == 0) {
    events->links.insert(name);
  } else {
    events->links.erase(name);
  }
}

template <typename Header>
void TakeAddressed(const void* payload, int size, int attribute,
                   unsigned char family, LinkEvents* events) {
  const Attributes attributes(payload, size, sizeof(Header));
  if (family == AF_INET) {
    if (const auto address = attributes.Value<Ipv4>(attribute)) {
      events->ipv4.insert(*address);
    }
  } else if (const auto address = attributes.Value<Ipv6>(attribute)) {
    events->ipv6.insert(*address);
  }
}

// A permanent one with a MAC of ours is as it was made, or a repair's.
bool IsOurNeighbour(const ndmsg& header, const Attributes& attributes) {
  const auto mac = attributes.Value<Mac>(NDA_LLADDR);
  if ((header.ndm_state & NUD_PERMANENT) == 0 || !mac) {
    return false;
  }
  if (header.ndm_family == AF_INET) {
    const auto address = attributes.Value<Ipv4>(NDA_DST);
    return address && *mac == LinkMac(*address);
  }
  // Derived from the IPv4 address, which is not told here.
  const Mac ours = LinkMac(Ipv4{});
  return std::equal(ours.begin(), ours.begin() + 2, mac->begin());
}

void TakeNeighbour(int type, const void* payload, int size,
                   LinkEvents* events) {
  ndmsg header{};
  if (size < static_cast<int>(sizeof(header))) {
    return;
  }
  std::memcpy(&header, payload, sizeof(header));
  if (type == RTM_DELNEIGH ||
      !IsOurNeighbour(header, Attributes(payload, size, sizeof(header)))) {
    TakeAddressed<ndmsg>(payload, size, NDA_DST, header.ndm_family, events);
  }
}

void TakeLinkEvent(int type, int flags, const void* payload, int size,
                   LinkEvents* events) {
  switch (type) {
    case RTM_NEWLINK:
    case RTM_DELLINK:
      TakeLinkChange(type, payload, size, events);
      return;
    case RTM_NEWROUTE:
    case RTM_DELROUTE: {
      rtmsg header{};
      // A new one is a network's that is made, unless it takes another's place.
      if ((type == RTM_DELROUTE || (flags & NLM_F_REPLACE) != 0) &&
          size >= static_cast<int>(sizeof(header))) {
        std::memcpy(&header, payload, sizeof(header));
        TakeAddressed<rtmsg>(payload, size, RTA_DST, header.rtm_family, events);
      }
      return;
    }
    case RTM_NEWNEIGH:
    case RTM_DELNEIGH:
      TakeNeighbour(type, payload, size, events);
      return;
    case RTM_DELADDR: {
      ifaddrmsg header{};
      if (size >= static_cast<int>(sizeof(header))) {
        std::memcpy(&header, payload, sizeof(header));
        TakeAddressed<ifaddrmsg>(payload, size, IFA_ADDRESS, header.ifa_family,
                                 events);
      }
      return;
    }
    default:
      return;
  }
}

// A rule of theirs, or a set or chain that the kernel has for one rule alone:
// such a one of ours goes with its rule, which is told.
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
  MOUNTD_ASSIGN(
      const bool complete,
      Drain(socket, [&](int type, int flags, const void* payload, int size) {
        TakeLinkEvent(type, flags, payload, size, &events);
      }));
  events.overflowed = !complete;
  return events;
}

void RulesetEventReader::Take(int type, const void* payload, int size,
                              RulesetEvents* events) {
  const int message = type & 0xff;
  const Attributes attributes(payload, size, sizeof(nfgenmsg));
  if (message == NFT_MSG_NEWGEN) {
    const bool others = attributes.Text(NFTA_GEN_PROC_NAME) != kExecutor;
    events->changed = events->changed || (touched_ && others);
    events->forward = events->forward || (touched_forward_ && others);
    touched_ = touched_forward_ = false;
    return;
  }
  // Of all kinds of objects the first attribute is the table.
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
                Drain(socket, [&](int type, int /*flags*/, const void* payload,
                                  int size) {
                  if ((type >> 8) == NFNL_SUBSYS_NFTABLES) {
                    Take(type, payload, size, &events);
                  }
                }));
  events.overflowed = !complete;
  return events;
}

}  // namespace mountd::netns
