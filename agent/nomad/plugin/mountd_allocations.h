// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>

#include "agent/client.h"
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

  MountdAllocations(LentClients::Connect connect, FindTasks find_tasks)
      : find_tasks_(std::move(find_tasks)), clients_(std::move(connect)) {}

  Result<void> Prepare(const std::string& allocation) override;
  Result<void> MountHostVolumes(driver::TaskConfig* config) override;
  Result<void> UnmountHostVolumes(const std::string& allocation,
                                  const std::string& task) override;
  Result<void> ReleaseIfBare(const std::string& allocation) override;

 private:
  Result<agent::AllocationStatus> Find(const std::string& allocation);
  Result<void> Unmount(const std::string& allocation,
                       const agent::MountStatus& mount);
  Result<void> PrepareLocked(const std::string& allocation);
  Result<void> ReleaseLocked(const std::string& allocation,
                             agent::OnlyIf only_if);

  const FindTasks find_tasks_;
  KeyedLocks locks_;  // of allocations
  LentClients clients_;
};

}  // namespace mountd::nomad
