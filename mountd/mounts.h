// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/worker_pool.h"
#include "mountd/config.h"
#include "mountd/counted.h"
#include "mountd/exec/executor.h"
#include "mountd/holders.h"
#include "mountd/mount_spec.h"
#include "mountd/progress.h"
#include "mountd/store/boot_store.h"

namespace mountd {

// Allocations' bind mounts.
//
//   (none) --intent--> attaching --Attach--> attached --intent--> detaching
//     ^                    |                     |                    |
//     +----- undone -------+        (another mount there: lost)       |
//     +-------------------------------- Detach -----------------------+
//
// What a start finds without a record (a store that was lost) is `found`.
//
// A replacement is `replacing` while the swap is under way, with the record of
// the old mount, and then attached with that of the new one. One that was cut
// off is finished by the same call, or taken away by Unmount, as it is.
//
// Methods block; calls for one allocation come one at a time (its strand).
class Mounts {
 public:
  Mounts(const Config& config, exec::Executor& executor,
         store::BootStore& store)
      : config_(config), executor_(executor), store_(store) {}

  // Compares the records with the kernel: takes away what was being made, marks
  // what is not ours any more as lost. Leaves what was being undone as it is,
  // to be owed, and the anchors to ReleaseLeftAnchors: a volume that hangs must
  // not keep mountd from starting.
  Result<void> Recover();
  // Records what is at an allocation's targets without a record, as found: it
  // stays until the same Bind takes it over, or it is replaced, unmounted or
  // released. `uid` is the allocation's owner. Before Recover.
  Result<void> RecordFound(const exec::FoundTarget& found, std::uint32_t uid);
  // A store that was lost knew of anchors, too: whichever there are is found
  // out when nothing uses them.
  Result<void> DoubtAllAnchors();

  // All of them or none: what this call mounted is undone if one fails, also
  // after a restart in the middle. Idempotent; the same name with another spec
  // is AlreadyExists.
  Result<std::vector<MountConfig>> Bind(const std::vector<BindMountSpec>& specs,
                                        const Progress& progress = Progress());
  Result<MountConfig> Bind(const BindMountSpec& spec);
  // Puts another mount in the place of one, without a moment in between at
  // which there is none. NotFound if it is not mounted.
  struct Replaced {
    MountConfig config;
    std::uint64_t old_mount_id = 0;  // 0: it was as asked already
    // Who of the allocation's cgroup still has the old one; nothing without a
    // cgroup. The service fills it in.
    std::optional<HolderReport> old_holders;
  };
  Result<Replaced> Replace(const BindMountSpec& spec);
  // Mounts what the record's source leads to now in the place of what is there,
  // or anew if the mount was lost. `spec` is the record's own (SpecOf), with
  // what its source needs.
  Result<Replaced> Repair(const BindMountSpec& spec);
  Result<void> Unmount(const std::string& allocation, const std::string& task,
                       const std::string& name,
                       exec::UnmountMode mode = exec::UnmountMode::kPlain);
  // A detached mount of the spec's source: it goes with its last fd. The
  // service records it.
  Result<exec::Executor::HandedOut> OpenTree(const BindMountSpec& spec);
  // All of an allocation's, the last one first.
  Result<void> UnmountAll(const std::string& allocation,
                          const Progress& progress = Progress(),
                          exec::UnmountMode mode = exec::UnmountMode::kPlain);
  Result<std::vector<MountConfig>> Of(const std::string& allocation);

  // Looks whether the mount is still there that `seen` was the record of; if it
  // is not, and the record is still that, marks it lost and answers why. "": it
  // is there, or no business of anybody's any more. On the allocation's strand.
  Result<std::string> LookLost(const MountRecord& seen);

  // Anchors whose last user has gone, but that could not go with it: something
  // else of the host was in them, or their file system gave no answer.
  bool HasLeftAnchors() const { return has_left_anchors_; }
  // Tries again. Not on an allocation's strand: a volume that hangs takes until
  // the plan's deadline.
  void ReleaseLeftAnchors();
  // A task's inbox (propagation/inbox.h); its path on the host.
  Result<std::string> PrepareInbox(const InboxRecord& inbox);
  Result<exec::Executor::HandedOut> OpenInbox(const InboxRecord& inbox);
  // Puts the inboxes of an allocation back.
  Result<void> RecoverInboxes(const std::string& allocation);
  // Busy while a mount is in it; none is success.
  Result<void> RemoveInbox(const InboxRecord& inbox);

 private:
  Result<void> CheckLimits(const MountRecord& wanted);
  Result<bool> HasEnded(const MountRecord& record);
  struct Bound {
    MountRecord record;
    bool made = false;            // by this call
    std::uint64_t anchor_id = 0;  // of its source, if that is a host volume
  };
  Result<Bound> TakeOver(MountRecord wanted, const BindMountSpec& spec);
  Result<void> CountFound();
  // Attaches; the record stays as an intent.
  Result<Bound> BindOne(const BindMountSpec& spec);
  Result<Bound> Attach(MountRecord record, const BindMountSpec& spec);
  KeyedLocks::Guard LockSource(const AnchorKey& key);
  Result<void> PutAnchorOf(const MountRecord& record, std::uint64_t anchor_id);
  Result<void> PutAttached(const Bound& one);
  Result<void> PutAttached(const std::vector<Bound>& all);
  Result<MountRecord> Swap(const MountRecord& old, const BindMountSpec& spec);
  Result<exec::MountState> RunAttach(const BindMountSpec& spec,
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
  exec::Executor& executor_;
  store::BootStore& store_;
  KeyedLocks sources_;  // host volumes and file systems
  Counted<std::uint32_t> of_users_;
  Counted<std::string> of_allocations_;
  std::atomic<bool> has_left_anchors_ = false;
  // Some mount is of no known source: any anchor may be in use.
  std::atomic<bool> has_found_ = false;
  bool recovering_ = false;
  bool recovery_hangs_ = false;
};

}  // namespace mountd
