// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/raw_netlink.h"

// Builds the messages of one routed veth and its ports, as few as possible.
namespace mountd::bench {

using V4 = std::array<std::uint8_t, 4>;
using V6 = std::array<std::uint8_t, 16>;
using Mac = std::array<std::uint8_t, 6>;

// The sets in which one allocation has elements, of the same types as mountd's.
inline constexpr char kFloorSets[] = R"(table inet floor {
  map pm4 { type inet_proto . inet_service : ipv4_addr . inet_service; }
  map pm6 { type inet_proto . inet_service : ipv6_addr . inet_service; }
  set src4 { type ifname . ipv4_addr; }
  set src6 { type ifname . ipv6_addr; }
  set open { type ifname; }
}
)";

// The names and addresses of the allocation with that number.
struct Ends {
  explicit Ends(int number);
  int index;  // of the host's end of the link
  std::string name;
  V4 ipv4;
  V6 ipv6;
  Mac mac;
};

// Adds the addresses that the host uses towards allocations, on its lo.
Requests HostAddresses();
// Makes the pair and sets up the host's end; the kernel makes the other end in
// `netns`.
Requests HostEnd(const Ends& ends, int netns);
// Sets up the other end in that namespace, once the pair exists.
Requests AllocationEnd(const Ends& ends);

// Asks for the host's end once both ends are up, because the kernel makes a
// link ready when it is asked for (Linux 6.8) and drops earlier packets.
Requests HostEndReady(const Ends& ends);

// Both are one transaction of nf_tables.
Requests AddedElements(const Ends& ends,
                       const std::vector<std::uint16_t>& ports);
Requests DeletedElements(const Ends& ends,
                         const std::vector<std::uint16_t>& ports);

}  // namespace mountd::bench
