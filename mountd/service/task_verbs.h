// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/unique_fd.h"
#include "mountd/executors/holder_report.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/executor_features.h"
#include "mountd/service/handed_out.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/task_mounts.h"

namespace mountd {

// Owns nothing. Shows which processes use an allocation's mounts, and whether a
// task has its mounts. Runs on workers, on the allocation's strand. Never
// changes a mount.
class TaskVerbs {
 public:
  TaskVerbs(const ServiceParts& parts, const CallerAccess& access,
            ExecutorFeatures& features)
      : parts_(parts), access_(access), features_(features) {}

  // FailedPrecondition for kCgroup if the allocation has none. Only
  // administrators see details of other users' processes outside the
  // allocation's cgroup.
  Result<HolderReport> ListHolders(const CallContext& call,
                                   const Name& allocation, const Name& task,
                                   const Name& name, exec::HolderScope scope);
  // Returns mounts of the allocation that OpenTree and PrepareInbox handed out
  // and that a process still has, even after the release. Hides other users'
  // processes as ListHolders does.
  Result<HandedOutReport> ListHandedOut(const CallContext& call,
                                        const Name& allocation);
  Result<TaskReport> VerifyTask(const CallContext& call, const Name& allocation,
                                const Name& task, const UniqueFd& pidfd);

 private:
  Result<void> AddCopies(const AllocationRecord& record,
                         const MountRecord& mount, exec::HolderScope scope,
                         HolderReport* report);

  const ServiceParts& parts_;
  const CallerAccess& access_;
  ExecutorFeatures& features_;
};

}  // namespace mountd
