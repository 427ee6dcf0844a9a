// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/mountd-cni/failure.h"

namespace mountd::cni_plugin {

// Returns the IPv4 address, as "10.88.0.9", whose link has that MAC address
// (netns::LinkMac). kInvalidConfig if `mac` is no MAC address, or mountd gives
// no link that MAC address.
Outcome<std::string> AddressOfMac(const std::string& mac);

}  // namespace mountd::cni_plugin
