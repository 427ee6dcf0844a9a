// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/config.h"
#include "mountd/config_reader.h"

namespace mountd {

// [network.<name>].
Result<NetworkConfig> ReadNetwork(const ConfigReader& reader,
                                  const toml::table& table,
                                  const std::string& where);

// [cni]. Either list that is left out is Nomad's.
Result<void> ReadCni(const ConfigReader& reader, const toml::table& table,
                     CniConfig& cni);

// [firewall].
Result<void> ReadFirewall(const ConfigReader& reader, const toml::table& table,
                          FirewallConfig& firewall);

// An address that two networks had would be one link's and another's.
Result<void> CheckNetworksAreApart(const ConfigReader& reader,
                                   const toml::table& root,
                                   const Config& config);

}  // namespace mountd
