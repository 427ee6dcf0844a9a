// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sdbus-c++/sdbus-c++.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/types.h"
#include "dbus/value.h"
#include "mountd/base/result.h"

// Internal to agent/: between the contract's D-Bus types and types.h. A key
// that an answer lacks leaves its field at the default, one this release does
// not know is passed over; one of another type than the contract's is Internal.
namespace mountd::agent {

using VariantMap = std::map<std::string, dbus::Value>;
using WirePort =
    sdbus::Struct<std::string, std::uint16_t, std::uint16_t, std::string>;

std::vector<WirePort> ToWire(const std::vector<Port>& ports);
VariantMap ToWire(const VolumeUsage& usage);
std::string ToWire(SourceType type);
std::string ToWire(Propagation propagation);
std::string ToWire(PluginType type);
std::string ToWire(UnmountMode mode);

// The value of "host_path" alone.
Result<std::string> ToHostPath(const VariantMap& map);
Result<NetworkStatus> ToNetwork(const VariantMap& map);
Result<PublishedVolume> ToPublished(const VariantMap& map);
Result<InboxConfig> ToInboxConfig(const VariantMap& map);
Result<ReplacedMount> ToReplacedMount(const VariantMap& map);
Result<RepairedMount> ToRepairedMount(const VariantMap& map);
Result<MountConfig> ToMountConfig(const VariantMap& map);
Result<Receipt> ToReceipt(const VariantMap& map);
Result<AllocationStatus> ToAllocation(const VariantMap& map);
Result<Holders> ToHolders(const VariantMap& map);
Result<TaskReport> ToTaskReport(const VariantMap& map);
Result<StagedVolume> ToStagedVolume(const VariantMap& map);
Result<PluginRegistration> ToRegistration(const VariantMap& map);
Result<PluginStatus> ToPlugin(const VariantMap& map);
Result<TreeResult> ToTreeResult(const VariantMap& map);
Result<Capabilities> ToCapabilities(const VariantMap& map);

// Each element of an answer's array by one of the functions above.
template <typename T>
Result<std::vector<T>> ToList(const std::vector<VariantMap>& maps,
                              Result<T> (*convert)(const VariantMap&)) {
  std::vector<T> list;
  list.reserve(maps.size());
  for (const VariantMap& map : maps) {
    MOUNTD_ASSIGN(T element, convert(map));
    list.push_back(std::move(element));
  }
  return list;
}

Timestamp ToTimestamp(std::uint64_t microseconds);

}  // namespace mountd::agent
