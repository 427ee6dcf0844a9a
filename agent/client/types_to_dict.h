// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/sdbus-c++.h>

#include <cstdint>
#include <string>
#include <vector>

#include "agent/types.h"
#include "dbus/dict/value.h"
#include "mountd/base/result.h"

// Internal to agent/. Converts between the contract's D-Bus types and types.h.
// A key that an answer lacks leaves its field at the default. Keys that this
// release does not know are ignored. Internal if a value has another type than
// the contract says.
namespace mountd::agent {

// Label, host address, host port, container port, count, protocols.
using WirePort = dbus::Value::Ports::value_type;

std::vector<WirePort> ToWire(const std::vector<Port>& ports);
// Converts the options only.
dbus::Dict ToWire(const NetworkSpec& spec);
dbus::Dict ToWire(const VolumeUsage& usage);
std::string ToWire(SourceType type);
std::string ToWire(Propagation propagation);
std::string ToWire(PluginType type);
std::string ToWire(UnmountMode mode);
// Returns the option "tasks", or nothing for kRefuse, which is the default.
dbus::Dict ToOptions(OnTasks on_tasks);

// Returns the value of "host_path".
Result<std::string> ToHostPath(const dbus::Dict& map);
Result<NetworkStatus> ToNetwork(const dbus::Dict& map);
Result<PublishedVolume> ToPublished(const dbus::Dict& map);
Result<VolumeStats> ToVolumeStats(const dbus::Dict& map);
Result<InboxConfig> ToInboxConfig(const dbus::Dict& map);
Result<ReplacedMount> ToReplacedMount(const dbus::Dict& map);
Result<RepairedMount> ToRepairedMount(const dbus::Dict& map);
Result<MountConfig> ToMountConfig(const dbus::Dict& map);
Result<Receipt> ToReceipt(const dbus::Dict& map);
Result<AllocationStatus> ToAllocation(const dbus::Dict& map);
Result<Holders> ToHolders(const dbus::Dict& map);
Result<HandedOutList> ToHandedOutList(const dbus::Dict& map);
Result<ReconciledAllocation> ToReconciled(const dbus::Dict& map);
Result<TaskReport> ToTaskReport(const dbus::Dict& map);
Result<StagedVolume> ToStagedVolume(const dbus::Dict& map);
Result<PluginRegistration> ToRegistration(const dbus::Dict& map);
Result<PluginStatus> ToPlugin(const dbus::Dict& map);
Result<TreeResult> ToTreeResult(const dbus::Dict& map);
Result<Capabilities> ToCapabilities(const dbus::Dict& map);
Result<OperationStatus> ToOperation(const dbus::Dict& map);

// Converts each element of an answer's array by one of the functions above.
template <typename T>
Result<std::vector<T>> ToList(const std::vector<dbus::Dict>& maps,
                              Result<T> (*convert)(const dbus::Dict&)) {
  std::vector<T> list;
  list.reserve(maps.size());
  for (const dbus::Dict& map : maps) {
    MOUNTD_ASSIGN(T element, convert(map));
    list.push_back(std::move(element));
  }
  return list;
}

Timestamp ToTimestamp(std::uint64_t microseconds);

}  // namespace mountd::agent
