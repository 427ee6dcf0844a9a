// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Types.h>

#include <string>
#include <vector>

#include "dbus/dict/options.h"
#include "mountd/networks/network_request.h"

// Converts SetupNetwork's values to and from D-Bus.
namespace mountd::dbus {

// Label, host address, host port, container port, count, protocols.
using PortStruct = Value::Ports::value_type;

// Address, names.
using HostStruct = sdbus::Struct<std::string, std::vector<std::string>>;

Result<std::vector<PortMapping>> PortsFrom(
    const std::vector<PortStruct>& ports);

// Reads everything except the ports and the namespace. `reader` keeps the first
// problem with an option, for Finish. NotSupported if this node does not know
// the mode.
Result<NetworkRequest> NetworkRequestFrom(const std::string& mode,
                                          OptionReader& reader);

Dict ToDict(const NetworkStatus& status);

}  // namespace mountd::dbus
