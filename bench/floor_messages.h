// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "bench/raw_netlink.h"

// The messages of one routed veth and its ports, as few as there can be.
namespace mountd::bench {

using V4 = std::array<std::uint8_t, 4>;
using V6 = std::array<std::uint8_t, 16>;
using Mac = std::array<std::uint8_t, 6>;

// The sets that one allocation has elements in, of the same types as mountd's.
inline constexpr char kFloorSets[] = R"(table inet floor {
  map pm4 { type inet_proto . inet_service : ipv4_addr . inet_service; }
  map pm6 { type inet_proto . inet_service : ipv6_addr . inet_service; }
  set src4 { type ifname . ipv4_addr; }
  set src6 { type ifname . ipv6_addr; }
  set open { type ifname; }
}
)";

// One allocation's names and addresses, as its number says.
struct Ends {
  explicit Ends(int number);
  int index;  // of the host's end
  std::string name;
  V4 ipv4;
  V6 ipv6;
  Mac mac;
};

// What the host talks to allocations from, on its lo.
Requests HostAddresses();
// The pair and the host's end; the other end is born in `netns`.
Requests HostEnd(const Ends& ends, int netns);
// In that namespace, once the pair is there.
Requests AllocationEnd(const Ends& ends);

// The host's end, once both are up: who asks for it has it made ready (Linux
// 6.8), and packets that come before are dropped.
Requests HostEndReady(const Ends& ends);

// One transaction of nf_tables.
Requests AddedElements(const Ends& ends,
                       const std::vector<std::uint16_t>& ports);
Requests DeletedElements(const Ends& ends,
                         const std::vector<std::uint16_t>& ports);

}  // namespace mountd::bench
