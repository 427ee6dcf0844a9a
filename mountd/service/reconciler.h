// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/worker_pool.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/reconciliation.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/teardowns.h"

namespace mountd {

// Owns nothing. Releases those allocations of a scope that the scope's agent no
// longer wants. Runs on a worker, and releases each allocation on the
// allocation's own strand. Never releases an allocation that has, or may have,
// live processes.
class Reconciler {
 public:
  Reconciler(const ServiceParts& parts, const CallerAccess& access,
             Teardowns& teardowns, PreparedMeanwhile& prepared)
      : parts_(parts),
        access_(access),
        teardowns_(teardowns),
        prepared_(prepared) {}

  // Releases the allocations of the caller's scope that are not wanted, except
  // those that have, or may have, live processes. Returns one entry for each
  // allocation, in the order of their names. Never runs on an allocation's
  // strand, because it waits for these strands. Only one runs at a time for
  // each user. FailedPrecondition for an older epoch. After an error the
  // released allocations stay released, and the caller repeats the call.
  Result<std::vector<ReconcileEntry>> Reconcile(const CallContext& call,
                                                const ReconcileSpec& spec,
                                                Strands& strands);

 private:
  struct Sweeping {
    const CallContext& call;
    const ReconcileSpec& spec;
    const PreparedMeanwhile::Watch& prepared;
  };
  Result<void> EnterEpoch(const CallContext& call, const ReconcileSpec& spec);
  Result<void> SweepAll(const Sweeping& sweeping, Strands& strands,
                        const std::vector<std::string>& unwanted,
                        std::vector<ReconcileEntry>* entries);
  Result<ReconcileEntry> Sweep(const Sweeping& sweeping,
                               const std::string& allocation);
  // Returns the outcome for an allocation whose release failed with `error`;
  // `error` itself if no outcome fits.
  Result<ReconcileOutcome> OutcomeOf(const AllocationRecord& record,
                                     const Error& error);
  bool Lives(const CallContext& call, const AllocationRecord& record,
             ReconcileEntry* entry);
  Result<ReconcileEntry> JudgeWanted(const AllocationRecord& record);
  Result<ReconcileEntry> JudgeMissing(const CallContext& call,
                                      const std::string& name);

  const ServiceParts& parts_;
  const CallerAccess& access_;
  Teardowns& teardowns_;
  PreparedMeanwhile& prepared_;
};

}  // namespace mountd
