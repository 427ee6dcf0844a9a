// SPDX-License-Identifier: LGPL-2.1-or-later
#include <utility>

#include "dbus/methods/answers_to_dict.h"

// Converts the answers of plugins' controllers.
namespace mountd::dbus {

Dict ToDict(const csi::ControllerVolume& volume) {
  return {{"volume", Value(volume.volume_id)},
          {"capacity_bytes", Value(volume.capacity_bytes)},
          {"volume_context", Value(volume.volume_context)},
          {"source_snapshot", Value(volume.source_snapshot)},
          {"source_volume", Value(volume.source_volume)},
          {"topology", Value(volume.topology)}};
}

Dict ToDict(const csi::ListedVolume& listed) {
  Dict dict = ToDict(listed.volume);
  dict.emplace("published_node_ids", Value(listed.published_node_ids));
  if (listed.condition) {
    dict.emplace("abnormal", Value(listed.condition->abnormal));
    dict.emplace("condition", Value(listed.condition->message));
  }
  return dict;
}

Dict ToDict(const csi::VolumePage& page) {
  std::vector<Dict> volumes;
  for (const csi::ListedVolume& listed : page.volumes) {
    volumes.push_back(ToDict(listed));
  }
  return {{"volumes", Value(volumes)}, {"next_token", Value(page.next_token)}};
}

Dict ToDict(const csi::Validation& validation) {
  return {{"confirmed", Value(validation.confirmed)},
          {"message", Value(validation.message)}};
}

Dict ToDict(const csi::ControllerExpansion& expansion) {
  return {
      {"capacity_bytes", Value(expansion.capacity_bytes)},
      {"node_expansion_required", Value(expansion.node_expansion_required)}};
}

Dict ToDict(const csi::Capacity& capacity) {
  Dict dict = {{"available_bytes", Value(capacity.available_bytes)}};
  if (capacity.maximum_volume_bytes) {
    dict.emplace("maximum_volume_bytes", Value(*capacity.maximum_volume_bytes));
  }
  if (capacity.minimum_volume_bytes) {
    dict.emplace("minimum_volume_bytes", Value(*capacity.minimum_volume_bytes));
  }
  return dict;
}

}  // namespace mountd::dbus
