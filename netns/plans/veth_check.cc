// SPDX-License-Identifier: LGPL-2.1-or-later
#include <linux/neighbour.h>
#include <linux/rtnetlink.h>

#include <algorithm>

#include "netns/events/attributes.h"
#include "netns/events/host_link.h"
#include "netns/plans/veth.h"

// IsHostEndRight and IsRoutedElsewhere ask the kernel for each route and
// neighbour by its address, so that the cost does not grow with the number of
// allocations.
namespace mountd::netns {
namespace {

template <typename Address>
constexpr unsigned char Family() {
  return sizeof(Address) == sizeof(Ipv4) ? AF_INET : AF_INET6;
}

Message GetLink(std::uint32_t index) {
  ifinfomsg header = {};
  header.ifi_index = static_cast<int>(index);
  return Message(RTM_GETLINK, 0, header);
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

// Asks for the routing table's entry that a packet to the address would take.
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

bool IsNeighbour(const Answer& answer, const Mac& mac) {
  const auto header = HeaderOf<ndmsg>(answer.payload);
  const auto attributes = AttributesAfter<ndmsg>(answer.payload);
  return answer.type == RTM_NEWNEIGH && header &&
         (header->ndm_state & NUD_PERMANENT) != 0 &&
         attributes.Value<Mac>(NDA_LLADDR) == mac;
}

bool IsHostRoute(const Answer& answer, std::uint32_t index,
                 std::size_t prefix) {
  const auto header = HeaderOf<rtmsg>(answer.payload);
  const auto attributes = AttributesAfter<rtmsg>(answer.payload);
  return answer.type == RTM_NEWROUTE && header &&
         header->rtm_dst_len == prefix && header->rtm_type == RTN_UNICAST &&
         attributes.Value<std::uint32_t>(RTA_OIF) == index;
}

// Checks one answer. Its number says which of IsHostEndRight's questions it
// answers.
bool IsRight(const Answer& answer, const Veth& veth, std::uint32_t index) {
  if (answer.request == 0) {
    return answer.type == RTM_NEWLINK && IsHostLinkRight(answer.payload);
  }
  const bool neighbour = answer.request % 2 == 1;
  const std::size_t prefix =
      answer.request < 3 && !IsNone(veth.ipv4) ? 32 : 128;
  return neighbour ? IsNeighbour(answer, veth.mac)
                   : IsHostRoute(answer, index, prefix);
}

}  // namespace

Result<bool> IsHostEndRight(Channel* host, const Veth& veth,
                            std::uint32_t index) {
  std::vector<Message> messages;
  messages.push_back(GetLink(index));
  if (!IsNone(veth.ipv4)) {
    messages.push_back(GetNeighbour(index, veth.ipv4));
    messages.push_back(GetRoute(veth.ipv4));
  }
  if (!IsNone(veth.ipv6)) {
    messages.push_back(GetNeighbour(index, veth.ipv6));
    messages.push_back(GetRoute(veth.ipv6));
  }
  MOUNTD_ASSIGN(const std::vector<Answer> answers,
                host->Exchange(messages, messages.size() - 1));
  std::size_t right = 0;
  for (const Answer& answer : answers) {
    right += IsRight(answer, veth, index) ? 1U : 0U;
  }
  return right == messages.size();
}

Result<bool> IsRoutedElsewhere(Channel* host, const Ipv6& address,
                               std::uint32_t index) {
  std::vector<Message> messages;
  messages.push_back(GetRoute(address));
  MOUNTD_ASSIGN(const std::vector<Answer> answers, host->Exchange(messages, 0));
  return std::any_of(answers.begin(), answers.end(), [&](const Answer& answer) {
    const auto link =
        AttributesAfter<rtmsg>(answer.payload).Value<std::uint32_t>(RTA_OIF);
    return link && *link != index && IsHostRoute(answer, *link, 128);
  });
}

}  // namespace mountd::netns
