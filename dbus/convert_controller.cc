// SPDX-License-Identifier: LGPL-2.1-or-later
#include <utility>

#include "dbus/convert.h"

// What plugins' controllers answer.
namespace mountd::dbus {
namespace {

template <typename T>
Value V(T value) {
  return Value(std::move(value));
}

}  // namespace

Dict ToDict(const csi::ControllerVolume& volume) {
  return {{"volume", V(volume.volume_id)},
          {"capacity_bytes", V(volume.capacity_bytes)},
          {"volume_context", V(volume.volume_context)},
          {"source_snapshot", V(volume.source_snapshot)},
          {"source_volume", V(volume.source_volume)},
          {"topology", V(volume.topology)}};
}

Dict ToDict(const csi::ListedVolume& listed) {
  Dict dict = ToDict(listed.volume);
  dict.emplace("published_node_ids", V(listed.published_node_ids));
  if (listed.condition) {
    dict.emplace("abnormal", V(listed.condition->abnormal));
    dict.emplace("condition", V(listed.condition->message));
  }
  return dict;
}

Dict ToDict(const csi::VolumePage& page) {
  std::vector<Dict> volumes;
  for (const csi::ListedVolume& listed : page.volumes) {
    volumes.push_back(ToDict(listed));
  }
  return {{"volumes", V(volumes)}, {"next_token", V(page.next_token)}};
}

Dict ToDict(const csi::Validation& validation) {
  return {{"confirmed", V(validation.confirmed)},
          {"message", V(validation.message)}};
}

Dict ToDict(const csi::ControllerExpansion& expansion) {
  return {{"capacity_bytes", V(expansion.capacity_bytes)},
          {"node_expansion_required", V(expansion.node_expansion_required)}};
}

Dict ToDict(const csi::Capacity& capacity) {
  Dict dict = {{"available_bytes", V(capacity.available_bytes)}};
  if (capacity.maximum_volume_bytes) {
    dict.emplace("maximum_volume_bytes", V(*capacity.maximum_volume_bytes));
  }
  if (capacity.minimum_volume_bytes) {
    dict.emplace("minimum_volume_bytes", V(*capacity.minimum_volume_bytes));
  }
  return dict;
}

}  // namespace mountd::dbus
