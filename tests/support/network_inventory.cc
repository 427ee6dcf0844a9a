// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/network_inventory.h"

#include <arpa/inet.h>
#include <linux/fib_rules.h>
#include <linux/if_addr.h>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
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

// One message without its header: a `Header` and what follows it.
template <typename Header>
Header HeaderOf(std::string_view message, Attributes* attributes) {
  Header header = {};
  std::memcpy(&header, message.data(),
              std::min(sizeof(header), message.size()));
  std::size_t at = NLMSG_ALIGN(sizeof(header));
  while (at + sizeof(nlattr) <= message.size()) {
    nlattr attribute = {};
    std::memcpy(&attribute, message.data() + at, sizeof(attribute));
    if (attribute.nla_len < sizeof(attribute) ||
        at + attribute.nla_len > message.size()) {
      break;
    }
    (*attributes)[attribute.nla_type & NLA_TYPE_MASK] = message.substr(
        at + sizeof(attribute), attribute.nla_len - sizeof(attribute));
    at += NLA_ALIGN(attribute.nla_len);
  }
  return header;
}

// All that the kernel answers to a request of that type, `header` in it.
template <typename Header>
void Dump(std::uint16_t type, const Header& header,
          const std::function<void(std::string_view)>& take) {
  struct {
    nlmsghdr netlink;
    Header header;
  } request = {};
  request.netlink.nlmsg_len = sizeof(request);
  request.netlink.nlmsg_type = type;
  request.netlink.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  request.header = header;
  const UniqueFd fd(
      ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
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
  Dump(RTM_GETROUTE, rtmsg{}, [items](std::string_view message) {
    Attributes all;
    const auto route = HeaderOf<rtmsg>(message, &all);
    // Neither the kernel's cache, nor what it makes of addresses, of IPv6 a
    // moment after them.
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

// Of whatever family, without their times and flags.
void AddAddresses(std::set<std::string>* items) {
  Dump(RTM_GETADDR, ifaddrmsg{}, [items](std::string_view message) {
    Attributes all;
    const auto address = HeaderOf<ifaddrmsg>(message, &all);
    items->insert("address " + AddressIn(all, IFA_ADDRESS, address.ifa_family) +
                  "/" + std::to_string(address.ifa_prefixlen) + " dev " +
                  LinkName(address.ifa_index));
  });
}

void AddRules(std::set<std::string>* items) {
  Dump(RTM_GETRULE, fib_rule_hdr{}, [items](std::string_view message) {
    Attributes all;
    const auto rule = HeaderOf<fib_rule_hdr>(message, &all);
    items->insert("rule " +
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
  Dump(RTM_GETNEIGH, request, [items](std::string_view message) {
    Attributes all;
    const auto neighbour = HeaderOf<ndmsg>(message, &all);
    const bool proxy = (neighbour.ndm_flags & NTF_PROXY) != 0;
    if (!proxy && (neighbour.ndm_state & NUD_NOARP) != 0) {
      return;  // of a link without neighbours, made by its traffic
    }
    items->insert("neighbour " + AddressIn(all, NDA_DST, neighbour.ndm_family) +
                  " dev " +
                  LinkName(static_cast<unsigned>(neighbour.ndm_ifindex)) +
                  (proxy ? " proxy" : ""));
  });
}

void AddSettings(const fs::path& directory, std::set<std::string>* items) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(directory, none)) {
    std::string value;
    std::getline(std::ifstream(entry.path()), value);
    items->insert("setting " + entry.path().string() + " = " + value);
  }
}

}  // namespace

void AddNetworkInventory(std::set<std::string>* items) {
  AddAddresses(items);
  AddRoutes(items);
  AddRules(items);
  AddNeighbours(0, items);
  AddNeighbours(NTF_PROXY, items);
  for (const char* family : {"ipv4", "ipv6"}) {
    for (const char* of : {"all", "default", "lo"}) {
      for (const char* kind : {"conf", "neigh"}) {
        AddSettings(fs::path("/proc/sys/net") / family / kind / of, items);
      }
    }
  }
}

}  // namespace mountd::testing
