// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/client/controller_types_to_dict.h"

#include <optional>

#include "agent/client/client_impl.h"
#include "agent/client/fields.h"

namespace mountd::agent {
namespace {

using Topologies = std::vector<std::map<std::string, std::string>>;

void AddTopologies(dbus::Dict& options, const char* key,
                   const Topologies& topologies) {
  if (!topologies.empty()) {
    options.emplace(key, dbus::Value(topologies));
  }
}

}  // namespace

void AddMap(dbus::Dict& options, const char* key,
            const std::map<std::string, std::string>& map) {
  if (!map.empty()) {
    options.emplace(key, dbus::Value(map));
  }
}

void AddBytes(dbus::Dict& options, const char* key, std::int64_t bytes) {
  if (bytes != 0) {
    options.emplace(key, dbus::Value(bytes));
  }
}

std::vector<dbus::Dict> ToWire(const std::vector<VolumeUsage>& usages) {
  std::vector<dbus::Dict> wire;
  wire.reserve(usages.size());
  for (const VolumeUsage& usage : usages) {
    wire.push_back(ToWire(usage));
  }
  return wire;
}

dbus::Dict ToWire(const VolumeCreation& creation) {
  dbus::Dict spec;
  AddBytes(spec, "required_bytes", creation.required_bytes);
  AddBytes(spec, "limit_bytes", creation.limit_bytes);
  spec.emplace("usages", dbus::Value(ToWire(creation.usages)));
  AddMap(spec, "parameters", creation.parameters);
  AddMap(spec, "mutable_parameters", creation.mutable_parameters);
  AddText(spec, "source_snapshot", creation.source_snapshot);
  AddText(spec, "source_volume", creation.source_volume);
  AddTopologies(spec, "requisite", creation.requisite);
  AddTopologies(spec, "preferred", creation.preferred);
  return spec;
}

Result<VolumeValidation> ToValidation(const dbus::Dict& map) {
  VolumeValidation validation;
  MOUNTD_TRY(Fields(map)
                 .Read("confirmed", validation.confirmed)
                 .Read("message", validation.message)
                 .status());
  return validation;
}

Result<PluginVolume> ToPluginVolume(const dbus::Dict& map) {
  PluginVolume volume;
  MOUNTD_TRY(Fields(map)
                 .Read("volume", volume.volume)
                 .Read("capacity_bytes", volume.capacity_bytes)
                 .Read("volume_context", volume.volume_context)
                 .Read("source_snapshot", volume.source_snapshot)
                 .Read("source_volume", volume.source_volume)
                 .Read("topology", volume.topology)
                 .Read("published_node_ids", volume.published_node_ids)
                 .Read("abnormal", volume.abnormal)
                 .Read("condition", volume.condition)
                 .status());
  volume.has_condition = map.contains("abnormal");
  return volume;
}

Result<PluginVolumePage> ToPluginVolumePage(const dbus::Dict& map) {
  PluginVolumePage page;
  std::vector<dbus::Dict> volumes;
  MOUNTD_TRY(Fields(map)
                 .Read("volumes", volumes)
                 .Read("next_token", page.next_token)
                 .status());
  MOUNTD_ASSIGN(page.volumes, ToList(volumes, &ToPluginVolume));
  return page;
}

Result<ControllerExpansion> ToControllerExpansion(const dbus::Dict& map) {
  ControllerExpansion expansion;
  MOUNTD_TRY(
      Fields(map)
          .Read("capacity_bytes", expansion.capacity_bytes)
          .Read("node_expansion_required", expansion.node_expansion_required)
          .status());
  return expansion;
}

Result<PluginCapacity> ToCapacity(const dbus::Dict& map) {
  PluginCapacity capacity;
  MOUNTD_TRY(
      Fields(map)
          .Read("available_bytes", capacity.available_bytes)
          .ReadOptional("maximum_volume_bytes", capacity.maximum_volume_bytes)
          .ReadOptional("minimum_volume_bytes", capacity.minimum_volume_bytes)
          .status());
  return capacity;
}

}  // namespace mountd::agent
