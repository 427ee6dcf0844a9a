// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Conditions of volumes, as their plugins report them.
#include <algorithm>
#include <utility>

#include "csi-node/node/volume_requests.h"
#include "csi-node/node/volumes.h"
#include "mountd/base/current_user.h"

namespace mountd::csi {
namespace {

bool ReportsConditions(const PluginInstance& plugin) {
  return Offers(plugin.capabilities, NodeRpc::kGetVolumeHealth) ||
         (Offers(plugin.capabilities, NodeRpc::kGetVolumeStats) &&
          Offers(plugin.capabilities, NodeRpc::kVolumeCondition));
}

// Whether a plugin reports conditions. Unknown while the plugin is away,
// because another instance may offer something else.
enum class Reporting { kUnknown, kNo, kYes };

Reporting ReportingOf(const std::optional<PluginStatus>& plugin) {
  if (plugin && ReportsConditions(*plugin)) {
    return Reporting::kYes;
  }
  return plugin && plugin->state == PluginState::kHealthy ? Reporting::kNo
                                                          : Reporting::kUnknown;
}

}  // namespace

Result<std::vector<ReportingVolume>> Volumes::ListReporting() {
  MOUNTD_ASSIGN(const std::vector<VolumeRecord> volumes,
                store_.volumes.ListVolumes());
  std::map<std::string, Reporting> plugins;
  std::set<VolumeKey> kept;
  std::vector<ReportingVolume> all;
  for (const VolumeRecord& volume : volumes) {
    const auto [plugin, is_new] =
        plugins.try_emplace(volume.plugin, Reporting::kUnknown);
    if (is_new) {
      plugin->second = ReportingOf(plugins_.Get(volume.plugin));
    }
    if (plugin->second == Reporting::kYes) {
      all.push_back({volume.key, volume.plugin, volume.uid});
    }
    if (plugin->second != Reporting::kNo) {
      kept.insert(volume.key);
    }
  }
  conditions_.ForgetAllBut(kept);
  return all;
}

// Returns the volume and one of its publications; nothing if it has none.
std::optional<Volumes::InUse> Volumes::FindReporting(const VolumeKey& key) {
  const Result<std::optional<VolumeRecord>> volume =
      store_.volumes.GetVolume(key);
  const Result<std::vector<PublicationRecord>> users =
      store_.volumes.UsersOf(key);
  if (!volume || !*volume || !users) {
    return std::nullopt;
  }
  const auto user =
      std::find_if(users->begin(), users->end(), [](const auto& one) {
        return one.state == PublicationState::kPublished;
      });
  return user == users->end() ? std::nullopt
                              : std::optional<InUse>({*user, **volume});
}

// Prefers NodeGetVolumeHealth, which CSI has from 1.13 on.
RpcResult<std::optional<VolumeCondition>> Volumes::CallForCondition(
    const InUse& use, const Plugins::Session& session) {
  const VolumePaths paths = PathsOf(use.volume, use.publication, session);
  const Clock::time_point deadline =
      Clock::now() + config_.timeouts.probe_timeout;
  if (Offers(session.status.capabilities, NodeRpc::kGetVolumeHealth)) {
    RpcResult<VolumeCondition> health =
        client_.NodeGetVolumeHealth(session.channel, use.volume.volume_id,
                                    paths.target, paths.staging, deadline);
    if (!health) {
      return std::move(health).error();
    }
    return std::optional<VolumeCondition>(*std::move(health));
  }
  RpcResult<VolumeStats> stats =
      client_.NodeGetVolumeStats(session.channel, use.volume.volume_id,
                                 paths.target, paths.staging, deadline);
  if (!stats) {
    return std::move(stats).error();
  }
  return std::move(stats->condition);
}

bool Volumes::AskCondition(const VolumeKey& key) {
  const std::optional<InUse> use = FindReporting(key);
  // Somebody who holds the volume's lock calls the plugin about this volume
  // now. The next round asks for the condition again.
  if (!use || volumes_.IsHeld(key.str())) {
    return true;
  }
  const Result<Plugins::Session> session = plugins_.Use(use->volume.plugin);
  if (!session || !ReportsConditions(session->status)) {
    return true;
  }
  const CurrentUser owner(use->volume.uid);
  if (!slots_.HasRoom(use->volume.plugin)) {
    return true;
  }
  const RpcSlots::Slot slot(slots_, use->volume.plugin);
  const RpcResult<std::optional<VolumeCondition>> answer =
      CallForCondition(*use, *session);
  if (!answer) {
    return answer.error().code != RpcCode::kDeadlineExceeded;
  }
  const std::optional<VolumeCondition>& condition = *answer;
  // Another call may have changed the volume meanwhile. Then the answer may be
  // about a removed volume, so mountd waits for the next answer.
  if (condition && !volumes_.IsHeld(key.str()) && FindReporting(key) &&
      conditions_.Set(key, *condition)) {
    events_.on_condition(use->volume, *condition);
  }
  return true;
}

}  // namespace mountd::csi
