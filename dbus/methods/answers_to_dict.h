// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/Types.h>

#include <string>
#include <vector>

#include "dbus/dict/options.h"
#include "mountd/operations/operations.h"
#include "mountd/service/services.h"

// Converts the API's values to and from D-Bus, as org.mountd1.Manager.xml
// describes them.
namespace mountd::dbus {

using AllocationStruct =
    sdbus::Struct<std::string, std::uint32_t, std::string, std::string>;
using OwedStruct = sdbus::Struct<std::uint64_t, std::string, std::string,
                                 std::string, std::uint32_t, std::uint64_t>;
using StatisticsStruct =
    sdbus::Struct<std::string, std::uint64_t, std::uint64_t, std::uint64_t,
                  std::uint64_t>;

// `usage` of PublishVolume.
Result<void> ReadUsage(const Dict& usage, csi::PublishSpec& spec);
// Checks the bounds of the CSI spec ("Size Limits"): 4 KiB a map, 128 bytes a
// key.
Result<void> CheckContext(const std::string& what, const StringMap& map);

Dict ToDict(const csi::PublishedVolume& volume);
Dict ToDict(const csi::VolumeStats& stats);
Dict ToDict(const MountConfig& config);
Dict ToDict(const Mounts::Replaced& replaced);
Dict ToDict(const LeaseRecord& lease);
Dict ToDict(const FenceRecord& fence);
Dict ToDict(const ReceiptRecord& receipt);
Dict ToDict(const AllocationStatus& status);
Dict ToDict(const VolumeStatus& status);
Dict ToDict(const csi::PluginRegistration& registration);
Dict ToDict(const csi::PluginInstance& instance);
Dict ToDict(const csi::PluginStatus& status);
Dict ToDict(const csi::ControllerVolume& volume);
Dict ToDict(const csi::ListedVolume& listed);
Dict ToDict(const csi::VolumePage& page);
Dict ToDict(const csi::Validation& validation);
Dict ToDict(const csi::ControllerExpansion& expansion);
Dict ToDict(const csi::Capacity& capacity);
Dict ToDict(const HolderReport& report);
Dict ToDict(const HandedOutReport& report);
Dict ToDict(const TaskReport& report);
Dict ToDict(const ReconcileEntry& entry);
Dict ToDict(const Capabilities& capabilities);
// Adds "mount_namespace" if mountd has a mount namespace of its own. An empty
// path means that host paths are in the host's namespace, and adds nothing.
Dict WithNamespace(const std::string& path, Dict dict);
Dict ToDict(const OperationStatus& status);

// By network: how many addresses it has, and how many of them are free.
using AddressesMap =
    std::map<std::string, sdbus::Struct<std::uint32_t, std::uint32_t>>;
AddressesMap ToAddresses(const std::map<std::string, Networks::Usage>& usage);

std::string AllocationStateName(AllocationState state);

}  // namespace mountd::dbus
