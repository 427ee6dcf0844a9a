// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "mountd/executors/holder_report.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/mount_admission.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/teardowns.h"

namespace mountd {

// Owns nothing. Mounts, replaces, repairs and unmounts allocations' bind
// mounts. Runs on workers, on the allocation's strand. Never mounts a request
// that MountAdmission has not checked.
class MountVerbs {
 public:
  MountVerbs(const ServiceParts& parts, const CallerAccess& access,
             Teardowns& teardowns, const MountAdmission& admission)
      : parts_(parts),
        access_(access),
        teardowns_(teardowns),
        admission_(admission) {}

  Result<MountConfig> BindMount(const CallContext& call,
                                BindMountRequest request);
  // Mounts all requests or none. All requests are of one allocation.
  Result<std::vector<MountConfig>> BindMounts(
      const CallContext& call, std::vector<BindMountRequest> requests);
  Result<Mounts::Replaced> ReplaceMount(const CallContext& call,
                                        BindMountRequest request,
                                        OnTasks on_tasks = OnTasks::kRefuse);
  struct Repaired {
    Mounts::Replaced replaced;
    bool reaches_task = false;
    std::string reason;  // the reason if it does not
  };
  Result<Repaired> RepairMount(const CallContext& call, const Name& allocation,
                               const Name& task, const Name& name);
  // Returns a detached mount of the request's source. The request's target does
  // not matter.
  Result<UniqueFd> OpenTree(const CallContext& call, BindMountRequest request);
  Result<void> Unmount(const CallContext& call, const Name& allocation,
                       const Name& task, const Name& name,
                       exec::UnmountMode mode = exec::UnmountMode::kPlain,
                       OnTasks on_tasks = OnTasks::kRefuse);

 private:
  Result<std::vector<bool>> ExistBefore(
      const AllocationRecord& owner,
      const std::vector<BindMountRequest>& requests);
  Result<void> UndoIfLapsed(const AllocationRecord& owner,
                            const BindMountRequest& request);
  std::optional<HolderReport> HoldersBefore(
      const AllocationRecord& owner, const std::optional<MountRecord>& old);
  Result<void> Forgive(const BindMountRequest& request);
  Result<void> CheckUnmountMode(const CallContext& call,
                                const MountRecord& mount,
                                exec::UnmountMode mode);

  const ServiceParts& parts_;
  const CallerAccess& access_;
  Teardowns& teardowns_;
  const MountAdmission& admission_;
};

}  // namespace mountd
