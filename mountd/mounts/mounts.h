// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/counted.h"
#include "mountd/base/progress.h"
#include "mountd/base/result.h"
#include "mountd/base/worker_pool.h"
#include "mountd/config/config.h"
#include "mountd/executors/holder_report.h"
#include "mountd/mounts/mount_request.h"
#include "mountd/plan/mount_executor.h"
#include "mountd/store/boot_store.h"

namespace mountd {

// Owns the allocations' bind mounts.
//
//   (none) --intent--> attaching --Attach--> attached --intent--> detaching
//     ^                    |                     |                    |
//     +----- undone -------+        (another mount there: lost)       |
//     +-------------------------------- Detach -----------------------+
//
// A start records a mount without a record (after a store was lost) as `found`.
//
// During a swap a mount is `replacing`, with the old mount's record, and
// afterwards attached, with the new mount's record. After a swap that was cut
// off, the same call finishes the swap, or Unmount removes the mount at the
// target.
//
// Methods block. Calls for one allocation come one at a time, on its strand.
class Mounts {
 public:
  Mounts(const Config& config, exec::MountExecutor& executor,
         store::BootStore& store)
      : config_(config), executor_(executor), store_(store) {}

  // Compares the records with the kernel. Undoes mounts whose making was cut
  // off, and marks mounts as lost if mountd's mount is not at the target any
  // more. Leaves removals that were cut off pending, and leaves anchors to
  // ReleaseLeftAnchors, because a volume that hangs must not keep mountd from
  // starting.
  Result<void> Recover();
  // Records a mount at an allocation's target without a record as `found`. The
  // mount stays until a Bind with the same request takes it over, or until it
  // is replaced, unmounted or released. `uid` is the allocation's owner. Called
  // before Recover.
  Result<void> RecordFound(const exec::FoundTarget& found, std::uint32_t uid);
  // Marks every declared source's anchor as doubtful, because a lost store also
  // lost the records of anchors. mountd looks for each anchor once nothing uses
  // its source.
  Result<void> DoubtAllAnchors();

  // Mounts all requests or none. If one fails, undoes this call's mounts, even
  // if mountd restarts meanwhile. Idempotent. AlreadyExists if another request
  // has a mount with the same name.
  Result<std::vector<MountConfig>> Bind(
      const std::vector<BindMountRequest>& requests,
      const Progress& progress = Progress());
  Result<MountConfig> Bind(const BindMountRequest& request);
  // Replaces one mount by another, with no moment in which there is no mount.
  // NotFound if there is no mount to replace.
  struct Replaced {
    MountConfig config;
    std::uint64_t old_mount_id = 0;  // 0: the mount was already as requested
    // The processes in the allocation's cgroup that still have the old mount;
    // nothing without a cgroup. The service fills it in.
    std::optional<HolderReport> old_holders;
  };
  Result<Replaced> Replace(const BindMountRequest& request);
  // Replaces the mount by a new mount of its source, which may have changed. If
  // the mount was lost, mounts again. `request` is the record's own
  // (RequestOf), with the fields that its source needs.
  Result<Replaced> Repair(const BindMountRequest& request);
  Result<void> Unmount(const std::string& allocation, const std::string& task,
                       const std::string& name,
                       exec::UnmountMode mode = exec::UnmountMode::kPlain);
  // Detaches the mount and keeps its record as lost, so that Repair or a Bind
  // with the same request mounts it again. On a failure the record stays as it
  // is.
  Result<void> Lose(const std::string& allocation, const std::string& task,
                    const std::string& name);
  // Returns a detached mount of the request's source, which ends with the last
  // fd of it. The service records the mount.
  Result<exec::HandedOutFd> OpenTree(const BindMountRequest& request);
  // Unmounts all mounts of an allocation, the last one first.
  Result<void> UnmountAll(const std::string& allocation,
                          const Progress& progress = Progress(),
                          exec::UnmountMode mode = exec::UnmountMode::kPlain);
  Result<std::vector<MountConfig>> Of(const std::string& allocation);

  // Checks whether the mount of `seen` is still at its target. If not, and the
  // record is still the same, marks it lost and returns the reason. Otherwise
  // returns "". Runs on the allocation's strand.
  Result<std::string> LookLost(const MountRecord& seen);

  // Returns whether there are anchors without users that could not be released.
  // Another mount of the host was in such an anchor, or its file system did not
  // answer.
  bool HasLeftAnchors() const { return has_left_anchors_; }
  // Tries again to release these anchors. Never runs on an allocation's strand,
  // because with a volume that hangs it takes until the plan's deadline.
  void ReleaseLeftAnchors();
  // Prepares a task's inbox (propagation/inbox.h) and returns its path on the
  // host.
  Result<std::string> PrepareInbox(const InboxRecord& inbox);
  Result<exec::HandedOutFd> OpenInbox(const InboxRecord& inbox);
  // Makes the inboxes of an allocation again.
  Result<void> RecoverInboxes(const std::string& allocation);
  // Busy while a mount is in the inbox; success if there is no inbox.
  Result<void> RemoveInbox(const InboxRecord& inbox);

 private:
  Result<void> CheckLimits(const MountRecord& wanted);
  Result<void> PutIntent(const MountRecord& record);
  Result<bool> HasEnded(const MountRecord& record);
  struct Bound {
    MountRecord record;
    bool made = false;  // whether this call made the mount
    // The anchor of the mount's source, if that is a host volume or file
    // system.
    std::uint64_t anchor_id = 0;
  };
  Result<Bound> TakeOver(MountRecord wanted, const BindMountRequest& request);
  Result<void> CountFound();
  // Attaches one mount and leaves its record as an intent.
  Result<Bound> BindOne(const BindMountRequest& request);
  Result<Bound> Attach(MountRecord record, const BindMountRequest& request);
  KeyedLocks::Guard LockSource(const AnchorKey& key);
  Result<void> PutAnchorOf(const MountRecord& record, std::uint64_t anchor_id);
  Result<void> PutAttached(const Bound& one);
  Result<void> PutAttached(const std::vector<Bound>& all);
  Result<MountRecord> Swap(const MountRecord& old,
                           const BindMountRequest& request);
  Result<exec::MountState> RunAttach(const BindMountRequest& request,
                                     std::uint64_t replaces);
  Result<void> Detach(const MountRecord& record,
                      exec::UnmountMode mode = exec::UnmountMode::kPlain);
  Result<void> UndoAttach(const MountRecord& record,
                          exec::UnmountMode mode = exec::UnmountMode::kPlain);
  Result<void> Forget(const MountRecord& record);
  Result<void> RecoverOne(const MountRecord& record);
  MountRecord AsItIsNow(MountRecord record);
  void ReleaseAnchorIfUnused(const AnchorKey& key);
  Result<void> ReleaseAnchorUnlessUsed(const AnchorKey& key);

  const Config& config_;
  exec::MountExecutor& executor_;
  store::BootStore& store_;
  KeyedLocks sources_;  // host volumes and file systems
  Counted<std::uint32_t> of_users_;
  Counted<std::string> of_allocations_;
  Counted<std::uint32_t> propagated_directories_;  // by uid
  std::atomic<bool> has_left_anchors_ = false;
  // True while the source of some mount is unknown. Any anchor may then have
  // users.
  std::atomic<bool> has_found_ = false;
  bool recovering_ = false;
  bool recovery_hangs_ = false;
};

}  // namespace mountd
