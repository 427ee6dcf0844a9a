// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/teardowns.h"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "mountd/base/operation_trace.h"
#include "mountd/base/wall_clock.h"
#include "mountd/executors/holder_report.h"
#include "mountd/plan/wire.h"
#include "mountd/service/unchecked_mounts.h"

namespace mountd {
namespace {

OwedRecord Owed(OwedKind kind, std::string object, std::uint32_t uid,
                const Error& why) {
  return {0, kind, std::move(object), uid, why.Message(), 1, NowMicroseconds()};
}

}  // namespace

std::string_view OwedKindName(OwedKind kind) {
  switch (kind) {
    case OwedKind::kRelease:
      return "release";
    case OwedKind::kUnpublish:
      return "unpublish";
    case OwedKind::kTeardownNetwork:
      return "teardown-network";
    case OwedKind::kUnstage:
      return "unstage";
    case OwedKind::kUnmount:
      break;
  }
  return "unmount";
}

namespace {

// Returns the name of the allocation; for an unstage the name of the plugin.
std::string FirstPartOf(const OwedRecord& owed) {
  return owed.object.substr(0, owed.object.find('/'));
}

}  // namespace

std::string StrandOf(const OwedRecord& owed) {
  return owed.kind == OwedKind::kUnstage ? "volume " + owed.object
                                         : AllocationStrand(FirstPartOf(owed));
}

std::string AllocationStrand(const std::string& allocation) {
  return "allocation " + allocation;
}

exec::AllocationPlan PlanOf(const AllocationRecord& record) {
  return {exec::ToWire(record.id), record.uid};
}

namespace {

// Returns whether a search for copies knows the mount by its id. The mount of
// an operation that was cut off has no id yet, and a lost one is gone.
bool HasKnownId(const MountRecord& mount) {
  return mount.state == MountRecordState::kAttached ||
         mount.state == MountRecordState::kDetaching ||
         mount.state == MountRecordState::kFound;
}

}  // namespace

Result<void> Teardowns::UnmountAllOf(const AllocationRecord& record,
                                     const Manner& manner) {
  Result<void> outcome = parts_.mounts.UnmountAll(
      record.id, manner.progress,
      // With kIgnore only detach the mount, because a process may still use it.
      manner.on_tasks == OnTasks::kIgnore ? exec::UnmountMode::kDetach
                                          : exec::UnmountMode::kPlain);
  if (outcome || outcome.error().code != Code::kBusy) {
    return outcome;
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.mounts.MountsOf(record.id));
  const auto busy =
      std::find_if(mounts.begin(), mounts.end(), [&](const MountRecord& mount) {
        return Described(mount) == outcome.error().object;
      });
  return WithHolders(record, busy == mounts.end() ? 0 : busy->mount_id,
                     std::move(outcome).error());
}

Result<void> Teardowns::UnpublishIfUnused(const AllocationRecord& record,
                                          const PublicationRecord& publication,
                                          const Manner& manner) {
  const bool ignores = manner.on_tasks == OnTasks::kIgnore;
  MOUNTD_TRY(CheckUnused(record.id, publication.alias));
  return parts_.volumes.Unpublish(
      record.id, publication.alias, manner.progress,
      {record.cgroup, ignores,
       /*was_looked_for=*/!ignores && publication.mount_id != 0});
}

// Removes tasks' mounts first, and then their sources. Removes networks last,
// because a volume's server may be reachable only through one of them. If an
// object cannot be removed, the objects that it depends on stay, and all others
// are removed. Returns the first error. Removes nothing if volumes of other
// allocations need a plugin of this allocation.
Result<void> Teardowns::Undo(const AllocationRecord& record,
                             const Manner& manner) {
  const Progress& progress = manner.progress;
  const bool ignores = manner.on_tasks == OnTasks::kIgnore;
  MOUNTD_TRY(parts_.plugins.CheckUnused(record.id));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> publications,
                parts_.volumes.Of(record.id));
  MOUNTD_ASSIGN(const std::vector<std::string> interfaces,
                parts_.networks.TeardownOrder(record.id));
  MOUNTD_ASSIGN(std::vector<MountRecord> unchecked,
                parts_.boot.mounts.MountsOf(record.id));
  if (!ignores) {
    std::erase_if(unchecked, HasKnownId);
  }
  MOUNTD_TRY(NoteUnchecked(parts_, record, unchecked));
  progress.Expect(publications.size() + interfaces.size());
  Result<void> outcome = UnmountAllOf(record, manner);
  // After a failure continue with the later steps, and return the first error.
  const auto keep_first = [&outcome](Result<void> next) {
    if (!next && outcome) {
      outcome = std::move(next);
    }
  };
  for (const PublicationRecord& publication : publications) {
    keep_first(UnpublishIfUnused(record, publication, manner));
    progress.Advance();
  }
  // End plugins after the volumes, because a volume may belong to a plugin of
  // this allocation.
  Result<void> ended = parts_.plugins.UnregisterOf(record.id);
  for (const std::string& interface : interfaces) {
    // If a plugin could not end, keep the networks, because the plugin may need
    // them.
    if (ended) {
      keep_first(parts_.networks.Teardown(record.id, interface, progress));
    }
    progress.Advance();
  }
  keep_first(std::move(ended));
  progress.At(Step::kWork);
  MOUNTD_TRY(std::move(outcome));
  // The directory goes last, once nothing of the allocation is left.
  MOUNTD_TRY(parts_.executor.RemoveAllocation(PlanOf(record)));
  return parts_.boot.inboxes.RemoveInboxes(record.id);
}

namespace {

// Returns whether a search for copies can find those of this mount. Without a
// cgroup a task's copy looks like another user's mount of the same source. Two
// sources are exceptions: a tmpfs, because it belongs to one mount, and with
// `volumes_too` a volume that is removed as a whole.
bool IsSearched(const AllocationRecord& record, const MountRecord& mount,
                bool volumes_too) {
  return mount.mount_id != 0 &&
         mount.wish.target_kind != exec::TargetKind::kContainer &&
         (record.cgroup != 0 ||
          mount.wish.source_kind == exec::SourceKind::kTmpfs ||
          (volumes_too &&
           mount.wish.source_kind == exec::SourceKind::kPublishedVolume));
}

std::vector<std::uint64_t> SearchedOf(const AllocationRecord& record,
                                      const MountRecord& mount) {
  return IsSearched(record, mount, /*volumes_too=*/false)
             ? std::vector<std::uint64_t>{mount.mount_id}
             : std::vector<std::uint64_t>();
}

}  // namespace

Result<void> Teardowns::CheckCopies(
    const AllocationRecord& record, const char* op, const std::string& object,
    const std::vector<std::uint64_t>& mount_ids) {
  for (std::size_t at = 0; at < mount_ids.size();
       at += exec::kMaxCopiedMounts) {
    exec::CopiesPlan plan;
    plan.scope = record.cgroup != 0 ? exec::HolderScope::kCgroup
                                    : exec::HolderScope::kNode;
    plan.cgroup = record.cgroup;
    plan.budget_ms = SearchBudgetMs(parts_.config.timeouts().plan);
    while (plan.count < plan.mount_ids.size() &&
           at + plan.count < mount_ids.size()) {
      plan.mount_ids.at(plan.count) = mount_ids[at + plan.count];
      ++plan.count;
    }
    MOUNTD_ASSIGN(const exec::CopiesState found,
                  FindCopies(parts_.executor, plan));
    MOUNTD_TRY(CheckNoCopies(found.holders, op, object));
  }
  return Ok();
}

// Searches once for copies of all of the allocation's mounts, before anything
// is removed.
Result<void> Teardowns::CheckRelease(const AllocationRecord& record,
                                     const Manner& manner) {
  if (manner.on_tasks == OnTasks::kIgnore) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.mounts.MountsOf(record.id));
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> publications,
                parts_.state.volumes.PublicationsOf(record.id));
  std::vector<std::uint64_t> ids;
  for (const MountRecord& mount : mounts) {
    if (IsSearched(record, mount, /*volumes_too=*/true)) {
      ids.push_back(mount.mount_id);
    }
  }
  for (const PublicationRecord& one : publications) {
    if (one.mount_id != 0) {
      ids.push_back(one.mount_id);
    }
  }
  return Await(manner, [&] {
    return CheckCopies(record, "release", "allocation " + record.id, ids);
  });
}

Result<void> Teardowns::CheckReplaceable(const AllocationRecord& record,
                                         const MountRecord& mount,
                                         const Manner& manner) {
  return manner.on_tasks == OnTasks::kIgnore ? Ok() : Await(manner, [&] {
    return CheckCopies(record, "replace", Described(mount),
                       SearchedOf(record, mount));
  });
}

// Repeats the check until no task has a copy, because the kernel does not
// notify of changes in other mount namespaces.
Result<void> Teardowns::Await(const Manner& manner,
                              const std::function<Result<void>()>& look) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kMostPause(1000);
  const Clock::time_point deadline =
      Clock::now() + parts_.config.timeouts().rpc_retries;
  std::chrono::milliseconds pause(20);
  Result<void> outcome = look();
  while (!outcome && outcome.error().code == Code::kBusy &&
         manner.on_tasks == OnTasks::kWait && Clock::now() < deadline) {
    MOUNTD_TRY(CheckNotCancelled(manner.cancelled, outcome.error().op,
                                 outcome.error().object));
    manner.progress.At(Step::kTasks);
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kMostPause);
    outcome = look();
  }
  manner.progress.At(Step::kWork);
  return outcome;
}

Result<bool> Teardowns::HasUsersOfUnchecked(const AllocationRecord& record) {
  MOUNTD_ASSIGN(const std::vector<UncheckedRecord> unchecked,
                parts_.state.unchecked.UncheckedOf(record.id));
  MOUNTD_ASSIGN(const std::optional<std::string> users,
                UsersOfUnchecked(parts_, unchecked, record.uid));
  return users.has_value();
}

Result<ReceiptRecord> Teardowns::Release(const AllocationRecord& record,
                                         const Manner& manner) {
  if (Result<void> unused = CheckRelease(record, manner); !unused) {
    // A release that had begun before stays pending.
    if (record.state == AllocationState::kReleasing) {
      MOUNTD_TRY(parts_.state.owed.AddOwed(
          Owed(OwedKind::kRelease, record.id, record.uid, unused.error())));
    }
    return std::move(unused).error();
  }
  MOUNTD_TRY(parts_.state.allocations.SetAllocationState(
      record.id, AllocationState::kReleasing));
  if (Result<void> undone = Undo(record, manner); !undone) {
    MOUNTD_TRY(parts_.state.owed.AddOwed(
        Owed(OwedKind::kRelease, record.id, record.uid, undone.error())));
    return std::move(undone).error();
  }
  ReceiptRecord receipt;
  receipt.allocation = record.id;
  receipt.uid = record.uid;
  receipt.released_at_us = NowMicroseconds();
  if (const OperationTrace* const trace = CurrentTrace::Get()) {
    const CallTrace& call = trace->call();
    receipt.traceparent = call.parent ? ToText(*call.parent) : "";
    receipt.request_id = call.request_id;
  }
  MOUNTD_ASSIGN(receipt,
                parts_.state.allocations.FinishAllocation(std::move(receipt)));
  const Result<bool> has_users = HasUsersOfUnchecked(record);
  receipt.has_users = !has_users || *has_users;
  // If mountd is killed or this fails, the next start or BeginHistory forgets
  // the lease.
  IgnoreBecauseBestEffort(leases_.Forget(record.id));
  return receipt;
}

// Busy while a bind mount of the volume is left.
Result<void> Teardowns::CheckUnused(const std::string& allocation,
                                    const std::string& alias) {
  MOUNTD_ASSIGN(const std::vector<MountConfig> mounts,
                parts_.mounts.Of(allocation));
  const auto user =
      std::find_if(mounts.begin(), mounts.end(), [&](const MountConfig& m) {
        return m.record.wish.source_kind ==
                   exec::SourceKind::kPublishedVolume &&
               m.record.wish.source == alias;
      });
  if (user != mounts.end()) {
    return MakeError(Code::kBusy, "unpublish",
                     "volume " + allocation + "/" + alias,
                     "is still bind-mounted; unmount " + user->record.task +
                         "/" + user->record.name + " first");
  }
  return Ok();
}

Result<void> Teardowns::Unpublish(const AllocationRecord& record,
                                  const std::string& alias,
                                  const Manner& manner) {
  MOUNTD_TRY(CheckUnused(record.id, alias));
  Result<void> outcome = Await(manner, [&] {
    return parts_.volumes.Unpublish(
        record.id, alias, manner.progress,
        {record.cgroup, manner.on_tasks == OnTasks::kIgnore, false});
  });
  if (!outcome) {
    MOUNTD_ASSIGN(const std::optional<PublicationRecord> now,
                  parts_.state.volumes.GetPublication(record.id, alias));
    if (now && now->state != PublicationState::kUnpublishing) {
      return outcome;  // unchanged, so nothing is pending
    }
  }
  return OweUnlessDone(OwedKind::kUnpublish, record.id + "/" + alias,
                       record.uid, std::move(outcome));
}

Result<void> Teardowns::Unmount(const AllocationRecord& record,
                                const std::string& task,
                                const std::string& name, exec::UnmountMode mode,
                                const Manner& manner) {
  MOUNTD_ASSIGN(const std::optional<MountRecord> before,
                parts_.boot.mounts.GetMount(record.id, task, name));
  if (before && (mode == exec::UnmountMode::kDetach ||
                 manner.on_tasks == OnTasks::kIgnore || !HasKnownId(*before))) {
    MOUNTD_TRY(NoteUnchecked(parts_, record, {*before}));
  }
  if (before && mode != exec::UnmountMode::kDetach &&
      manner.on_tasks != OnTasks::kIgnore) {
    MOUNTD_TRY(Await(manner, [&] {
      return CheckCopies(record, "unmount", Described(*before),
                         SearchedOf(record, *before));
    }));
  }
  Result<void> unmounted = parts_.mounts.Unmount(record.id, task, name, mode);
  if (!unmounted && unmounted.error().code == Code::kBusy) {
    // The mount is still there, so nothing is pending.
    MOUNTD_ASSIGN(const std::optional<MountRecord> mount,
                  parts_.boot.mounts.GetMount(record.id, task, name));
    return WithHolders(record, mount ? mount->mount_id : 0,
                       std::move(unmounted).error());
  }
  return OweUnlessDone(OwedKind::kUnmount, record.id + "/" + task + "/" + name,
                       record.uid, std::move(unmounted));
}

// Adds to the error the processes that use the mount, because the owner has to
// end them next. If the search fails, returns the error unchanged.
Error Teardowns::WithHolders(const AllocationRecord& record,
                             std::uint64_t mount_id, Error busy) {
  const std::optional<HolderReport> report =
      HoldersIn(parts_.executor, record.cgroup, mount_id);
  if (report && !report->holders.empty()) {
    busy.detail +=
        (busy.detail.empty() ? "used by " : "; used by ") + Summary(*report);
  }
  return busy;
}

Result<void> Teardowns::OweUnlessUndone(const BindMountRequest& spec) {
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> left,
      parts_.boot.mounts.GetMount(spec.allocation, spec.task, spec.name));
  return left && left->state == MountRecordState::kAttaching
             ? Owe(OwedKind::kUnmount, spec.allocation, Described(*left))
             : Ok();
}

Result<void> Teardowns::LoseIfLapsed(const AllocationRecord& record,
                                     const BindMountRequest& spec) {
  Result<void> usable = leases_.CheckUsable(record);
  if (usable) {
    return usable;
  }
  Error lapsed = std::move(usable).error();
  Result<void> lost = NoteUnchecked(parts_, record, {RecordOf(spec)});
  if (lost) {
    lost = parts_.mounts.Lose(spec.allocation, spec.task, spec.name);
  }
  if (!lost) {
    // If this fails too, the unmount is pending now.
    IgnoreBecauseBestEffort(Unmount(record, spec.task, spec.name,
                                    exec::UnmountMode::kDetach,
                                    {OnTasks::kIgnore}));
  }
  lapsed.detail += "; the lapse came after the swap, so " +
                   Described(RecordOf(spec)) +
                   " has neither its old nor its new mount, and " +
                   (lost ? "RepairMount" : "BindMount") +
                   " mounts it again after AcquireLease";
  return lapsed;
}

Result<void> Teardowns::TeardownNetwork(const AllocationRecord& record,
                                        const std::string& interface,
                                        const Progress& progress) {
  return OweUnlessDone(
      OwedKind::kTeardownNetwork, record.id + "/" + interface, record.uid,
      parts_.networks.Teardown(record.id, interface, progress));
}

Result<void> Teardowns::TeardownNetworks(const AllocationRecord& record,
                                         const Progress& progress) {
  MOUNTD_ASSIGN(const std::vector<std::string> interfaces,
                parts_.networks.TeardownOrder(record.id));
  progress.Expect(interfaces.size());
  for (const std::string& interface : interfaces) {
    MOUNTD_TRY(TeardownNetwork(record, interface, progress));
    progress.Advance();
  }
  return Ok();
}

Result<void> Teardowns::OweUnlessDone(OwedKind kind, const std::string& object,
                                      std::uint32_t uid, Result<void> outcome) {
  if (outcome) {
    MOUNTD_TRY(parts_.state.owed.RemoveOwed(kind, object));
  } else {
    MOUNTD_TRY(
        parts_.state.owed.AddOwed(Owed(kind, object, uid, outcome.error())));
  }
  return outcome;
}

Result<void> Teardowns::Retry(const OwedRecord& owed) {
  // The tear-down may have been done since the list was made, and an object of
  // the same name made again.
  MOUNTD_ASSIGN(const bool still_owed, parts_.state.owed.IsOwed(owed.id));
  if (!still_owed) {
    return Ok();
  }
  const std::string allocation = FirstPartOf(owed);
  const std::string rest =
      owed.object.substr(std::min(allocation.size() + 1, owed.object.size()));
  if (owed.kind == OwedKind::kUnstage) {
    return OweUnlessDone(owed.kind, owed.object, owed.uid,
                         parts_.volumes.FinishDeparted(allocation, rest));
  }
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> record,
                parts_.state.allocations.GetAllocation(allocation));
  // The allocation is released, so all of its tear-downs are done.
  if (!record) {
    return parts_.state.owed.RemoveOwed(owed.kind, owed.object);
  }
  const std::size_t slash = rest.find('/');
  switch (owed.kind) {
    case OwedKind::kRelease:
      MOUNTD_TRY(Release(*record));
      return Ok();
    case OwedKind::kUnpublish:
      return Unpublish(*record, rest);
    case OwedKind::kTeardownNetwork:
      return TeardownNetwork(*record, rest);
    case OwedKind::kUnmount:
      return Unmount(*record, rest.substr(0, slash), rest.substr(slash + 1));
    case OwedKind::kUnstage:
      break;
  }
  return Ok();
}

Result<void> Teardowns::OweCutOff() {
  MOUNTD_ASSIGN(const std::vector<AllocationRecord> allocations,
                parts_.state.allocations.ListAllocations());
  for (const AllocationRecord& record : allocations) {
    if (record.state == AllocationState::kReleasing) {
      MOUNTD_TRY(Owe(OwedKind::kRelease, record.id, record.id));
    }
  }
  MOUNTD_ASSIGN(const std::vector<PublicationRecord> publications,
                parts_.state.volumes.ListPublications());
  for (const PublicationRecord& publication : publications) {
    if (publication.state == PublicationState::kUnpublishing) {
      MOUNTD_TRY(Owe(OwedKind::kUnpublish, publication.allocation,
                     publication.allocation + "/" + publication.alias));
    }
  }
  MOUNTD_ASSIGN(const std::vector<MountRecord> mounts,
                parts_.boot.mounts.ListMounts());
  for (const MountRecord& mount : mounts) {
    if (mount.state == MountRecordState::kAttaching ||
        mount.state == MountRecordState::kDetaching) {
      MOUNTD_TRY(Owe(OwedKind::kUnmount, mount.allocation,
                     mount.allocation + "/" + mount.task + "/" + mount.name));
    }
  }
  MOUNTD_ASSIGN(const std::vector<NetworkRecord> networks,
                parts_.boot.networks.ListNetworks());
  for (const NetworkRecord& network : networks) {
    if (network.state != NetworkRecordState::kCreated &&
        network.state != NetworkRecordState::kFound) {
      MOUNTD_TRY(Owe(OwedKind::kTeardownNetwork, network.allocation,
                     network.allocation + "/" + network.interface));
    }
  }
  return Ok();
}

Result<void> Teardowns::Owe(OwedKind kind, const std::string& allocation,
                            const std::string& object) {
  MOUNTD_ASSIGN(const std::optional<AllocationRecord> owner,
                parts_.state.allocations.GetAllocation(allocation));
  return parts_.state.owed.AddOwed(
      Owed(kind, object, owner ? owner->uid : 0,
           MakeError(Code::kAborted, std::string(OwedKindName(kind)), object,
                     "was interrupted")));
}

Result<void> Teardowns::Forgive(OwedKind kind, const std::string& object) {
  return parts_.state.owed.RemoveOwed(kind, object);
}

}  // namespace mountd
