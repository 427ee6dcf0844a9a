// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/fences.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "mountd/base/operation_trace.h"
#include "mountd/base/trace_parent.h"
#include "mountd/service/handed_out.h"
#include "mountd/service/stop_rights.h"
#include "mountd/service/unchecked_mounts.h"

namespace mountd {
namespace {

std::optional<FenceRecord> PendingOf(const Leases& leases,
                                     const std::string& allocation) {
  std::vector<FenceRecord> all = leases.Pending();
  const auto found = std::find_if(
      all.begin(), all.end(),
      [&](const FenceRecord& fence) { return fence.allocation == allocation; });
  return found == all.end() ? std::nullopt
                            : std::optional<FenceRecord>(std::move(*found));
}

// The trace of the fence's steps, so that plans, RPCs and the receipt carry the
// names of the call that acquired the lease. Null if the call gave none.
std::unique_ptr<OperationTrace> TraceOf(const FenceRecord& fence) {
  const CallTrace names = CallTraceOf(fence.traceparent, fence.request_id);
  return names == CallTrace{} ? nullptr
                              : std::make_unique<OperationTrace>(
                                    names, OperationTrace::Clock::now());
}

bool HasTasksToStop(const FenceRecord& fence, const std::string& boot_id) {
  // A reboot ended all processes, and the kernel may give the cgroup's id to
  // another cgroup.
  return fence.stop_tasks != exec::TaskStop::kNo && fence.cgroup != 0 &&
         fence.boot_id == boot_id;
}

}  // namespace

std::string FenceStrand(const std::string& allocation) {
  return "fence " + allocation;
}

Error Fences::Failed(const std::string& allocation, Error error) {
  IgnoreBecauseBestEffort(leases_.Change(allocation, [&](FenceRecord& fence) {
    fence.error = error.Message();
    ++fence.attempts;
    // An agent that lives on may have started tasks again, so the next try
    // stops them. A fence that freezes does not freeze again, because the
    // cgroup's owner may have thawed the tasks so that they can end.
    if (error.code == Code::kBusy &&
        fence.stop_tasks == exec::TaskStop::kKill) {
      fence.tasks_stopped = {};
    }
  }));
  return error;
}

Result<void> Fences::StopTasks(const std::string& allocation) {
  const std::optional<FenceRecord> fence = PendingOf(leases_, allocation);
  if (!fence || fence->tasks_stopped.boot_us != 0) {
    return Ok();
  }
  const std::unique_ptr<OperationTrace> trace = TraceOf(*fence);
  const CurrentTrace current(trace.get());
  bool had_tasks = false;
  std::string refusal;
  if (HasTasksToStop(*fence, leases_.boot_id())) {
    const Result<exec::StopTasksState> stopped = StopFenced(parts_, *fence);
    // Without the right, continue like a fence that stops no tasks, because its
    // release waits until no task has a copy.
    if (!stopped && stopped.error().code == Code::kPermissionDenied) {
      refusal = stopped.error().Message();
    } else if (!stopped && stopped.error().code != Code::kNotFound) {
      return Failed(allocation, stopped.error());
    }
    // A cgroup that does not exist any more has no processes.
    had_tasks = stopped && stopped->had_processes != 0;
  }
  const FenceTime now = leases_.Now();
  const Result<FenceRecord> changed =
      leases_.Change(allocation, [&](FenceRecord& record) {
        record.had_tasks = record.had_tasks || had_tasks;
        // If another lease asked for a stronger stop meanwhile, the tasks must
        // be stopped again.
        if (record.stop_tasks == fence->stop_tasks) {
          record.tasks_stopped = now;
          if (!refusal.empty()) {
            record.stop_tasks = exec::TaskStop::kNo;
            record.error = refusal;
          }
        }
      });
  // NotFound means that the fence has ended meanwhile.
  return changed || changed.error().code == Code::kNotFound
             ? Ok()
             : Result<void>(changed.error());
}

namespace {

Result<std::optional<std::string>> UncheckedUsersOf(
    const ServiceParts& parts, const AllocationRecord& record) {
  MOUNTD_ASSIGN(const std::vector<UncheckedRecord> unchecked,
                parts.state.unchecked.UncheckedOf(record.id));
  return UsersOfUnchecked(parts, unchecked, record.uid);
}

}  // namespace

// Looks for copies as a release does, and for descriptors that OpenTree and
// PrepareInbox handed out. Records what it found; finding something is no
// error. A search that misses a process fails, because the next try may see
// each process. After kTriesToSeeAll tries the receipt tells of the miss
// instead, because a process that hides must not keep a fence from its end.
Result<void> Fences::Search(const AllocationRecord& record,
                            std::uint32_t attempts) {
  constexpr std::uint32_t kTriesToSeeAll = 3;
  const Result<void> copies = teardowns_.CheckCopiesOf(record);
  if (!copies && (copies.error().code != Code::kBusy ||
                  (copies.error().is_unsure && attempts < kTriesToSeeAll))) {
    return copies;
  }
  MOUNTD_ASSIGN(const std::vector<HandedOutRecord> records,
                parts_.boot.handed_out.HandedOutOf(record.id));
  HandedOutReport handed_out;
  if (!records.empty()) {
    MOUNTD_ASSIGN(handed_out, FindHandedOut(parts_, records, record.cgroup));
  }
  MOUNTD_ASSIGN(const std::optional<std::string> users,
                UncheckedUsersOf(parts_, record));
  const FenceTime now = leases_.Now();
  MOUNTD_TRY(leases_.Change(record.id, [&](FenceRecord& fence) {
    fence.copies = copies ? users.value_or("") : copies.error().detail;
    fence.handed_out =
        static_cast<std::uint32_t>(handed_out.descriptors.size());
    fence.searched = now;
  }));
  return Ok();
}

Result<bool> IsDetachedByRelease(const ServiceParts& parts,
                                 const std::string& allocation) {
  MOUNTD_ASSIGN(const std::vector<UncheckedRecord> before,
                parts.state.unchecked.UncheckedOf(allocation));
  MOUNTD_ASSIGN(const std::optional<ReceiptRecord> receipt,
                parts.state.allocations.GetReceipt(allocation));
  if (!receipt || std::any_of(receipt->volumes.begin(), receipt->volumes.end(),
                              [](const auto& volume) { return volume.owed; })) {
    return false;
  }
  MOUNTD_ASSIGN(const std::optional<std::string> users,
                UsersOfReleased(parts, allocation, before, receipt->uid));
  return !users;
}

namespace {

// Returns whether a volume is still attached that the allocation used, because
// its plugin was away or a process had a copy of the volume.
Result<bool> HasDeparted(store::StateStore& state,
                         const std::string& allocation) {
  MOUNTD_ASSIGN(const std::vector<VolumeRecord> volumes,
                state.volumes.ListVolumes());
  for (const VolumeRecord& volume : volumes) {
    MOUNTD_ASSIGN(const std::vector<DepartedRecord> all,
                  state.volumes.DepartedFrom(volume.key));
    if (std::any_of(all.begin(), all.end(), [&](const DepartedRecord& one) {
          return one.allocation == allocation;
        })) {
      return true;
    }
  }
  return false;
}

}  // namespace

Result<bool> Fences::Detach(const AllocationRecord& record,
                            const FenceRecord& fence,
                            const Progress& progress) {
  if (fence.on_lapse == OnLapse::kRelease) {
    if (fence.stop_tasks == exec::TaskStop::kKill) {
      // A task that was started after the stop may copy a mount after the
      // search. So the receipt waits until the cgroup is seen empty.
      MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                    parts_.boot.mounts.MountsOf(record.id));
      MOUNTD_TRY(NoteUnchecked(parts_, record, mounts));
    }
    MOUNTD_TRY(teardowns_.Release(record, {OnTasks::kRefuse, progress}));
    return IsDetachedByRelease(parts_, record.id);
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.mounts.MountsOf(record.id));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> publications,
                parts_.state.volumes.PublicationsOf(record.id));
  MOUNTD_ASSIGN(const bool departed, HasDeparted(parts_.state, record.id));
  MOUNTD_ASSIGN(const std::optional<std::string> users,
                UncheckedUsersOf(parts_, record));
  return mounts.empty() && publications.empty() && !departed && !users;
}

class Fences::UnderWay {
 public:
  UnderWay(Fences& fences, std::string allocation)
      : fences_(fences), allocation_(std::move(allocation)) {
    const std::lock_guard lock(fences_.mutex_);
    fences_.under_way_.insert_or_assign(allocation_, progress_);
  }
  UnderWay(const UnderWay&) = delete;
  UnderWay& operator=(const UnderWay&) = delete;
  ~UnderWay() {
    const std::lock_guard lock(fences_.mutex_);
    fences_.under_way_.erase(allocation_);
  }

  const Progress& progress() const { return progress_; }

 private:
  Fences& fences_;
  const std::string allocation_;
  const Progress progress_;
};

// A plugin that hangs may delay a fence for long. A failed call is repeated
// several times before the fence's own try fails, so this function reports it
// earlier.
std::optional<std::string> Fences::WhyRepeating(
    const std::string& allocation) const {
  Progress::Status now;
  {
    const std::lock_guard lock(mutex_);
    const auto found = under_way_.find(allocation);
    if (found == under_way_.end()) {
      return std::nullopt;
    }
    now = found->second.Get();
  }
  if (!now.error) {
    return std::nullopt;
  }
  return std::string(StepName(now.step)) + " of a volume: a plugin's call " +
         "failed (" + std::string(CodeName(*now.error)) +
         "); mountd is at try " + std::to_string(now.attempt) + " of it";
}

Result<FenceRecord> Fences::Finish(const std::string& allocation) {
  const std::optional<FenceRecord> fence = PendingOf(leases_, allocation);
  if (!fence) {
    MOUNTD_ASSIGN(const std::optional<FenceRecord> done,
                  parts_.state.leases.GetFence(allocation));
    return done ? Result<FenceRecord>(*done)
                : Result<FenceRecord>(MakeError(Code::kNotFound, "fence",
                                                "allocation " + allocation,
                                                "has no fence"));
  }
  if (fence->tasks_stopped.boot_us == 0) {
    return MakeError(Code::kFailedPrecondition, "fence",
                     "allocation " + allocation,
                     "its tasks have still to be stopped");
  }
  const UnderWay under_way(*this, allocation);
  return Finish(*fence, under_way.progress());
}

Result<FenceRecord> Fences::Finish(const FenceRecord& fence,
                                   const Progress& progress) {
  const std::string& allocation = fence.allocation;
  const std::unique_ptr<OperationTrace> trace = TraceOf(fence);
  const CurrentTrace current(trace.get());
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> record,
                parts_.state.allocations.GetAllocation(allocation));
  Result<bool> detached = false;
  if (record) {
    if (const Result<void> searched = Search(*record, fence.attempts);
        !searched) {
      return Failed(allocation, searched.error());
    }
    detached = Detach(*record, fence, progress);
  } else {
    // Another call has released the allocation, or mountd was killed after the
    // release.
    detached = IsDetachedByRelease(parts_, allocation);
  }
  if (!detached) {
    return Failed(allocation, detached.error());
  }
  const FenceTime now = leases_.Now();
  return leases_.Change(allocation, [&](FenceRecord& done) {
    // If another lease lapsed meanwhile and asks for more, the fence is not
    // done yet.
    if (done.tasks_stopped.boot_us == 0 || done.on_lapse != fence.on_lapse) {
      return;
    }
    done.volumes_detached = *detached;
    if (*detached) {
      // The release has searched again, so a copy of the first search is gone.
      done.copies.clear();
    }
    done.state = FenceState::kDone;
    done.done = now;
    done.error.clear();
  });
}

}  // namespace mountd
