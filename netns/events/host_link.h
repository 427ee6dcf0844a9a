// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <span>

namespace mountd::netns {

// Returns whether an allocation's host end is as an executor made it, by the
// payload of an RTM_NEWLINK: up, without ARP, with the gateways' MAC, and with
// route_localnet, which host ports on 127.0.0.1 need.
bool IsHostLinkRight(std::span<const std::byte> payload);

}  // namespace mountd::netns
