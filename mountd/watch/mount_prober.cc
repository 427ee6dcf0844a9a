// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/mount_prober.h"

#include <set>
#include <system_error>

#include "mountd/mounts/mount_request.h"

namespace mountd {
namespace {

using exec::MountHealth;

std::string ReasonOf(const exec::ProbeReply& reply) {
  switch (reply.health) {
    case MountHealth::kDead:
      return "statfs: " + std::generic_category().message(reply.sys_errno);
    case MountHealth::kHung:
      return "statfs did not answer in time";
    default:
      return "";
  }
}

}  // namespace

void MountProber::Start() {
  parts_.loop.After(pause_, [this] {
    parts_.strands.Submit("mount health", [this] {
      Round();
      parts_.loop.Post([this] { Start(); });
    });
  });
}

void MountProber::Round() {
  const Result<std::vector<MountRecord>> records =
      parts_.store.mounts.ListMounts();
  if (!records) {
    return;
  }
  for (const auto& [device, same] : ByDevice(*records)) {
    Probe(same);
  }
}

// Groups the mounts by file system, so that each file system gets one probe. A
// mount's file system never changes, so mountd asks for it once.
std::map<std::uint64_t, std::vector<MountRecord>> MountProber::ByDevice(
    const std::vector<MountRecord>& records) {
  std::map<std::uint64_t, std::vector<MountRecord>> all;
  std::set<std::uint64_t> there;
  for (const MountRecord& record : records) {
    if (record.state != MountRecordState::kAttached || !IsOnHost(record)) {
      continue;
    }
    auto known = devices_.find(record.mount_id);
    if (known == devices_.end()) {
      const Result<exec::MountState> state =
          parts_.executor.InspectTarget(TargetOf(record));
      if (!state || state->mount_id != record.mount_id) {
        continue;
      }
      known = devices_.emplace(record.mount_id, state->device).first;
    }
    there.insert(record.mount_id);
    all[known->second].push_back(record);
  }
  std::erase_if(devices_, [&](const auto& device) {
    return !there.contains(device.first);
  });
  parts_.healths.ForgetAllBut(there);
  return all;
}

void MountProber::Probe(const std::vector<MountRecord>& same) {
  for (const MountRecord& record : same) {
    const Result<exec::ProbeReply> reply =
        parts_.executor.ProbeMount({TargetOf(record), record.mount_id});
    if (!reply) {
      // The mount is gone, or no executor could be reached. This says nothing
      // about the file system.
      continue;
    }
    for (const MountRecord& each : same) {
      const MountHealth before =
          parts_.healths.Set(each.mount_id, reply->health);
      const bool good_at_first = before == MountHealth::kUnknown &&
                                 reply->health == MountHealth::kHealthy;
      if (before != reply->health && !good_at_first) {
        on_changed_(each, reply->health, ReasonOf(*reply));
      }
    }
    // One answer stands for the whole file system.
    return;
  }
}

}  // namespace mountd
