// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/mountd_allocations.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "agent/nomad/plugin/host_volumes.h"

namespace mountd::nomad {
namespace {

// The scope of this plugin's allocations.
constexpr char kScope[] = "nomad";

Result<void> OkIfGone(Result<void> result) {
  return !result && result.error().code == Code::kNotFound ? Ok() : result;
}

template <typename Value>
Result<void> WithoutValue(const Result<Value>& result) {
  return result ? Ok() : Result<void>(result.error());
}

Result<void> OkIfBusy(Result<void> result) {
  return !result && result.error().code == Code::kBusy ? Ok() : result;
}

bool IsHostVolume(const agent::MountStatus& mount) {
  return mount.source_type ==
         agent::SourceTypeName(agent::SourceType::kHostVolume);
}

bool IsBare(const agent::AllocationStatus& allocation) {
  return allocation.volumes.empty() && allocation.mounts.empty();
}

}  // namespace

Result<void> MountdAllocations::Prepare(const std::string& allocation) {
  const std::lock_guard lock(mutex_);
  return PrepareLocked(allocation);
}

Result<void> MountdAllocations::PrepareLocked(const std::string& allocation) {
  // mountd-cni and a CSI plugin of this user may have prepared it.
  const auto before = client_.GetAllocation(allocation);
  if (before || before.error().code != Code::kNotFound) {
    return WithoutValue(before);
  }
  agent::AllocationOptions options;
  options.scope = kScope;
  return WithoutValue(client_.PrepareAllocation(allocation, options));
}

Result<void> MountdAllocations::MountHostVolumes(driver::TaskConfig* config) {
  if (config->mounts.empty()) {
    return Ok();
  }
  const std::lock_guard lock(mutex_);
  const auto granted = client_.ListHostVolumes();
  // mountd 0.1.0 cannot say; its users have crun bind the path.
  if (!granted && granted.error().code == Code::kNotSupported) {
    return Ok();
  }
  MOUNTD_TRY(WithoutValue(granted));
  const std::vector<HostVolumeMount> found =
      HostVolumeMountsOf(*config, *granted);
  if (found.empty()) {
    return Ok();
  }
  std::vector<agent::BindMountSpec> specs;
  for (const HostVolumeMount& one : found) {
    specs.push_back(one.spec);
  }
  MOUNTD_TRY(PrepareLocked(config->allocation));
  const auto made = client_.BindMounts(config->allocation, specs);
  if (!made) {
    IgnoreBecauseBestEffort(ReleaseUnused(config->allocation));
    return made.error();
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    config->mounts[found[i].index].host_path = made->at(i).host_path;
  }
  return Ok();
}

Result<void> MountdAllocations::UnmountHostVolumes(
    const std::string& allocation, const std::string& task) {
  const std::lock_guard lock(mutex_);
  const auto found = client_.GetAllocation(allocation);
  if (!found) {
    return OkIfGone(found.error());
  }
  MOUNTD_ASSIGN(const std::set<std::string> running, find_tasks_(allocation));
  if (running.contains(task)) {
    return MakeError(Code::kBusy, "umount", task,
                     "a task of that name runs; stop the task first");
  }
  for (const agent::MountStatus& mount : found->mounts) {
    if (mount.task == task && IsHostVolume(mount)) {
      MOUNTD_TRY(OkIfGone(client_.Unmount(allocation, task, mount.name)));
    }
  }
  return running.empty() ? ReleaseUnused(allocation) : Ok();
}

Result<void> MountdAllocations::ReleaseIfBare(const std::string& allocation) {
  const std::lock_guard lock(mutex_);
  const auto found = client_.GetAllocation(allocation);
  if (!found) {
    return OkIfGone(found.error());
  }
  // Nomad makes a broken network once more under tasks that run.
  MOUNTD_ASSIGN(const std::set<std::string> running, find_tasks_(allocation));
  if (!running.empty()) {
    return Ok();
  }
  // Mounts that were in use when their tasks were destroyed.
  for (const agent::MountStatus& mount : found->mounts) {
    if (IsHostVolume(mount)) {
      MOUNTD_TRY(OkIfBusy(
          OkIfGone(client_.Unmount(allocation, mount.task, mount.name))));
    }
  }
  return ReleaseLocked(allocation);
}

// Nomad asks for the end of each network that it has asked for.
Result<void> MountdAllocations::ReleaseUnused(const std::string& allocation) {
  const auto found = client_.GetAllocation(allocation);
  return found && !found->networks.empty() ? Ok() : ReleaseLocked(allocation);
}

Result<void> MountdAllocations::ReleaseLocked(const std::string& allocation) {
  const auto found = client_.GetAllocation(allocation);
  if (!found || !IsBare(*found)) {
    return OkIfGone(WithoutValue(found));
  }
  return OkIfBusy(
      OkIfGone(WithoutValue(client_.ReleaseAllocation(allocation))));
}

}  // namespace mountd::nomad
