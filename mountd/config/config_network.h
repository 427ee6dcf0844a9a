// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/config/config.h"
#include "mountd/config/config_reader.h"

namespace mountd {

// Reads [network.<name>].
Result<NetworkConfig> ReadNetwork(const ConfigReader& reader,
                                  const toml::table& table,
                                  const std::string& where);

// Reads [cni]. A list that is absent gets the directories that Nomad uses.
Result<void> ReadCni(const ConfigReader& reader, const toml::table& table,
                     CniConfig& cni);

// Reads [firewall].
Result<void> ReadFirewall(const ConfigReader& reader, const toml::table& table,
                          FirewallConfig& firewall);

// Checks that no two networks share an address, because an address must lead to
// one link.
Result<void> CheckNetworksAreApart(const ConfigReader& reader,
                                   const toml::table& root,
                                   const Config& config);

}  // namespace mountd
