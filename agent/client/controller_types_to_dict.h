// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/client/types_to_dict.h"
#include "agent/types_controller.h"

// Does the same as types_to_dict.h, for the calls of plugins' controllers.
namespace mountd::agent {

// Add the option `key`, unless the value is empty, or 0.
void AddMap(dbus::Dict& options, const char* key,
            const std::map<std::string, std::string>& map);
void AddBytes(dbus::Dict& options, const char* key, std::int64_t bytes);

std::vector<dbus::Dict> ToWire(const std::vector<VolumeUsage>& usages);
dbus::Dict ToWire(const VolumeCreation& creation);

Result<VolumeValidation> ToValidation(const dbus::Dict& map);
Result<PluginVolume> ToPluginVolume(const dbus::Dict& map);
Result<PluginVolumePage> ToPluginVolumePage(const dbus::Dict& map);
Result<ControllerExpansion> ToControllerExpansion(const dbus::Dict& map);
Result<PluginCapacity> ToCapacity(const dbus::Dict& map);

}  // namespace mountd::agent
