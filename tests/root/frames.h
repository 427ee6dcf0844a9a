// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "netns/address.h"

// Ethernet frames, with whatever in them: who is root in a network namespace
// can send what he likes.
namespace mountd::testing {

using Frame = std::vector<std::uint8_t>;
using netns::Mac;

struct LinkHeader {
  Mac from{};
  Mac to{};
};

// A datagram of one byte; IPv6 if the addresses are.
Frame UdpFrame(const LinkHeader& link, const std::string& source,
               const std::string& destination, std::uint16_t port);
// The same with a VLAN tag of no VLAN (802.1Q, VID 0), which receivers ignore.
Frame Tagged(Frame frame);

// RFC 826: that `sender` is at `link.from`.
Frame ArpAnswer(const LinkHeader& link, const std::string& sender,
                const std::string& target);
Frame ArpQuestion(const LinkHeader& link, const std::string& sender,
                  const std::string& target);
// RFC 4861: that `address` is at `link.from`, and whoever knows better is
// wrong.
Frame NeighbourAnswer(const LinkHeader& link, const std::string& address,
                      const std::string& to);
// That the sender is a router for everything, and which prefix is on the link.
Frame RouterAdvertisement(const LinkHeader& link, const std::string& source,
                          const std::string& prefix);

// By a packet socket (packet(7)) in that namespace.
void SendFrames(const std::string& netns, const std::string& device,
                const std::vector<Frame>& frames);

}  // namespace mountd::testing
