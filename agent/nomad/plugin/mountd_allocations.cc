// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/mountd_allocations.h"

#include <unistd.h>

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

bool Is(const agent::AllocationStatus& allocation, agent::OnlyIf what) {
  return allocation.volumes.empty() && allocation.mounts.empty() &&
         (what != agent::OnlyIf::kEmpty || allocation.networks.empty());
}

}  // namespace

Result<void> MountdAllocations::Prepare(const std::string& allocation) {
  const KeyedLocks::Guard guard = locks_.Lock(allocation);
  return PrepareLocked(allocation);
}

Result<void> MountdAllocations::PrepareLocked(const std::string& allocation) {
  // mountd-cni and a CSI plugin of this user may have prepared it.
  const auto before = Find(allocation);
  if (before || before.error().code != Code::kNotFound) {
    return WithoutValue(before);
  }
  agent::AllocationOptions options;
  options.scope = kScope;
  return WithoutValue(clients_.Call([&](agent::Client& client) {
    return client.PrepareAllocation(allocation, options);
  }));
}

Result<agent::AllocationStatus> MountdAllocations::Find(
    const std::string& allocation) {
  return clients_.Call(
      [&](agent::Client& client) { return client.GetAllocation(allocation); });
}

Result<void> MountdAllocations::Unmount(const std::string& allocation,
                                        const agent::MountStatus& mount) {
  return OkIfGone(clients_.Call([&](agent::Client& client) {
    return client.Unmount(allocation, mount.task, mount.name);
  }));
}

Result<void> MountdAllocations::MountHostVolumes(driver::TaskConfig* config) {
  if (config->mounts.empty()) {
    return Ok();
  }
  const KeyedLocks::Guard guard = locks_.Lock(config->allocation);
  const auto granted = clients_.Call(
      [](agent::Client& client) { return client.ListHostVolumes(); });
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
  const auto made = clients_.Call([&](agent::Client& client) {
    return client.BindMounts(config->allocation, specs);
  });
  if (!made) {
    IgnoreBecauseBestEffort(
        ReleaseLocked(config->allocation, agent::OnlyIf::kEmpty));
    return made.error();
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    driver::Mount& mount = config->mounts[found[i].index];
    mount.host_path = made->at(i).host_path;
    mount.is_mountds = true;
  }
  return Ok();
}

Result<void> MountdAllocations::UnmountHostVolumes(
    const std::string& allocation, const std::string& task) {
  const KeyedLocks::Guard guard = locks_.Lock(allocation);
  const auto found = Find(allocation);
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
      MOUNTD_TRY(Unmount(allocation, mount));
    }
  }
  // Nomad asks for the end of each network that it has asked for.
  return running.empty() ? ReleaseLocked(allocation, agent::OnlyIf::kEmpty)
                         : Ok();
}

Result<void> MountdAllocations::ReleaseIfBare(const std::string& allocation) {
  const KeyedLocks::Guard guard = locks_.Lock(allocation);
  const auto found = Find(allocation);
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
      MOUNTD_TRY(OkIfBusy(Unmount(allocation, mount)));
    }
  }
  return ReleaseLocked(allocation, agent::OnlyIf::kUnused);
}

// Keeps an allocation that is not as `only_if` says. A CSI plugin of this user
// publishes volumes in it at any moment, so mountd looks and releases in one.
Result<void> MountdAllocations::ReleaseLocked(const std::string& allocation,
                                              agent::OnlyIf only_if) {
  const auto found = Find(allocation);
  if (!found || !Is(*found, only_if)) {
    return OkIfGone(WithoutValue(found));
  }
  const auto release = [&](agent::OnlyIf asked) {
    return WithoutValue(clients_.Call([&](agent::Client& client) {
      return client.ReleaseAllocation(allocation, agent::OnTasks::kRefuse,
                                      asked);
    }));
  };
  Result<void> released = release(only_if);
  // mountd 0.1.0 has no such option.
  if (!released && released.error().code == Code::kNotSupported) {
    released = release(agent::OnlyIf::kAny);
  }
  return OkIfBusy(OkIfGone(std::move(released)));
}

void MountdAllocations::ReleaseAbandoned(
    const std::set<driver::TaskName>& recorded,
    LentClients::Clock::time_point end) {
  const auto all = clients_.CallOnce(
      [](agent::Client& client) { return client.ListAllocations(); });
  if (!all) {
    return;
  }
  for (const agent::AllocationEntry& one : *all) {
    if (LentClients::Clock::now() >= end) {
      return;
    }
    if (one.scope == kScope && one.uid == ::geteuid()) {
      IgnoreBecauseBestEffort(ReleaseAbandonedOf(one.id, recorded));
    }
  }
}

Result<void> MountdAllocations::ReleaseAbandonedOf(
    const std::string& allocation, const std::set<driver::TaskName>& recorded) {
  const KeyedLocks::Guard guard = locks_.Lock(allocation);
  MOUNTD_ASSIGN(const agent::AllocationStatus found,
                clients_.CallOnce([&](agent::Client& client) {
                  return client.GetAllocation(allocation);
                }));
  std::vector<agent::MountStatus> abandoned;
  for (const agent::MountStatus& mount : found.mounts) {
    if (IsHostVolume(mount) && !recorded.contains({allocation, mount.task})) {
      abandoned.push_back(mount);
    }
  }
  // An empty one may be of a task that has a record and no mount.
  const auto first = recorded.lower_bound({allocation, ""});
  const bool has_record = first != recorded.end() && first->first == allocation;
  if (!found.networks.empty() || (has_record && abandoned.empty())) {
    return Ok();
  }
  // The last check, because it reads the mounts of all processes.
  MOUNTD_ASSIGN(const std::set<std::string> running, find_tasks_(allocation));
  if (!running.empty()) {
    return Ok();
  }
  for (const agent::MountStatus& mount : abandoned) {
    MOUNTD_TRY(clients_.CallOnce([&](agent::Client& client) {
      return client.Unmount(allocation, mount.task, mount.name);
    }));
  }
  if (has_record) {
    return Ok();
  }
  return WithoutValue(clients_.CallOnce([&](agent::Client& client) {
    return client.ReleaseAllocation(allocation, agent::OnTasks::kRefuse,
                                    agent::OnlyIf::kEmpty);
  }));
}

}  // namespace mountd::nomad
