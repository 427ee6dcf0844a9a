// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/caller.h"
#include "mountd/copies.h"
#include "mountd/progress.h"
#include "mountd/service_parts.h"

namespace mountd {

// "release", "unpublish", "teardown-network", "unmount", "unstage".
std::string_view OwedKindName(OwedKind kind);

// The strand its work runs on: the allocation's or the volume's.
std::string StrandOf(const OwedRecord& owed);
std::string AllocationStrand(const std::string& allocation);

exec::AllocationPlan PlanOf(const AllocationRecord& record);

// How something is undone for a call.
struct Manner {
  OnTasks on_tasks = OnTasks::kRefuse;
  Progress progress{};
  CancelToken cancelled = nullptr;
};

// Undoing what was made for an allocation, one thing or all of it, in the right
// order. What fails is owed: recorded with its reason, to be retried until it
// succeeds, is asked for anew, or the allocation is gone.
//
// Methods block; those of one allocation come one at a time (its strand).
class Teardowns {
 public:
  explicit Teardowns(const ServiceParts& parts) : parts_(parts) {}

  // Refused because tasks have copies of what is to go (mountd/copies.h), each
  // is Busy and as it was: nothing is owed that was not before.
  Result<ReceiptRecord> Release(const AllocationRecord& record,
                                const Manner& manner = {});
  // Busy, and not owed, while a bind mount of it is left.
  Result<void> Unpublish(const AllocationRecord& record,
                         const std::string& alias, const Manner& manner = {});
  // Busy, and not owed, while something uses the mount. What is only detached,
  // its users keep.
  Result<void> Unmount(const AllocationRecord& record, const std::string& task,
                       const std::string& name,
                       exec::UnmountMode mode = exec::UnmountMode::kPlain,
                       const Manner& manner = {});
  // Busy while a task has a copy of the mount that replacing it would leave.
  Result<void> CheckReplaceable(const AllocationRecord& record,
                                const MountRecord& mount, const Manner& manner);
  // After a Bind that failed: owes what of it could not be undone.
  Result<void> OweUnlessUndone(const BindMountSpec& spec);
  Result<void> TeardownNetwork(const AllocationRecord& record,
                               const std::string& interface,
                               const Progress& progress = Progress());
  Result<void> TeardownNetworks(const AllocationRecord& record,
                                const Progress& progress);

  // What is there anew is not to go any more.
  Result<void> Forgive(OwedKind kind, const std::string& object);
  // Tries one again, if it still is owed.
  Result<void> Retry(const OwedRecord& owed);
  // After the recovery of the parts: owes what was under way and still is.
  Result<void> OweCutOff();

 private:
  Result<void> Undo(const AllocationRecord& record, const Manner& manner);
  Result<void> CheckCopies(const AllocationRecord& record, const char* op,
                           const std::string& object,
                           const std::vector<std::uint64_t>& mount_ids);
  Result<void> CheckRelease(const AllocationRecord& record,
                            const Manner& manner);
  Result<void> Await(const Manner& manner,
                     const std::function<Result<void>()>& look) const;
  Result<void> CheckUnused(const std::string& allocation,
                           const std::string& alias);
  Error WithHolders(const AllocationRecord& record, std::uint64_t mount_id,
                    Error busy);
  Result<void> OweUnlessDone(OwedKind kind, const std::string& object,
                             std::uint32_t uid, Result<void> outcome);
  Result<void> Owe(OwedKind kind, const std::string& allocation,
                   const std::string& object);

  const ServiceParts parts_;
};

}  // namespace mountd
