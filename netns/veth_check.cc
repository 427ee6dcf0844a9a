// SPDX-License-Identifier: LGPL-2.1-or-later
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>
#include <netlink/msg.h>

#include <cstring>
#include <optional>

#include "netns/veth.h"

// IsHostEndRight: asks the kernel for each route and neighbour by its address,
// so that the cost does not grow with the number of allocations.
namespace mountd::netns {
namespace {

template <typename Address>
constexpr unsigned char Family() {
  return sizeof(Address) == sizeof(Ipv4) ? AF_INET : AF_INET6;
}

template <typename Address>
Message GetNeighbour(std::uint32_t index, const Address& address) {
  ndmsg header = {};
  header.ndm_family = Family<Address>();
  header.ndm_ifindex = static_cast<int>(index);
  Message message(RTM_GETNEIGH, 0, header);
  message.Put(NDA_DST, address);
  return message;
}

// The entry of the table that a packet to the address would take.
template <typename Address>
Message GetRoute(const Address& address) {
  rtmsg header = {};
  header.rtm_family = Family<Address>();
  header.rtm_dst_len = sizeof(Address) * 8;
  header.rtm_flags = RTM_F_FIB_MATCH;  // Linux 5.2, 4.13 for IPv4
  Message message(RTM_GETROUTE, 0, header);
  message.Put(RTA_DST, address);
  return message;
}

// The fixed header of an answer, and the value of one of its attributes.
template <typename Header, typename Value>
struct Found {
  Header header{};
  Value value{};
};

template <typename Header, typename Value>
std::optional<Found<Header, Value>> Read(const Answer& answer, int attribute) {
  Found<Header, Value> found;
  const std::size_t start = NLMSG_ALIGN(sizeof(Header));
  if (answer.payload.size() <= start) {
    return std::nullopt;
  }
  std::memcpy(&found.header, answer.payload.data(), sizeof(Header));
  std::vector<std::byte> payload = answer.payload;
  nlattr* entry = nla_find(reinterpret_cast<nlattr*>(&payload[start]),
                           static_cast<int>(payload.size() - start), attribute);
  if (entry == nullptr ||
      static_cast<std::size_t>(nla_len(entry)) != sizeof(Value)) {
    return std::nullopt;
  }
  std::memcpy(&found.value, nla_data(entry), sizeof(Value));
  return found;
}

bool IsNeighbour(const Answer& answer, const Mac& mac) {
  const auto found = Read<ndmsg, Mac>(answer, NDA_LLADDR);
  return answer.type == RTM_NEWNEIGH && found &&
         (found->header.ndm_state & NUD_PERMANENT) != 0 && found->value == mac;
}

bool IsHostRoute(const Answer& answer, std::uint32_t index,
                 std::size_t prefix) {
  const auto found = Read<rtmsg, std::uint32_t>(answer, RTA_OIF);
  return answer.type == RTM_NEWROUTE && found &&
         found->header.rtm_dst_len == prefix &&
         found->header.rtm_type == RTN_UNICAST && found->value == index;
}

}  // namespace

Result<bool> IsHostEndRight(Channel* host, const Veth& veth) {
  MOUNTD_ASSIGN(const LinkFacts link, FindLink(host, veth.host_name));
  if (link.index == 0 || !link.up) {
    return false;
  }
  std::vector<Message> messages;
  messages.push_back(GetNeighbour(link.index, veth.ipv4));
  messages.push_back(GetRoute(veth.ipv4));
  if (!IsNone(veth.ipv6)) {
    messages.push_back(GetNeighbour(link.index, veth.ipv6));
    messages.push_back(GetRoute(veth.ipv6));
  }
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                host->Exchange(messages, messages.size() - 1));
  std::size_t right = 0;
  for (const Answer& answer : answers) {
    const bool neighbour = answer.request % 2 == 0;
    const std::size_t prefix = answer.request < 2 ? 32 : 128;
    if (neighbour ? IsNeighbour(answer, veth.mac)
                  : IsHostRoute(answer, link.index, prefix)) {
      ++right;
    }
  }
  return right == messages.size();
}

}  // namespace mountd::netns
