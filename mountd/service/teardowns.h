// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/caller.h"
#include "mountd/base/progress.h"
#include "mountd/executors/task_copies.h"
#include "mountd/service/service_parts.h"

namespace mountd {

// Returns "release", "unpublish", "teardown-network", "unmount" or "unstage".
std::string_view OwedKindName(OwedKind kind);

// Returns the strand of the tear-down: the allocation's or the volume's.
std::string StrandOf(const OwedRecord& owed);
std::string AllocationStrand(const std::string& allocation);

exec::AllocationPlan PlanOf(const AllocationRecord& record);

// How a call wants objects removed.
struct Manner {
  OnTasks on_tasks = OnTasks::kRefuse;
  Progress progress{};
  CancelToken cancelled = nullptr;
};

// Removes an allocation's objects, one or all of them, in the right order.
// Records a failure as pending, with the reason. Then retries until the
// tear-down succeeds, the object is requested again, or the allocation is gone.
//
// Methods block. Calls for one allocation come one at a time, on its strand.
class Teardowns {
 public:
  Teardowns(const ServiceParts& parts, Leases& leases)
      : parts_(parts), leases_(leases) {}

  // For each method: Busy if tasks have copies of an object to remove
  // (mountd/executors/task_copies.h). Then the object is unchanged, and nothing
  // becomes pending, but a release that had begun before stays pending.
  Result<ReceiptRecord> Release(const AllocationRecord& record,
                                const Manner& manner = {});
  // Busy if tasks have copies of the allocation's mounts or volumes. The error
  // names the processes with copies. Changes nothing.
  Result<void> CheckCopiesOf(const AllocationRecord& record) {
    return CheckRelease(record, Manner());
  }
  // Also Busy while a bind mount of the volume is left. Then nothing is
  // pending.
  Result<void> Unpublish(const AllocationRecord& record,
                         const std::string& alias, const Manner& manner = {});
  // Also Busy while a process uses the mount. Then nothing is pending. If the
  // mount is only detached, processes that use it keep it.
  Result<void> Unmount(const AllocationRecord& record, const std::string& task,
                       const std::string& name,
                       exec::UnmountMode mode = exec::UnmountMode::kPlain,
                       const Manner& manner = {});
  // Busy while a task has a copy of the mount, because the replacement would
  // not reach the copy.
  Result<void> CheckReplaceable(const AllocationRecord& record,
                                const MountRecord& mount, const Manner& manner);
  // Called after a failed Bind. Adds a pending unmount for a mount that could
  // not be undone.
  Result<void> OweUnlessUndone(const BindMountRequest& spec);
  // Called after a swap. If the lease lapsed meanwhile, detaches the new mount
  // and returns the refusal. Does not mount the old one again, because that
  // would attach a mount after the lapse. The record stays as lost, so that the
  // agent sees that the mount is missing once it may use the allocation again.
  // If the mount cannot be detached, its unmount becomes pending.
  Result<void> LoseIfLapsed(const AllocationRecord& record,
                            const BindMountRequest& spec);
  Result<void> TeardownNetwork(const AllocationRecord& record,
                               const std::string& interface,
                               const Progress& progress = Progress());
  Result<void> TeardownNetworks(const AllocationRecord& record,
                                const Progress& progress);

  // Removes the pending tear-down of an object, because the object was
  // requested again and exists.
  Result<void> Forgive(OwedKind kind, const std::string& object);
  // Retries one tear-down, if it is still pending.
  Result<void> Retry(const OwedRecord& owed);
  // Adds pending tear-downs for work that an earlier mountd did not finish.
  // Called after the parts have recovered.
  Result<void> OweCutOff();

 private:
  Result<void> Undo(const AllocationRecord& record, const Manner& manner);
  // Unmounts all mounts. The error names the processes that use a mount.
  Result<void> UnmountAllOf(const AllocationRecord& record,
                            const Manner& manner);
  Result<void> UnpublishIfUnused(const AllocationRecord& record,
                                 const PublicationRecord& publication,
                                 const Manner& manner);
  Result<void> CheckCopies(const AllocationRecord& record, const char* op,
                           const std::string& object,
                           const std::vector<std::uint64_t>& mount_ids);
  Result<void> CheckRelease(const AllocationRecord& record,
                            const Manner& manner);
  Result<void> Await(const Manner& manner,
                     const std::function<Result<void>()>& look) const;
  Result<bool> HasUsersOfUnchecked(const AllocationRecord& record);
  Result<void> CheckUnused(const std::string& allocation,
                           const std::string& alias);
  Error WithHolders(const AllocationRecord& record, std::uint64_t mount_id,
                    Error busy);
  Result<void> OweUnlessDone(OwedKind kind, const std::string& object,
                             std::uint32_t uid, Result<void> outcome);
  Result<void> Owe(OwedKind kind, const std::string& allocation,
                   const std::string& object);

  const ServiceParts parts_;
  Leases& leases_;
};

}  // namespace mountd
