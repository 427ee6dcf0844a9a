// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <toml++/toml.h>

#include <string>

#include "mountd/config/config.h"
#include "mountd/config/config_reader.h"

namespace mountd {

// Reads [plugin.<name>].
Result<PluginConfig> ReadPlugin(const ConfigReader& reader,
                                const toml::table& table,
                                const std::string& where);

// Returns why a plugin cannot be declared under this name; "" if it can.
std::string FaultOfPluginName(const std::string& name);

}  // namespace mountd
