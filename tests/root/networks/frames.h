// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netns/address/address.h"

// Makes and sends Ethernet frames with any content, because root in a network
// namespace can send any.
namespace mountd::testing {

using Frame = std::vector<std::uint8_t>;
using netns::Mac;

struct LinkHeader {
  Mac from{};
  Mac to{};
};

// Returns a datagram of one byte; over IPv6 if the addresses are IPv6.
Frame UdpFrame(const LinkHeader& link, const std::string& source,
               const std::string& destination, std::uint16_t port);
// Adds a VLAN tag of no VLAN (802.1Q, VID 0), which receivers ignore.
Frame Tagged(Frame frame);

// Return ARP messages (RFC 826) that claim `sender` is at `link.from`.
Frame ArpAnswer(const LinkHeader& link, const std::string& sender,
                const std::string& target);
Frame ArpQuestion(const LinkHeader& link, const std::string& sender,
                  const std::string& target);
// Returns a neighbour advertisement (RFC 4861) that claims `address` is at
// `link.from` and overrides other entries.
Frame NeighbourAnswer(const LinkHeader& link, const std::string& address,
                      const std::string& to);
// Returns an advertisement that claims the sender routes everything, and that
// the prefix is on the link.
Frame RouterAdvertisement(const LinkHeader& link, const std::string& source,
                          const std::string& prefix);

// Sends by a packet socket (packet(7)) in that namespace.
void SendFrames(const std::string& netns, const std::string& device,
                const std::vector<Frame>& frames);

}  // namespace mountd::testing
