// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "csi-node/types/csi_values.h"
#include "mountd/plan/values.h"
#include "mountd/store/volume_records.h"

// The values that Volumes takes and returns, and the events that Volumes
// reports.
namespace mountd::csi {

struct PublishSpec {
  std::string allocation;
  std::string alias;
  std::string plugin;
  std::string volume_id;
  bool read_only = false;
  VolumeCapability capability;
  StringMap publish_context;
  StringMap volume_context;
  std::uint32_t uid = 0;  // the allocation's owner
};

struct PublishedVolume {
  std::string host_path;
  bool read_only = false;
  PublicationRecord record;
};

// Returns the rule that a task needs for its block device, as OCI runtimes and
// Docker's --device-cgroup-rule write it: "b 7:3 rwm", read-only "b 7:3 r".
std::string DeviceRuleOf(const PublishedVolume& volume);

std::string_view VolumeStateName(VolumeState state);
std::string_view PublicationStateName(PublicationState state);

// Called from workers, once for each change.
struct VolumeEvents {
  // A published volume no longer answers, or answers again. `health` is
  // kHealthy or kDead.
  std::function<void(const VolumeRecord&, exec::MountHealth health,
                     const std::string& reason)>
      on_health = [](const auto&, auto, const auto&) {};
  // The plugin reports another condition of a published volume than before.
  std::function<void(const VolumeRecord&, const VolumeCondition&)>
      on_condition = [](const auto&, const auto&) {};
  // Staging the volume again needs secrets or mount flags, which no store
  // holds. The agent has to call PublishVolume with them again.
  std::function<void(const VolumeRecord&, const PublicationRecord&)>
      on_secrets_needed = [](const auto&, const auto&) {};
  // Returns whether mountd may stage or publish a volume for the allocation
  // without a call. False while the allocation is fenced. Asked before and
  // after each such work.
  std::function<bool(const std::string& allocation)> may_restore =
      [](const auto&) { return true; };
  // FinishDeparted has more to do.
  std::function<void()> on_owed = [] {};
  // ListUnsettled has one more entry.
  std::function<void()> on_unsettled = [] {};
};

// Says how a user of a volume leaves it.
struct Leaving {
  std::uint64_t cgroup = 0;    // the allocation's; 0: none, or not known
  bool ignores_tasks = false;  // leaves even if its tasks have copies
  // The caller has just searched the node for copies.
  bool was_looked_for = false;
};

}  // namespace mountd::csi
