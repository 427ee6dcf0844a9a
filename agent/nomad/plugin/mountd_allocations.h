// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <set>
#include <string>
#include <utility>

#include "agent/client.h"
#include "agent/driver/oci/oci_driver.h"
#include "agent/nomad/plugin/driver_source.h"
#include "agent/nomad/plugin/lent_clients.h"
#include "mountd/base/worker_pool.h"

namespace mountd::nomad {

// The allocations at mountd. Any thread; one call of an allocation at a time,
// so that no release of an ended task meets the start of the next one. Calls of
// different allocations run side by side, because one of them may wait for a
// file server that is gone.
class MountdAllocations final : public Allocations {
 public:
  // Returns the names of the allocation's tasks that run now. mountd does not
  // look for the copies of a host volume that a task outside of the
  // allocation's cgroup has.
  using FindTasks =
      std::function<Result<std::set<std::string>>(const std::string&)>;

  // Nomad's client waits for a plugin that starts.
  static constexpr std::chrono::seconds kSweep{20};

  MountdAllocations(LentClients::Connect connect, FindTasks find_tasks)
      : find_tasks_(std::move(find_tasks)), clients_(std::move(connect)) {}

  Result<void> Prepare(const std::string& allocation) override;
  Result<void> MountHostVolumes(driver::TaskConfig* config) override;
  Result<void> UnmountHostVolumes(const std::string& allocation,
                                  const std::string& task) override;
  Result<void> ReleaseIfBare(const std::string& allocation) override;

  // Releases what StartTask of a killed plugin has left: host volumes of tasks
  // that are not in `recorded`, and then allocations of this plugin that are
  // empty. Leaves allocations with a network, which Nomad ends. Waits for no
  // file server; the next start releases what is in use now. Called before the
  // first StartTask. A StartTask of an older plugin that still runs fails then,
  // because mountd looks at the task's mounts before it starts. Begins with no
  // further allocation at `end`, and the next start goes on.
  void ReleaseAbandoned(
      const std::set<driver::TaskName>& recorded,
      LentClients::Clock::time_point end = LentClients::Clock::now() + kSweep);

 private:
  Result<agent::AllocationStatus> Find(const std::string& allocation);
  Result<void> Unmount(const std::string& allocation,
                       const agent::MountStatus& mount);
  Result<void> PrepareLocked(const std::string& allocation);
  Result<void> ReleaseLocked(const std::string& allocation,
                             agent::OnlyIf only_if);

  Result<void> ReleaseAbandonedOf(const std::string& allocation,
                                  const std::set<driver::TaskName>& recorded);

  const FindTasks find_tasks_;
  KeyedLocks locks_;  // of allocations
  LentClients clients_;
};

}  // namespace mountd::nomad
