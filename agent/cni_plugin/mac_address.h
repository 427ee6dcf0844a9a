// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/cni_plugin/failure.h"

namespace mountd::cni_plugin {

// "10.88.0.9": the IPv4 address whose link has that MAC address
// (netns::LinkMac). kInvalidConfig if it is none, or one that mountd gives no
// link.
Outcome<std::string> AddressOfMac(const std::string& mac);

}  // namespace mountd::cni_plugin
