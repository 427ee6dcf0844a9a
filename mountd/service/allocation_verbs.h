// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "mountd/service/caller_access.h"
#include "mountd/service/only_if.h"
#include "mountd/service/reconciliation.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/teardowns.h"

namespace mountd {

struct AllocationStatus {
  AllocationRecord record;
  std::string host_path;
  std::vector<NetworkStatus> networks;  // in the order of their interfaces
  struct Volume {
    PublicationRecord record;
    std::string plugin;
    std::string volume_id;
    std::string host_path;
  };
  std::vector<Volume> volumes;
  std::vector<MountConfig> mounts;
  std::vector<std::string> inboxes;  // tasks that have one
};

// Owns nothing; begins, ends and shows allocations. Runs on workers, on the
// strand of the allocation that the call names. Never logs an error that it
// returns.
class AllocationVerbs {
 public:
  AllocationVerbs(const ServiceParts& parts, const CallerAccess& access,
                  Teardowns& teardowns, PreparedMeanwhile& prepared,
                  Leases& leases)
      : parts_(parts),
        access_(access),
        teardowns_(teardowns),
        prepared_(prepared),
        leases_(leases) {}

  // `group` may pass through the allocation's directories, too. 0: no group, or
  // the group of an earlier call.
  Result<std::string> PrepareAllocation(const CallContext& call,
                                        const Name& allocation,
                                        const std::string& scope,
                                        std::uint64_t cgroup = 0,
                                        std::uint32_t group = 0,
                                        bool lease_required = false);
  Result<ReceiptRecord> ReleaseAllocation(const CallContext& call,
                                          const Name& allocation,
                                          OnTasks on_tasks = OnTasks::kRefuse,
                                          OnlyIf only_if = OnlyIf::kAny);
  Result<ReceiptRecord> GetReceipt(const CallContext& call,
                                   const Name& allocation);
  Result<AllocationStatus> GetAllocation(const CallContext& call,
                                         const Name& allocation);
  Result<std::vector<AllocationRecord>> ListAllocations(
      const CallContext& call);

 private:
  Result<bool> FinishBareRelease(const CallContext& call,
                                 const AllocationRecord& record);
  Result<std::string> PrepareAgain(const CallContext& call,
                                   const std::string& allocation,
                                   std::uint64_t cgroup, std::uint32_t group,
                                   bool lease_required);
  Result<void> CheckCgroup(const CallContext& call,
                           const AllocationRecord& record,
                           std::uint64_t cgroup);
  Result<void> MakeDirectory(const AllocationRecord& record,
                             std::uint32_t group);
  // Makes the directory of a new record, and checks the leases again.
  Result<void> MakeUsable(const CallContext& call,
                          const AllocationRecord& record, std::uint32_t group);

  const ServiceParts& parts_;
  const CallerAccess& access_;
  Teardowns& teardowns_;
  PreparedMeanwhile& prepared_;
  Leases& leases_;
};

}  // namespace mountd
