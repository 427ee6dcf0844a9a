// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/output/json.h"

namespace mountd::agent {

Json ToJson(const StagedVolume& volume) {
  Json users = Json::array();
  for (const VolumeUser& user : volume.users) {
    users.push_back({{"allocation", user.allocation}, {"alias", user.alias}});
  }
  return {{"plugin", volume.plugin},
          {"volume", volume.volume},
          {"state", volume.state},
          {"attachment_mode", volume.attachment_mode},
          {"access_mode", volume.access_mode},
          {"fs_type", volume.fs_type},
          {"needs_secrets", volume.needs_secrets},
          {"users", std::move(users)}};
}

Json ToJson(const VolumeStats& stats) {
  Json usage = Json::array();
  for (const VolumeUse& use : stats.usage) {
    usage.push_back({{"unit", use.unit},
                     {"total", use.total},
                     {"used", use.used},
                     {"available", use.available}});
  }
  Json json = {{"usage", std::move(usage)}};
  if (stats.has_condition) {
    json["abnormal"] = stats.abnormal;
    json["condition"] = stats.condition;
  }
  return json;
}

Json ToJson(const PluginVolume& volume) {
  Json json = {{"volume", volume.volume},
               {"capacity_bytes", volume.capacity_bytes},
               {"volume_context", volume.volume_context},
               {"source_snapshot", volume.source_snapshot},
               {"source_volume", volume.source_volume},
               {"topology", volume.topology},
               {"published_node_ids", volume.published_node_ids}};
  if (volume.has_condition) {
    json["abnormal"] = volume.abnormal;
    json["condition"] = volume.condition;
  }
  return json;
}

Json ToJson(const Snapshot& snapshot) {
  return {{"snapshot", snapshot.snapshot},
          {"source_volume", snapshot.source_volume},
          {"size_bytes", snapshot.size_bytes},
          {"creation_time",
           snapshot.creation_time
               ? Json(snapshot.creation_time->time_since_epoch().count())
               : Json()},
          {"ready_to_use", snapshot.ready_to_use},
          {"group_snapshot", snapshot.group_snapshot}};
}

}  // namespace mountd::agent
