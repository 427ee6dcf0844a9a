// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/networks/frames.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <array>
#include <span>

#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

constexpr std::uint8_t kHopLimit = 255;  // required by neighbour discovery
constexpr std::uint16_t kClientPort = 40'000;

void Put8(Frame* frame, unsigned value) {
  frame->push_back(static_cast<std::uint8_t>(value));
}

void Put16(Frame* frame, unsigned value) {
  Put8(frame, value >> 8U & 0xFFU);
  Put8(frame, value & 0xFFU);
}

void Put32(Frame* frame, unsigned value) {
  Put16(frame, value >> 16U);
  Put16(frame, value & 0xFFFFU);
}

void Put(Frame* frame, std::span<const std::uint8_t> bytes) {
  frame->insert(frame->end(), bytes.begin(), bytes.end());
}

Frame Bytes(const std::string& address) {
  const int family =
      address.find(':') == std::string::npos ? AF_INET : AF_INET6;
  Frame bytes(family == AF_INET ? 4 : 16);
  EXPECT_EQ(::inet_pton(family, address.c_str(), bytes.data()), 1) << address;
  return bytes;
}

Frame Ethernet(const LinkHeader& link, unsigned type) {
  Frame frame;
  Put(&frame, link.to);
  Put(&frame, link.from);
  Put16(&frame, type);
  return frame;
}

// Returns the Internet checksum (RFC 1071).
unsigned Checksum(std::span<const std::uint8_t> bytes) {
  unsigned sum = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    sum += i % 2 == 0 ? static_cast<unsigned>(bytes[i]) << 8U : bytes[i];
  }
  while (sum >> 16U != 0) {
    sum = (sum & 0xFFFFU) + (sum >> 16U);
  }
  return ~sum & 0xFFFFU;
}

void Set16(Frame* frame, std::size_t at, unsigned value) {
  frame->at(at) = static_cast<std::uint8_t>(value >> 8U);
  frame->at(at + 1) = static_cast<std::uint8_t>(value & 0xFFU);
}

Frame Ipv4Packet(const Frame& source, const Frame& destination,
                 const Frame& payload) {
  constexpr std::size_t kHeader = 20;
  Frame packet;
  Put16(&packet, 0x4500);
  Put16(&packet, static_cast<unsigned>(kHeader + payload.size()));
  Put32(&packet, 0);
  Put8(&packet, kHopLimit);
  Put8(&packet, IPPROTO_UDP);
  Put16(&packet, 0);
  Put(&packet, source);
  Put(&packet, destination);
  Set16(&packet, 10, Checksum(packet));
  Put(&packet, payload);
  return packet;
}

// Returns the packet with its checksum put at `checksum_at` of the payload.
Frame Ipv6Packet(const Frame& source, const Frame& destination,
                 std::uint8_t protocol, Frame payload,
                 std::size_t checksum_at) {
  Frame pseudo;
  Put(&pseudo, source);
  Put(&pseudo, destination);
  Put32(&pseudo, static_cast<unsigned>(payload.size()));
  Put32(&pseudo, protocol);
  Put(&pseudo, payload);
  Set16(&payload, checksum_at, Checksum(pseudo));
  Frame packet;
  Put32(&packet, 0x60000000);
  Put16(&packet, static_cast<unsigned>(payload.size()));
  Put8(&packet, protocol);
  Put8(&packet, kHopLimit);
  Put(&packet, source);
  Put(&packet, destination);
  Put(&packet, payload);
  return packet;
}

// Returns an ICMPv6 header of that type with code 0 and checksum 0.
Frame Icmp6Message(std::uint8_t type) {
  Frame message;
  Put8(&message, type);
  Put8(&message, 0);
  Put16(&message, 0);
  return message;
}

Frame Icmp6Frame(const LinkHeader& link, const std::string& source,
                 const std::string& destination, const Frame& message) {
  Frame frame = Ethernet(link, ETHERTYPE_IPV6);
  Put(&frame, Ipv6Packet(Bytes(source), Bytes(destination), IPPROTO_ICMPV6,
                         message, 2));
  return frame;
}

void PutLinkAddress(Frame* frame, std::uint8_t option, const Mac& mac) {
  Put8(frame, option);
  Put8(frame, 1);
  Put(frame, mac);
}

Frame ArpFrame(const LinkHeader& link, unsigned operation,
               const std::string& sender, const std::string& target) {
  Frame frame = Ethernet(link, ETHERTYPE_ARP);
  Put16(&frame, 1);  // Ethernet
  Put16(&frame, ETHERTYPE_IP);
  Put8(&frame, 6);
  Put8(&frame, 4);
  Put16(&frame, operation);
  Put(&frame, link.from);
  Put(&frame, Bytes(sender));
  Put(&frame, link.to);
  Put(&frame, Bytes(target));
  return frame;
}

}  // namespace

Frame UdpFrame(const LinkHeader& link, const std::string& source,
               const std::string& destination, std::uint16_t port) {
  Frame datagram;
  Put16(&datagram, kClientPort);
  Put16(&datagram, port);
  Put16(&datagram, 9);
  Put16(&datagram, 0);
  Put8(&datagram, 'x');
  const Frame from = Bytes(source);
  const Frame to = Bytes(destination);
  const bool is_v4 = from.size() == 4;
  Frame frame = Ethernet(link, is_v4 ? ETHERTYPE_IP : ETHERTYPE_IPV6);
  Put(&frame, is_v4 ? Ipv4Packet(from, to, datagram)
                    : Ipv6Packet(from, to, IPPROTO_UDP, datagram, 6));
  return frame;
}

Frame Tagged(Frame frame) {
  constexpr std::array<std::uint8_t, 4> kTag = {0x81, 0, 0, 0};
  frame.insert(frame.begin() + 2 * ETH_ALEN, kTag.begin(), kTag.end());
  return frame;
}

Frame ArpAnswer(const LinkHeader& link, const std::string& sender,
                const std::string& target) {
  return ArpFrame(link, 2, sender, target);
}

Frame ArpQuestion(const LinkHeader& link, const std::string& sender,
                  const std::string& target) {
  return ArpFrame(link, 1, sender, target);
}

Frame NeighbourAnswer(const LinkHeader& link, const std::string& address,
                      const std::string& to) {
  constexpr unsigned kOverride = 0x20000000;
  Frame message = Icmp6Message(ND_NEIGHBOR_ADVERT);
  Put32(&message, kOverride);
  Put(&message, Bytes(address));
  PutLinkAddress(&message, ND_OPT_TARGET_LINKADDR, link.from);
  return Icmp6Frame(link, "fe80::bad", to, message);
}

Frame RouterAdvertisement(const LinkHeader& link, const std::string& source,
                          const std::string& prefix) {
  constexpr unsigned kSeconds = 1800;
  constexpr unsigned kOnLinkAndAutonomous = 0xC0;
  Frame message = Icmp6Message(ND_ROUTER_ADVERT);
  Put8(&message, 64);
  Put8(&message, 0);
  Put16(&message, kSeconds);
  Put32(&message, 0);
  Put32(&message, 0);
  PutLinkAddress(&message, ND_OPT_SOURCE_LINKADDR, link.from);
  Put8(&message, ND_OPT_PREFIX_INFORMATION);
  Put8(&message, 4);
  Put8(&message, 64);
  Put8(&message, kOnLinkAndAutonomous);
  Put32(&message, kSeconds);
  Put32(&message, kSeconds);
  Put32(&message, 0);
  Put(&message, Bytes(prefix));
  return Icmp6Frame(link, source, "ff02::1", message);
}

void SendFrames(const std::string& netns, const std::string& device,
                const std::vector<Frame>& frames) {
  const UniqueFd fd = SocketIn(netns, AF_PACKET, SOCK_RAW, 0);
  ifreq request = {};
  device.copy(&request.ifr_name[0], IFNAMSIZ - 1);
  ASSERT_EQ(::ioctl(fd.get(), SIOCGIFINDEX, &request), 0) << device;
  sockaddr_ll to = {};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = request.ifr_ifindex;
  for (const Frame& frame : frames) {
    ASSERT_EQ(::sendto(fd.get(), frame.data(), frame.size(), 0,
                       reinterpret_cast<const sockaddr*>(&to), sizeof(to)),
              static_cast<ssize_t>(frame.size()));
  }
}

}  // namespace mountd::testing
