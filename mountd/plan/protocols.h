// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <string_view>
#include <utility>

#include "mountd/plan/values.h"

namespace mountd::exec {

// The IP protocol of each bit of a port map's `protocols`.
inline constexpr std::array<std::pair<Protocol, std::uint8_t>, 3>
    kProtocolNumbers = {
        {{kTcp, IPPROTO_TCP}, {kUdp, IPPROTO_UDP}, {kSctp, IPPROTO_SCTP}}};

// The names of the same protocols in D-Bus and CNI.
inline constexpr std::array<std::pair<Protocol, std::string_view>, 3>
    kProtocolNames = {{{kTcp, "tcp"}, {kUdp, "udp"}, {kSctp, "sctp"}}};

}  // namespace mountd::exec
