// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <netinet/in.h>

#include <array>
#include <cstdint>
#include <utility>

#include "mountd/exec/plan.h"

namespace mountd::exec {

// The IP protocol that each bit of a port map's protocols stands for.
inline constexpr std::array<std::pair<Protocol, std::uint8_t>, 3>
    kProtocolNumbers = {
        {{kTcp, IPPROTO_TCP}, {kUdp, IPPROTO_UDP}, {kSctp, IPPROTO_SCTP}}};

}  // namespace mountd::exec
