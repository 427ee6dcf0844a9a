// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <linux/if_link.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "netns/address/address.h"

// Makes the kernel's messages on links, routes, neighbours and rules, as the
// kernel writes them.
namespace mountd {

// A netlink message with attributes, as the kernel writes it.
class NetlinkMessage {
 public:
  template <typename Header>
  NetlinkMessage(std::uint16_t type, const Header& header) {
    nlmsghdr start{};
    start.nlmsg_type = type;
    Append(&start, sizeof(start));
    Append(&header, sizeof(header));
  }

  NetlinkMessage& Put(std::uint16_t type, const void* data, std::size_t size) {
    nlattr attribute{};
    attribute.nla_type = type;
    attribute.nla_len = static_cast<std::uint16_t>(sizeof(attribute) + size);
    Append(&attribute, sizeof(attribute));
    Append(data, size);
    return *this;
  }
  NetlinkMessage& Put(std::uint16_t type, const std::string& text) {
    return Put(type, text.c_str(), text.size() + 1);
  }

  std::vector<std::byte> Bytes() const {
    std::vector<std::byte> bytes = bytes_;
    const auto size = static_cast<std::uint32_t>(bytes.size());
    std::memcpy(bytes.data(), &size, sizeof(size));  // nlmsg_len
    return bytes;
  }

 private:
  void Append(const void* data, std::size_t size) {
    const auto* bytes = static_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + size);
    bytes_.resize(NLMSG_ALIGN(bytes_.size()));
  }

  std::vector<std::byte> bytes_;
};

// Returns an attribute to be nested in another one.
template <typename T>
std::vector<std::byte> Nested(std::uint16_t type, const std::vector<T>& data) {
  const auto bytes = std::as_bytes(std::span(data));
  nlattr attribute{};
  attribute.nla_type = type;
  attribute.nla_len =
      static_cast<std::uint16_t>(sizeof(attribute) + bytes.size());
  const auto head = std::as_bytes(std::span(&attribute, 1));
  std::vector<std::byte> all(head.begin(), head.end());
  all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

inline NetlinkMessage LinkGoes(const std::string& name) {
  return NetlinkMessage(RTM_DELLINK, ifinfomsg{}).Put(IFLA_IFNAME, name);
}

// Returns a host end as mountd makes it, but with the given values.
inline NetlinkMessage LinkIs(const std::string& name, unsigned flags,
                             const netns::Mac& mac = netns::kGatewayMac,
                             std::uint32_t route_localnet = 1) {
  ifinfomsg header{};
  header.ifi_flags = flags;
  std::vector<std::uint32_t> settings(IPV4_DEVCONF_MAX);
  settings.at(IPV4_DEVCONF_ROUTE_LOCALNET - 1) = route_localnet;
  const auto ipv4 = Nested(AF_INET, Nested(IFLA_INET_CONF, settings));
  return NetlinkMessage(RTM_NEWLINK, header)
      .Put(IFLA_IFNAME, name)
      .Put(IFLA_ADDRESS, mac.data(), mac.size())
      .Put(IFLA_AF_SPEC, ipv4.data(), ipv4.size());
}

inline NetlinkMessage RouteGoes(const netns::Ipv4& to) {
  rtmsg header{};
  header.rtm_family = AF_INET;
  return NetlinkMessage(RTM_DELROUTE, header)
      .Put(RTA_DST, to.data(), to.size());
}

inline NetlinkMessage Ipv6RouteGoes(const netns::Ipv6& to) {
  rtmsg header{};
  header.rtm_family = AF_INET6;
  return NetlinkMessage(RTM_DELROUTE, header)
      .Put(RTA_DST, to.data(), to.size());
}

inline NetlinkMessage NeighbourIs(std::uint16_t state,
                                  const netns::Ipv4& address) {
  ndmsg header{};
  header.ndm_family = AF_INET;
  header.ndm_state = state;
  const netns::Mac mac = netns::LinkMac(address);
  return NetlinkMessage(RTM_NEWNEIGH, header)
      .Put(NDA_DST, address.data(), address.size())
      .Put(NDA_LLADDR, mac.data(), mac.size());
}

inline NetlinkMessage AddressGoes(const netns::Ipv4& address) {
  ifaddrmsg header{};
  header.ifa_family = AF_INET;
  return NetlinkMessage(RTM_DELADDR, header)
      .Put(IFA_ADDRESS, address.data(), address.size());
}

inline NetlinkMessage Ipv6AddressGoes(const netns::Ipv6& address) {
  ifaddrmsg header{};
  header.ifa_family = AF_INET6;
  return NetlinkMessage(RTM_DELADDR, header)
      .Put(IFA_ADDRESS, address.data(), address.size());
}

constexpr std::uint16_t OfNft(int message) {
  return static_cast<std::uint16_t>((NFNL_SUBSYS_NFTABLES << 8) | message);
}
inline NetlinkMessage RuleGoes(const std::string& table,
                               const std::string& chain) {
  return NetlinkMessage(OfNft(NFT_MSG_DELRULE), nfgenmsg{})
      .Put(NFTA_RULE_TABLE, table)
      .Put(NFTA_RULE_CHAIN, chain);
}
// Returns the message that ends each transaction.
inline NetlinkMessage GenerationOf(const std::string& command) {
  return NetlinkMessage(OfNft(NFT_MSG_NEWGEN), nfgenmsg{})
      .Put(NFTA_GEN_PROC_NAME, command);
}

}  // namespace mountd
