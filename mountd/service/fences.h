// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "mountd/base/progress.h"
#include "mountd/service/leases.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/teardowns.h"

namespace mountd {

// Carries out the fence of an allocation whose lease has lapsed, and owns the
// progress of fences under way. Leases has recorded the fence before, so the
// next start of mountd continues an unfinished fence. Each step is idempotent,
// and is recorded when it is done. If a step fails, its error is recorded and
// the next call tries it again.
//
// Methods block. StopTasks runs on the fence's own strand, so that it does not
// wait for a call under way; Finish runs on the allocation's strand, so that
// calls that were under way have ended.
class Fences {
 public:
  Fences(const ServiceParts& parts, Leases& leases, Teardowns& teardowns)
      : parts_(parts), leases_(leases), teardowns_(teardowns) {}

  // Freezes or kills the allocation's tasks, if the lease asks for that.
  Result<void> StopTasks(const std::string& allocation);
  // Searches for tasks' copies, and then releases the allocation if the lease
  // asks for that. FailedPrecondition while the tasks are not stopped yet.
  // Returns the receipt.
  Result<FenceRecord> Finish(const std::string& allocation);
  // Returns why a plugin's call failed that Finish is repeating now. Nothing if
  // Finish is repeating no call. Answers at once.
  std::optional<std::string> WhyRepeating(const std::string& allocation) const;

 private:
  class UnderWay;

  Result<FenceRecord> Finish(const FenceRecord& fence,
                             const Progress& progress);
  Result<void> Search(const AllocationRecord& record, std::uint32_t attempts);
  Result<bool> Detach(const AllocationRecord& record, const FenceRecord& fence,
                      const Progress& progress);
  // Records the error of a try with the fence.
  Error Failed(const std::string& allocation, Error error);

  const ServiceParts& parts_;
  Leases& leases_;
  Teardowns& teardowns_;
  mutable std::mutex mutex_;
  std::map<std::string, Progress> under_way_;  // mutex_; by allocation
};

// Returns whether the allocation is released, all of its volumes are detached,
// and no process may still use its mounts (unchecked_mounts.h). False if the
// receipt is gone, because the user has had too many newer ones.
Result<bool> IsDetachedByRelease(const ServiceParts& parts,
                                 const std::string& allocation);

// Returns the strand of a fence's StopTasks.
std::string FenceStrand(const std::string& allocation);

}  // namespace mountd
