// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/plan/handed_out_fd.h"
#include "mountd/plan/health_plans.h"
#include "mountd/plan/mount_plans.h"
#include "mountd/plan/plugin_plans.h"
#include "mountd/plan/values.h"

namespace mountd::exec {

// The plans on the base, on allocations' targets, inboxes and anchors, and on
// the mounts that the machine has. Errors and threads as executor.h says.
class MountExecutor {
 public:
  virtual ~MountExecutor() = default;

  // Makes the base if it is missing, checks it otherwise, and returns its
  // mount.
  virtual Result<MountState> PrepareBase() = 0;
  virtual Result<void> PrepareAllocation(const AllocationPlan& plan) = 0;
  // Removes the allocation's directory. First detaches the mounts beneath it,
  // because no record of those mounts exists any more. Busy while such a mount
  // is used. Success if the directory is gone already.
  virtual Result<void> RemoveAllocation(const AllocationPlan& plan) = 0;
  // AlreadyExists if another mount is at the target. `fd` is the caller's
  // directory or pidfd if the plan's target_kind takes one, else -1.
  virtual Result<MountState> Attach(const AttachPlan& plan, int fd) = 0;
  virtual Result<HandedOutFd> OpenTree(const OpenTreePlan& plan) = 0;
  virtual Result<void> Detach(const DetachPlan& plan) = 0;
  virtual Result<MountState> InspectTarget(const TargetPlan& plan) = 0;
  // Unmounts the anchor. Busy while the anchor is used; success if it is gone
  // already. Also works for a source that is no longer declared.
  virtual Result<void> ReleaseAnchor(const AnchorPlan& plan) = 0;

  // RemoveInbox: Busy while a mount is in the inbox; success if there is no
  // inbox.
  virtual Result<void> PrepareInbox(const TaskPlan& plan) = 0;
  virtual Result<void> RemoveInbox(const TaskPlan& plan) = 0;
  // Returns a detached clone of the inbox and its mounts. Once the clone is
  // attached, mounts that arrive in the inbox appear there too.
  virtual Result<HandedOutFd> OpenInbox(const TaskPlan& plan) = 0;

  // WatchMounts and ListMounts act on the mount namespace that holds the base.
  struct MountWatch {
    UniqueFd fd;
    WatchReply reply;
  };
  virtual Result<MountWatch> WatchMounts() = 0;
  struct MountList {
    UniqueFd ids;
    MountListReply reply;
  };
  virtual Result<MountList> ListMounts() = 0;
  // Lists the targets that the kernel has, recorded or not (mount_plans.h).
  virtual Result<std::vector<FoundTarget>> ListTargets() = 0;
  // Counts the mounts below the plugin's directory. NotFound if that directory
  // was not prepared.
  virtual Result<std::uint64_t> CountMounts(const PluginPlan& plan) = 0;
  // NotFound if the mount is gone.
  virtual Result<ProbeReply> ProbeMount(const ProbePlan& plan) = 0;
};

}  // namespace mountd::exec
