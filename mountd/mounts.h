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
#include "mountd/exec/executor.h"
#include "mountd/store/boot_store.h"

namespace mountd {

std::string_view PropagationName(exec::Propagation propagation);
Result<exec::Propagation> ParsePropagationName(std::string_view name);

// As in the API's "source_type".
std::string_view SourceKindName(exec::SourceKind kind);
Result<exec::SourceKind> ParseSourceKindName(std::string_view name);

struct BindMountSpec {
  std::string allocation;
  std::string task;
  std::string name;
  exec::SourceKind source_kind = exec::SourceKind::kHostVolume;
  std::string source;
  // kTmpfs; inodes 0: as many as its size allows; uid and gid kNoId: those of
  // the allocation's owner.
  exec::TmpfsPlan tmpfs;
  // kPublishedVolume: where the plugin published it.
  std::string plugin;
  VolumeKey volume;
  exec::Propagation propagation = exec::Propagation::kPrivate;
  std::uint32_t attributes = 0;
  exec::IdMapPlan ids;
  std::string task_path;
};

// The mount configuration a task driver inserts.
struct MountConfig {
  std::string host_path;
  MountRecord record;
  // GetAllocation only: whether its file system answers.
  exec::MountHealth health = exec::MountHealth::kUnknown;
};

MountConfig ConfigOf(const MountRecord& record);

// What the runtime's rootfsPropagation has to be for the mount to behave.
std::string_view RequiredRootfsPropagation(exec::Propagation propagation);

// Allocations' bind mounts.
//
//   (none) --intent--> attaching --Attach--> attached --intent--> detaching
//     ^                    |                     |                    |
//     +----- undone -------+        (another mount there: lost)       |
//     +-------------------------------- Detach -----------------------+
//
// Methods block; calls for one allocation come one at a time (its strand).
class Mounts {
 public:
  Mounts(const Config& config, exec::Executor& executor,
         store::BootStore& store)
      : config_(config), executor_(executor), store_(store) {}

  // Compares the records with the kernel: takes away what was under way, marks
  // what is not ours any more as lost. Leaves the anchors to
  // ReleaseLeftAnchors: a host volume that hangs must not keep mountd from
  // starting.
  Result<void> Recover();

  // Idempotent; the same name with another spec is AlreadyExists.
  Result<MountConfig> Bind(const BindMountSpec& spec);
  Result<void> Unmount(const std::string& allocation, const std::string& task,
                       const std::string& name);
  // All of an allocation's, the last one first.
  Result<void> UnmountAll(const std::string& allocation);
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

 private:
  Result<void> CheckLimits(const MountRecord& wanted);
  Result<MountConfig> Attach(MountRecord record, const BindMountSpec& spec);
  Result<void> Detach(const MountRecord& record);
  Result<void> UndoAttach(const MountRecord& record);
  Result<void> RecoverOne(const MountRecord& record);
  MountRecord AsItIsNow(MountRecord record);
  void ReleaseAnchorIfUnused(const AnchorKey& key);

  const Config& config_;
  exec::Executor& executor_;
  store::BootStore& store_;
  KeyedLocks sources_;  // host volumes and file systems
  std::atomic<bool> has_left_anchors_ = false;
  bool recovering_ = false;
};

}  // namespace mountd
