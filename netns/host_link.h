// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <span>

namespace mountd::netns {

// Whether an allocation's host end is, by the payload of an RTM_NEWLINK on it,
// as it was made: up, answering no ARP, with the gateways' MAC, and with the
// route_localnet that host ports of 127.0.0.1 need.
bool IsHostLinkRight(std::span<const std::byte> payload);

}  // namespace mountd::netns
