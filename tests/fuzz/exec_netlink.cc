// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fuzz/exec_netlink.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/if_link.h>
#include <linux/inet_diag.h>
#include <linux/ip.h>
#include <linux/neighbour.h>
#include <linux/net_namespace.h>
#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nfnetlink_conntrack.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/sock_diag.h>
#include <net/if.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "netns/address/address.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/support/netlink_messages.h"

namespace mountd::fuzz {
namespace {

using netns::Attributes;
using netns::AttributesAfter;
using netns::HeaderOf;

template <typename T>
std::span<const std::byte> BytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

void Put(const NetlinkMessage& message, std::uint32_t sequence,
         std::vector<std::byte>* out) {
  std::vector<std::byte> bytes = message.Bytes();
  std::memcpy(bytes.data() + offsetof(nlmsghdr, nlmsg_seq), &sequence,
              sizeof(sequence));
  bytes.resize(NLMSG_ALIGN(bytes.size()));
  out->insert(out->end(), bytes.begin(), bytes.end());
}

void PutError(std::uint32_t sequence, int number, std::vector<std::byte>* out) {
  nlmsgerr error{};
  error.error = number;
  Put(NetlinkMessage(NLMSG_ERROR, error), sequence, out);
}

// Appends the end of a dump.
void PutDone(std::uint32_t sequence, std::vector<std::byte>* out) {
  Put(NetlinkMessage(NLMSG_DONE, int{0}), sequence, out);
}

bool IsDump(int flags) { return (flags & NLM_F_DUMP) == NLM_F_DUMP; }

bool StartsWith(std::span<const std::byte> bytes,
                std::span<const std::byte> start) {
  return bytes.size() >= start.size() &&
         std::equal(start.begin(), start.end(), bytes.begin());
}

constexpr int kNewElement = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_NEWSETELEM;
constexpr int kGetElement = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETSETELEM;
constexpr int kDeleteElement = (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_DELSETELEM;

void PutElement(const std::vector<std::byte>& element, std::uint32_t sequence,
                std::vector<std::byte>* out) {
  Put(NetlinkMessage(kNewElement, nfgenmsg{})
          .Put(NFTA_SET_ELEM_LIST_ELEMENTS, element.data(), element.size()),
      sequence, out);
}

}  // namespace

const exec::NetworkPlan& ExecNetlink::Plan() const {
  if (plan_ != nullptr && plan_->kind == exec::PlanKind::kUpdatePorts) {
    return plan_->body.ports.network;
  }
  Require(plan_ != nullptr &&
              (plan_->kind == exec::PlanKind::kCreateNetwork ||
               plan_->kind == exec::PlanKind::kDeleteNetwork ||
               plan_->kind == exec::PlanKind::kRepairNetwork) &&
              netns::HasAddress(plan_->body.network),
          "a plan without a network changes one");
  return plan_->body.network;
}

std::string ExecNetlink::HostLink() const { return netns::LinkNameOf(Plan()); }

std::vector<std::byte> ExecNetlink::Answer(int protocol, bool inside,
                                           std::span<const std::byte> requests,
                                           const Lie& lie) {
  std::vector<std::byte> out;
  const auto elements_before = elements_;
  bool refused = false;
  while (requests.size() >= sizeof(nlmsghdr)) {
    const auto header = *HeaderOf<nlmsghdr>(requests);
    Require(header.nlmsg_len >= sizeof(header) &&
                header.nlmsg_len <= requests.size(),
            "a netlink request is malformed");
    const Asked asked{
        header.nlmsg_type, header.nlmsg_flags, header.nlmsg_seq,
        requests.subspan(sizeof(header), header.nlmsg_len - sizeof(header))};
    int error = protocol == NETLINK_ROUTE ? Route(asked, inside, lie, &out)
                : protocol == NETLINK_SOCK_DIAG ? Sockets(asked, lie, &out)
                                                : Netfilter(asked, lie, &out);
    refused = refused || error != 0;
    if (lie() != 0) {
      constexpr int kErrors[] = {EEXIST, ENOENT, EPERM, EBUSY, ENODEV};
      error = kErrors[lie() % std::size(kErrors)];
    }
    if (error != 0 || (asked.flags & NLM_F_ACK) != 0) {
      PutError(asked.sequence, lie() == 3 ? lie() - 128 : -error, &out);
    }
    requests = requests.subspan(
        std::min<std::size_t>(NLMSG_ALIGN(header.nlmsg_len), requests.size()));
  }
  if (protocol == NETLINK_NETFILTER && refused) {
    elements_ = elements_before;  // a batch is one transaction
  }
  if (const std::uint8_t cut = lie(); cut != 0) {
    out.resize(out.size() - std::min<std::size_t>(cut, out.size()));
  }
  return out;
}

int ExecNetlink::Route(const Asked& asked, bool inside, const Lie& lie,
                       std::vector<std::byte>* out) {
  switch (asked.type) {
    case RTM_GETLINK:
      return GetLink(asked, inside, lie, out);
    case RTM_GETNSID: {
      rtgenmsg header{};
      NetlinkMessage message(RTM_NEWNSID, header);
      const std::int32_t id = lie() == 0 ? 7 : lie();
      message.Put(NETNSA_NSID, &id, lie() == 0 ? sizeof(id) : 1);
      Put(message, asked.sequence, out);
      return 0;
    }
    case RTM_GETNEIGH:
    case RTM_GETROUTE:
      return ENOENT;
    case RTM_NEWLINK:
    case RTM_DELLINK:
      return inside ? 0 : ChangeLink(asked, out);
    case RTM_NEWADDR:
    case RTM_NEWNEIGH:
    case RTM_NEWROUTE:
      if (!inside) {
        CheckAddressed(asked);
      }
      return 0;
    default:
      Require(false, "a request of a kind that no plan needs");
      return 0;
  }
}

// Answers a socket at any address, or none.
int ExecNetlink::Sockets(const Asked& asked, const Lie& lie,
                         std::vector<std::byte>* out) {
  Require(plan_ != nullptr && (plan_->kind == exec::PlanKind::kCreateNetwork ||
                               plan_->kind == exec::PlanKind::kCheckHostPorts ||
                               plan_->kind == exec::PlanKind::kUpdatePorts),
          "a plan that maps no port asks for sockets");
  Require(asked.type == SOCK_DIAG_BY_FAMILY && IsDump(asked.flags),
          "sockets are changed");
  if (const std::uint8_t what = lie(); what != 0) {
    inet_diag_msg socket{};
    socket.idiag_family = (what & 1U) != 0 ? AF_INET6 : AF_INET;
    socket.id.idiag_sport = htons(static_cast<std::uint16_t>(8000 + lie()));
    socket.id.idiag_src[0] = lie();
    socket.idiag_uid = what;
    socket.idiag_inode = what;
    const std::uint8_t ipv6_alone = lie();
    Put(NetlinkMessage(SOCK_DIAG_BY_FAMILY, socket)
            .Put(INET_DIAG_SKV6ONLY, &ipv6_alone, sizeof(ipv6_alone)),
        asked.sequence, out);
  }
  PutDone(asked.sequence, out);
  return 0;
}

int ExecNetlink::GetLink(const Asked& asked, bool inside, const Lie& lie,
                         std::vector<std::byte>* out) {
  const auto header = HeaderOf<ifinfomsg>(asked.payload);
  const std::string name =
      AttributesAfter<ifinfomsg>(asked.payload).Text(IFLA_IFNAME);
  Require(header.has_value(), "a request for a link has no header");
  const auto index = static_cast<std::uint32_t>(header->ifi_index);
  if (!inside && IsDump(asked.flags)) {
    for (const auto& [its, link] : links_) {
      PutLink(asked, its, link, out);
    }
    PutDone(asked.sequence, out);
    return 0;
  }
  if (inside || lie() != 0) {
    Link link{index != 0 ? index : 2U, "", true};
    link.alias = plan_ != nullptr && lie() == 0
                     ? Text(plan_->body.network.allocation)
                     : "other";
    PutLink(asked, name.empty() ? "eth0" : name, link, out);
    return 0;
  }
  for (const auto& [its, link] : links_) {
    if (its == name || (name.empty() && link.index == index)) {
      PutLink(asked, its, link, out);
      return 0;
    }
  }
  return ENODEV;
}

void ExecNetlink::PutLink(const Asked& asked, const std::string& name,
                          const Link& link, std::vector<std::byte>* out) {
  ifinfomsg header{};
  header.ifi_index = static_cast<int>(link.index);
  header.ifi_flags = link.up ? unsigned{IFF_UP} : 0U;
  const std::uint8_t up = 6;
  const std::int32_t nsid = 7;
  const std::uint32_t peer = 2;
  Put(NetlinkMessage(RTM_NEWLINK, header)
          .Put(IFLA_IFNAME, name)
          .Put(IFLA_IFALIAS, link.alias.data(), link.alias.size())
          .Put(IFLA_OPERSTATE, &up, sizeof(up))
          .Put(IFLA_LINK_NETNSID, &nsid, sizeof(nsid))
          .Put(IFLA_LINK, &peer, sizeof(peer)),
      asked.sequence, out);
  if (plan_ != nullptr &&
      (name == netns::LinkNameOf(plan_->body.network) ||
       link.alias == Text(plan_->body.network.allocation))) {
    own_.insert(link.index);
  }
}

int ExecNetlink::ChangeLink(const Asked& asked, std::vector<std::byte>* out) {
  const auto header = HeaderOf<ifinfomsg>(asked.payload);
  const auto attributes = AttributesAfter<ifinfomsg>(asked.payload);
  const std::string name = attributes.Text(IFLA_IFNAME);
  Require(header.has_value(), "a change of a link has no header");
  if (asked.type == RTM_DELLINK) {
    Require(name == HostLink() && header->ifi_index == 0,
            "a link that is not the plan's is deleted");
    return links_.erase(name) != 0 ? 0 : ENODEV;
  }
  Require(name.empty() || name == HostLink(),
          "a link gets a name that is not derived from the plan");
  if (header->ifi_index != 0) {
    Require(own_.contains(static_cast<std::uint32_t>(header->ifi_index)),
            "a link that nobody said to be the plan's is changed");
    return 0;
  }
  Require(attributes.Nested(IFLA_LINKINFO).Text(IFLA_INFO_KIND) == "veth",
          "a link of another kind is made");
  if (links_.contains(name)) {
    return EEXIST;
  }
  links_[name] = {++last_index_, Text(Plan().allocation), false};
  PutLink(asked, name, links_[name], out);
  return 0;
}

// Ends the process unless a change on the host uses the plan's addresses as
// key. The host's own addresses in declared ranges are the only exception.
void ExecNetlink::CheckAddressed(const Asked& asked) {
  if (asked.type == RTM_NEWADDR) {
    const auto header = HeaderOf<ifaddrmsg>(asked.payload);
    const auto attributes = AttributesAfter<ifaddrmsg>(asked.payload);
    const auto ipv4 = attributes.Value<netns::Ipv4>(IFA_LOCAL);
    const auto ipv6 = attributes.Value<netns::Ipv6>(IFA_LOCAL);
    bool declared = false;
    for (const auto& [name, network] : config_.networks) {
      for (const auto& range : network.ipv4) {
        declared = declared || ipv4 == netns::HostAddress(range);
      }
      for (const auto& range : network.ipv6) {
        declared = declared || ipv6 == netns::HostAddress(range);
      }
    }
    Require(plan_ != nullptr &&
                plan_->kind == exec::PlanKind::kPrepareNetworks && header &&
                header->ifa_index == 1 && declared,
            "the host gets an address that no network declares");
    return;
  }
  const bool route = asked.type == RTM_NEWROUTE;
  const auto attributes = route ? AttributesAfter<rtmsg>(asked.payload)
                                : AttributesAfter<ndmsg>(asked.payload);
  const int key = route ? int{RTA_DST} : int{NDA_DST};
  Require(attributes.Value<netns::Ipv4>(key) == Plan().ipv4 ||
              attributes.Value<netns::Ipv6>(key) == Plan().ipv6,
          "a route or a neighbour of another address");
  std::uint32_t index = 0;
  if (route) {
    const auto header = HeaderOf<rtmsg>(asked.payload);
    Require(header && header->rtm_table == RT_TABLE_MAIN &&
                (header->rtm_dst_len == 32 || header->rtm_dst_len == 128),
            "a route to more than one address");
    index = attributes.Value<std::uint32_t>(RTA_OIF).value_or(0);
  } else {
    const auto header = HeaderOf<ndmsg>(asked.payload);
    index = static_cast<std::uint32_t>(header ? header->ndm_ifindex : 0);
  }
  Require(own_.contains(index), "a route or a neighbour on another link");
}

int ExecNetlink::Netfilter(const Asked& asked, const Lie& lie,
                           std::vector<std::byte>* out) {
  const auto header = HeaderOf<nfgenmsg>(asked.payload);
  Require(header.has_value(), "a request of netfilter has no header");
  switch (asked.type) {
    case NFNL_MSG_BATCH_BEGIN:
    case NFNL_MSG_BATCH_END:
      return 0;
    case (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETGEN:
      return 0;
    case (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETCHAIN:
      return lie() == 0 ? 0 : ENOENT;
    case (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETRULE: {
      PutDone(asked.sequence, out);
      return 0;
    }
    case kNewElement:
    case kGetElement:
    case kDeleteElement:
      Require(header->nfgen_family == NFPROTO_INET,
              "a table of another family is asked or changed");
      return Elements(asked, lie, out);
    case (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_GET: {
      const auto ip = AttributesAfter<nfgenmsg>(asked.payload)
                          .Nested(CTA_TUPLE_REPLY)
                          .Nested(CTA_TUPLE_IP);
      Require(plan_->kind == exec::PlanKind::kUpdatePorts &&
                  (ip.Value<netns::Ipv4>(CTA_IP_V4_SRC) == Plan().ipv4 ||
                   ip.Value<netns::Ipv6>(CTA_IP_V6_SRC) == Plan().ipv6),
              "connections of others are listed");
      PutDone(asked.sequence, out);
      return 0;
    }
    case (NFNL_SUBSYS_CTNETLINK << 8) | IPCTNL_MSG_CT_DELETE: {
      const auto attributes = AttributesAfter<nfgenmsg>(asked.payload);
      bool own = false;
      for (const int tuple : {CTA_TUPLE_ORIG, CTA_TUPLE_REPLY}) {
        const auto ip = attributes.Nested(tuple).Nested(CTA_TUPLE_IP);
        own = own || ip.Value<netns::Ipv4>(CTA_IP_V4_SRC) == Plan().ipv4 ||
              ip.Value<netns::Ipv6>(CTA_IP_V6_SRC) == Plan().ipv6;
      }
      Require(own && (plan_->kind == exec::PlanKind::kDeleteNetwork ||
                      plan_->kind == exec::PlanKind::kUpdatePorts),
              "connections of others are forgotten");
      return 0;
    }
    default:
      Require(false, "a request of netfilter that no plan needs");
      return 0;
  }
}

int ExecNetlink::Elements(const Asked& asked, const Lie& lie,
                          std::vector<std::byte>* out) {
  const auto attributes = AttributesAfter<nfgenmsg>(asked.payload);
  Require(attributes.Text(NFTA_SET_ELEM_LIST_TABLE) == "mountd",
          "another table is asked or changed");
  const std::string set = attributes.Text(NFTA_SET_ELEM_LIST_SET);
  if (asked.type == kGetElement && IsDump(asked.flags)) {
    for (auto at = elements_.lower_bound(set + " ");
         at != elements_.end() && at->first.starts_with(set + " "); ++at) {
      PutElement(at->second, asked.sequence, out);
    }
    PutDone(asked.sequence, out);
    return 0;
  }
  auto left = attributes.Bytes(NFTA_SET_ELEM_LIST_ELEMENTS);
  int outcome = 0;
  while (left.size() >= sizeof(nlattr)) {
    const auto header = *HeaderOf<nlattr>(left);
    const std::size_t size = std::min<std::size_t>(header.nla_len, left.size());
    const Attributes element(left.first(size), sizeof(header));
    const auto key = element.Nested(NFTA_SET_ELEM_KEY).Bytes(NFTA_DATA_VALUE);
    const std::string name =
        set + " " +
        std::string(reinterpret_cast<const char*>(key.data()), key.size());
    if (asked.type == kGetElement) {
      const auto there = elements_.find(name);
      if (there == elements_.end() || lie() != 0) {
        return ENOENT;
      }
      PutElement(there->second, asked.sequence, out);
      return 0;
    }
    CheckElement(set, element);
    const auto whole = left.first(size);
    if (asked.type == kNewElement &&
        !elements_.try_emplace(name, whole.begin(), whole.end()).second) {
      outcome = EEXIST;
    }
    if (asked.type == kDeleteElement && elements_.erase(name) == 0) {
      outcome = ENOENT;
    }
    left = left.subspan(std::min((size + 3) / 4 * 4, left.size()));
  }
  return outcome;
}

void ExecNetlink::CheckElement(const std::string& set,
                               const Attributes& element) {
  const exec::NetworkPlan& plan = Plan();
  const auto key = element.Nested(NFTA_SET_ELEM_KEY).Bytes(NFTA_DATA_VALUE);
  if (set == "src4" || set == "src6" || set == "open") {
    std::array<char, IFNAMSIZ> link{};
    const std::string name = HostLink();
    std::copy(name.begin(), name.end(), link.begin());
    Require(StartsWith(key, std::as_bytes(std::span(link))),
            "an element of another link");
    if (set != "open") {
      const auto address = key.subspan(link.size());
      Require(StartsWith(address, set == "src4" ? BytesOf(plan.ipv4)
                                                : BytesOf(plan.ipv6)),
              "an element of another address");
    }
    return;
  }
  Require(set == "pm4" || set == "pm6" || set == "pm4h" || set == "pm6h",
          "a set that is not for plans");
  const bool ipv4 = set.starts_with("pm4");
  const std::size_t host = !set.ends_with("h") ? 0U : ipv4 ? 4U : 16U;
  Require(key.size() >= host + 6, "a port map without a port");
  const auto protocol = std::to_integer<unsigned>(key[host]);
  const unsigned port = std::to_integer<unsigned>(key[host + 4]) << 8U |
                        std::to_integer<unsigned>(key[host + 5]);
  Require(protocol == 6 || protocol == 17 || protocol == 132,
          "a port map of another protocol");
  const auto has = [&](std::span<const exec::PortMap> ports) {
    return std::any_of(ports.begin(), ports.end(),
                       [&](const exec::PortMap& map) {
                         return port >= map.host_port &&
                                port < map.host_port + unsigned{map.count};
                       });
  };
  const bool updates = plan_->kind == exec::PlanKind::kUpdatePorts;
  const exec::PortsPlan& update = plan_->body.ports;
  Require(
      has(std::span(plan.ports).first(plan.port_count)) ||
          (updates && has(std::span(update.old_ports).first(update.old_count))),
      "a host port that is not the plan's");
  const auto data = element.Nested(NFTA_SET_ELEM_DATA).Bytes(NFTA_DATA_VALUE);
  Require(data.empty() ||
              StartsWith(data, ipv4 ? BytesOf(plan.ipv4) : BytesOf(plan.ipv6)),
          "a host port is led to another address");
  if (!data.empty()) {
    Require(std::any_of(config_.rules.begin(), config_.rules.end(),
                        [&](const RuleConfig& rule) {
                          return GrantsPorts(
                              rule, static_cast<std::uint16_t>(port), 1);
                        }),
            "a host port that no rule grants");
  }
}

std::string ExecNetlink::Told() const {
  std::string text;
  for (const auto& [name, link] : links_) {
    text += "link " + name + "\n";
  }
  for (const auto& [element, bytes] : elements_) {
    text += "element " + element + "\n";
  }
  return text;
}

}  // namespace mountd::fuzz
