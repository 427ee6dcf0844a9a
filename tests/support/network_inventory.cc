// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/network_inventory.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <string_view>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Attributes = std::map<int, std::string_view>;

template <typename T>
T NumberIn(const Attributes& attributes, int type, T otherwise = 0) {
  const auto found = attributes.find(type);
  if (found != attributes.end() && found->second.size() >= sizeof(T)) {
    std::memcpy(&otherwise, found->second.data(), sizeof(T));
  }
  return otherwise;
}

std::string AddressIn(const Attributes& attributes, int type, int family) {
  const auto found = attributes.find(type);
  std::array<char, INET6_ADDRSTRLEN> text{};
  return found != attributes.end() &&
                 ::inet_ntop(family, found->second.data(), text.data(),
                             text.size()) != nullptr
             ? text.data()
             : "default";
}

std::string LinkName(unsigned index) {
  std::array<char, IF_NAMESIZE> name{};
  return ::if_indextoname(index, name.data()) != nullptr ? name.data() : "none";
}

Attributes AttributesOf(std::string_view bytes) {
  Attributes attributes;
  std::size_t at = 0;
  while (at + sizeof(nlattr) <= bytes.size()) {
    nlattr attribute = {};
    std::memcpy(&attribute, bytes.data() + at, sizeof(attribute));
    if (attribute.nla_len < sizeof(attribute) ||
        at + attribute.nla_len > bytes.size()) {
      break;
    }
    attributes[attribute.nla_type & NLA_TYPE_MASK] = bytes.substr(
        at + sizeof(attribute), attribute.nla_len - sizeof(attribute));
    at += NLA_ALIGN(attribute.nla_len);
  }
  return attributes;
}

Attributes Nested(const Attributes& attributes, int type) {
  const auto found = attributes.find(type);
  return found == attributes.end() ? Attributes() : AttributesOf(found->second);
}

// Returns the `Header` of one netlink message, whose nlmsghdr is already
// removed, and the attributes after it.
template <typename Header>
Header HeaderOf(std::string_view message, Attributes* attributes) {
  Header header = {};
  std::memcpy(&header, message.data(),
              std::min(sizeof(header), message.size()));
  const std::size_t end = NLMSG_ALIGN(sizeof(header));
  if (end <= message.size()) {
    *attributes = AttributesOf(message.substr(end));
  }
  return header;
}

// Calls `take` with each answer of the kernel to a request of that type with
// `header`.
template <typename Header>
void Dump(int protocol, std::uint16_t type, const Header& header,
          const std::function<void(std::string_view)>& take) {
  struct {
    nlmsghdr netlink;
    Header header;
  } request = {};
  request.netlink.nlmsg_len = sizeof(request);
  request.netlink.nlmsg_type = type;
  request.netlink.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.header = header;
  const UniqueFd fd(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, protocol));
  if (::send(fd.get(), &request, sizeof(request), 0) < 0) {
    return;
  }
  std::vector<char> buffer(std::size_t{1} << 16U);
  for (;;) {
    const ssize_t size = ::recv(fd.get(), buffer.data(), buffer.size(), 0);
    if (size <= 0) {
      return;
    }
    std::string_view rest(buffer.data(), static_cast<std::size_t>(size));
    while (rest.size() >= sizeof(nlmsghdr)) {
      nlmsghdr message = {};
      std::memcpy(&message, rest.data(), sizeof(message));
      if (message.nlmsg_type == NLMSG_DONE ||
          message.nlmsg_type == NLMSG_ERROR ||
          message.nlmsg_len < sizeof(message) ||
          message.nlmsg_len > rest.size()) {
        return;
      }
      take(rest.substr(sizeof(message), message.nlmsg_len - sizeof(message)));
      rest.remove_prefix(
          std::min<std::size_t>(NLMSG_ALIGN(message.nlmsg_len), rest.size()));
    }
  }
}

void AddRoutes(std::set<std::string>* items) {
  Dump(NETLINK_ROUTE, RTM_GETROUTE, rtmsg{}, [items](std::string_view message) {
    Attributes all;
    const auto route = HeaderOf<rtmsg>(message, &all);
    // Routes of the kernel's cache, and those that it makes from addresses, are
    // left out. The kernel makes the latter for IPv6 a moment after the
    // address.
    if ((route.rtm_flags & RTM_F_CLONED) != 0 ||
        NumberIn<std::uint32_t>(all, RTA_TABLE) == RT_TABLE_LOCAL) {
      return;
    }
    items->insert("route " + AddressIn(all, RTA_DST, route.rtm_family) + "/" +
                  std::to_string(route.rtm_dst_len) + " via " +
                  AddressIn(all, RTA_GATEWAY, route.rtm_family) + " dev " +
                  LinkName(NumberIn<std::uint32_t>(all, RTA_OIF)) + " table " +
                  std::to_string(NumberIn<std::uint32_t>(all, RTA_TABLE)) +
                  " type " + std::to_string(route.rtm_type));
  });
}

// Adds addresses of every family, without their times and flags.
void AddAddresses(std::set<std::string>* items) {
  Dump(NETLINK_ROUTE, RTM_GETADDR, ifaddrmsg{},
       [items](std::string_view message) {
         Attributes all;
         const auto address = HeaderOf<ifaddrmsg>(message, &all);
         items->insert("address " +
                       AddressIn(all, IFA_ADDRESS, address.ifa_family) + "/" +
                       std::to_string(address.ifa_prefixlen) + " dev " +
                       LinkName(address.ifa_index));
       });
}

void AddRules(std::set<std::string>* items) {
  Dump(NETLINK_ROUTE, RTM_GETRULE, fib_rule_hdr{},
       [items](std::string_view message) {
         Attributes all;
         const auto rule = HeaderOf<fib_rule_hdr>(message, &all);
         items->insert(
             "rule " +
             std::to_string(NumberIn<std::uint32_t>(all, FRA_PRIORITY)) +
             " of family " + std::to_string(rule.family) + " from " +
             AddressIn(all, FRA_SRC, rule.family) + " table " +
             std::to_string(NumberIn<std::uint32_t>(all, FRA_TABLE)) +
             " action " + std::to_string(rule.action));
       });
}

void AddNeighbours(std::uint8_t flags, std::set<std::string>* items) {
  ndmsg request = {};
  request.ndm_flags = flags;
  Dump(NETLINK_ROUTE, RTM_GETNEIGH, request, [items](std::string_view message) {
    Attributes all;
    const auto neighbour = HeaderOf<ndmsg>(message, &all);
    const bool proxy = (neighbour.ndm_flags & NTF_PROXY) != 0;
    if (!proxy && (neighbour.ndm_state & NUD_NOARP) != 0) {
      return;  // traffic made it, on a link without neighbours
    }
    items->insert("neighbour " + AddressIn(all, NDA_DST, neighbour.ndm_family) +
                  " dev " +
                  LinkName(static_cast<unsigned>(neighbour.ndm_ifindex)) +
                  (proxy ? " proxy" : ""));
  });
}

// Returns one direction of a connection as text.
std::string TextOf(const Attributes& tuple, int family) {
  const bool is_v4 = family == AF_INET;
  const Attributes ip = Nested(tuple, CTA_TUPLE_IP);
  const Attributes protocol = Nested(tuple, CTA_TUPLE_PROTO);
  const auto port = [&](int type) {
    return std::to_string(ntohs(NumberIn<std::uint16_t>(protocol, type)));
  };
  return AddressIn(ip, is_v4 ? CTA_IP_V4_SRC : CTA_IP_V6_SRC, family) + ":" +
         port(CTA_PROTO_SRC_PORT) + " to " +
         AddressIn(ip, is_v4 ? CTA_IP_V4_DST : CTA_IP_V6_DST, family) + ":" +
         port(CTA_PROTO_DST_PORT);
}

// Adds the connections that the kernel tracks, in any state, without the IGMP
// and ICMPv6 that the kernel itself sends on each link.
void AddConnections(std::set<std::string>* items) {
  constexpr auto kGet = static_cast<std::uint16_t>(
      (NFNL_SUBSYS_CTNETLINK << 8U) | IPCTNL_MSG_CT_GET);
  Dump(NETLINK_NETFILTER, kGet, nfgenmsg{}, [items](std::string_view message) {
    Attributes all;
    const auto connection = HeaderOf<nfgenmsg>(message, &all);
    const Attributes original = Nested(all, CTA_TUPLE_ORIG);
    const auto protocol = NumberIn<std::uint8_t>(
        Nested(original, CTA_TUPLE_PROTO), CTA_PROTO_NUM);
    if (protocol == IPPROTO_IGMP || protocol == IPPROTO_ICMPV6) {
      return;
    }
    const int family = connection.nfgen_family;
    items->insert("connection " + std::to_string(protocol) + " from " +
                  TextOf(original, family) + ", answered from " +
                  TextOf(Nested(all, CTA_TUPLE_REPLY), family));
  });
}

// Returns the paths of the settings that links begin with. They are the same in
// every network namespace.
std::vector<std::string> ListSettings() {
  std::vector<std::string> paths;
  std::error_code none;
  for (const std::string family : {"ipv4", "ipv6"}) {
    for (const std::string kind : {"conf", "neigh"}) {
      for (const std::string of : {"all", "default", "lo"}) {
        for (const auto& entry : fs::directory_iterator(
                 "/proc/sys/net/" + family + "/" + kind + "/" + of, none)) {
          paths.push_back(entry.path().string());
        }
      }
    }
  }
  return paths;
}

// Returns the first kilobyte of a file, without a stream, because an inventory
// reads some hundred of them.
std::string StartOf(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t size = ::read(fd.get(), text.data(), text.size());
  return {text.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
}

void AddSettings(std::set<std::string>* items) {
  static const std::vector<std::string> paths = ListSettings();
  for (const std::string& path : paths) {
    std::string value = StartOf(path);
    items->insert("setting " + path + " = " +
                  value.substr(0, value.find('\n')));
  }
}

// The kernel goes through the connections of all network namespaces to list
// those of one, which takes milliseconds.
bool HasConnections() {
  return StartOf("/proc/sys/net/netfilter/nf_conntrack_count") != "0\n";
}

}  // namespace

void AddNetworkInventory(std::set<std::string>* items) {
  AddAddresses(items);
  AddRoutes(items);
  AddRules(items);
  AddNeighbours(0, items);
  AddNeighbours(NTF_PROXY, items);
  if (HasConnections()) {
    AddConnections(items);
  }
  AddSettings(items);
}

}  // namespace mountd::testing
