// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/mount_verbs.h"

#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "mountd/service/filesystem_users.h"
#include "mountd/service/handed_out.h"
#include "mountd/service/unchecked_mounts.h"

namespace mountd {

// Removes a pending unmount, because the mount was requested again.
Result<void> MountVerbs::Forgive(const BindMountRequest& request) {
  return teardowns_.Forgive(OwedKind::kUnmount, Described(RecordOf(request)));
}

Result<MountConfig> MountVerbs::BindMount(const CallContext& call,
                                          BindMountRequest request) {
  std::vector<BindMountRequest> requests;
  requests.push_back(std::move(request));
  MOUNTD_ASSIGN(std::vector<MountConfig> configs,
                BindMounts(call, std::move(requests)));
  return std::move(configs.front());
}

Result<std::vector<MountConfig>> MountVerbs::BindMounts(
    const CallContext& call, std::vector<BindMountRequest> requests) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                access_.FindPrepared(call, requests.front().allocation));
  // Check all requests before mounting any.
  for (BindMountRequest& request : requests) {
    MOUNTD_TRY(admission_.Authorise(call, owner, request));
    MOUNTD_TRY(admission_.CheckRoom(request));
  }
  MOUNTD_ASSIGN(const std::vector<bool> existed, ExistBefore(owner, requests));
  Result<std::vector<MountConfig>> configs =
      parts_.mounts.Bind(requests, call.progress);
  for (const BindMountRequest& request : requests) {
    MOUNTD_TRY(configs ? Forgive(request)
                       : teardowns_.OweUnlessUndone(request));
  }
  for (std::size_t i = 0; configs && i < requests.size(); ++i) {
    if (Result<void> used = existed[i] ? access_.leases().CheckUsable(owner)
                                       : UndoIfLapsed(owner, requests[i]);
        !used) {
      configs = std::move(used).error();
      // Undo the call's other mounts, too.
      for (std::size_t next = i + 1; next < requests.size(); ++next) {
        if (!existed[next]) {
          IgnoreBecauseBestEffort(UndoIfLapsed(owner, requests[next]));
        }
      }
    }
  }
  return configs;
}

// Returns for each request whether its mount existed before the call. Reads the
// store only if a lease may lapse during the call.
Result<std::vector<bool>> MountVerbs::ExistBefore(
    const AllocationRecord& owner,
    const std::vector<BindMountRequest>& requests) {
  std::vector<bool> existed(requests.size(), false);
  if (!access_.leases().IsBound(owner)) {
    return existed;
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    MOUNTD_ASSIGN(
        const std::optional<MountRecord> mount,
        parts_.boot.mounts.GetMount(requests[i].allocation, requests[i].task,
                                    requests[i].name));
    existed[i] = mount.has_value();
  }
  return existed;
}

// If the lease lapsed during the call, removes the mount that the call made,
// and returns the refusal. Only detaches a mount that a task already uses.
Result<void> MountVerbs::UndoIfLapsed(const AllocationRecord& owner,
                                      const BindMountRequest& request) {
  Result<void> usable = access_.leases().CheckUsable(owner);
  if (usable) {
    return usable;
  }
  const auto unmount = [&](exec::UnmountMode mode) {
    return teardowns_.Unmount(owner, request.task, request.name, mode,
                              {OnTasks::kIgnore});
  };
  if (const Result<void> gone = unmount(exec::UnmountMode::kPlain); !gone) {
    // If this fails too, the unmount is pending now.
    IgnoreBecauseBestEffort(unmount(exec::UnmountMode::kDetach));
  }
  return usable;
}

// Returns the processes that use a mount, before the mount is replaced. These
// processes keep the old mount. After the replacement a search could not find
// them, because a task's copy of the old mount is in no mount namespace any
// more.
std::optional<HolderReport> MountVerbs::HoldersBefore(
    const AllocationRecord& owner, const std::optional<MountRecord>& old) {
  return old ? HoldersIn(parts_.executor, owner.cgroup, old->mount_id)
             : std::nullopt;
}

namespace {

// Refuses a mount that cannot replace another mount.
Result<void> CheckReplaces(const BindMountRequest& request) {
  const auto refuse = [&](Code code, const char* why) {
    return MakeError(code, "replace", Described(RecordOf(request)), why);
  };
  if (request.wish.source_kind == exec::SourceKind::kTmpfs) {
    return refuse(Code::kNotSupported,
                  "a tmpfs begins empty and cannot be replaced; unmount it and "
                  "mount it again");
  }
  if (request.wish.source_kind == exec::SourceKind::kDirectory) {
    return refuse(Code::kNotSupported,
                  "a directory of the caller's cannot replace a mount; unmount "
                  "it and mount it again");
  }
  if (request.wish.target_kind != exec::TargetKind::kInbox) {
    return refuse(Code::kInvalidArgument,
                  "a mount can be replaced only in an inbox");
  }
  return Ok();
}

}  // namespace

Result<Mounts::Replaced> MountVerbs::ReplaceMount(const CallContext& call,
                                                  BindMountRequest request,
                                                  OnTasks on_tasks) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                access_.FindPrepared(call, request.allocation));
  MOUNTD_TRY(CheckReplaces(request));
  MOUNTD_TRY(admission_.Authorise(call, owner, request));
  MOUNTD_ASSIGN(const std::optional<MountRecord> old,
                parts_.boot.mounts.GetMount(request.allocation, request.task,
                                            request.name));
  if (old) {
    MOUNTD_TRY(teardowns_.CheckReplaceable(
        owner, *old, {on_tasks, call.progress, call.cancelled}));
  }
  const std::optional<HolderReport> holders = HoldersBefore(owner, old);
  call.progress.At(StepOf(request));
  // Check again, because the searches above may have taken long.
  MOUNTD_TRY(access_.leases().CheckUsable(owner));
  if (old) {
    MOUNTD_TRY(NoteUnchecked(parts_, owner, {*old}));
  }
  MOUNTD_ASSIGN(Mounts::Replaced replaced, parts_.mounts.Replace(request));
  MOUNTD_TRY(Forgive(request));
  // If old_mount_id is 0, an earlier call has already replaced the mount, and
  // the mount of that call stays.
  MOUNTD_TRY(replaced.old_mount_id == 0
                 ? access_.leases().CheckUsable(owner)
                 : teardowns_.LoseIfLapsed(owner, request));
  replaced.old_holders = replaced.old_mount_id != 0 ? holders : std::nullopt;
  return replaced;
}

namespace {

Result<void> CheckRepairable(const MountRecord& mount) {
  const auto refused = [&](Code code, const char* why) {
    return MakeError(code, "repair", Described(mount), why);
  };
  if (mount.wish.source_kind == exec::SourceKind::kTmpfs) {
    return refused(Code::kFailedPrecondition,
                   "the contents of a tmpfs are lost with it; unmount it and "
                   "mount it again");
  }
  if (mount.wish.source_kind == exec::SourceKind::kDirectory) {
    return refused(Code::kFailedPrecondition,
                   "mountd keeps no descriptor of its directory; unmount it "
                   "and mount it again");
  }
  if (mount.wish.target_kind != exec::TargetKind::kInbox) {
    return refused(Code::kNotSupported,
                   "mountd repairs mounts only in an inbox; unmount it and "
                   "mount it again");
  }
  return Ok();
}

// Returns why the repair does not reach the task; "" if it does. The task's
// copy of the inbox gets the new mount. But without an inbox, and for a
// bidirectional mount, the runtime has made a bind mount of its own, and mountd
// cannot change that.
std::string WhyNotReached(const MountRecord& mount, bool has_inbox) {
  if (!has_inbox) {
    return "the task has no inbox, so its runtime's own bind mount stays as it "
           "is";
  }
  return mount.wish.propagation == exec::Propagation::kBidirectional
             ? "the task sees a bidirectional mount through its runtime's own "
               "bind mount"
             : "";
}

}  // namespace

Result<MountVerbs::Repaired> MountVerbs::RepairMount(const CallContext& call,
                                                     const Name& allocation,
                                                     const Name& task,
                                                     const Name& name) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                access_.FindPrepared(call, allocation.str()));
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> mount,
      parts_.boot.mounts.GetMount(allocation.str(), task.str(), name.str()));
  if (!mount) {
    return MakeError(Code::kNotFound, "repair",
                     allocation.str() + "/" + task.str() + "/" + name.str(),
                     "is not mounted");
  }
  MOUNTD_TRY(CheckRepairable(*mount));
  BindMountRequest request = RequestOf(*mount);
  // Check with the owner's rights, because the mount stays the owner's. So an
  // administrator needs no rule of its own.
  MOUNTD_TRY(admission_.AuthoriseOwners(call, owner, request));
  const std::optional<HolderReport> holders = HoldersBefore(owner, mount);
  Repaired repaired;
  call.progress.At(StepOf(request));
  // Check again, because the search above may have taken long.
  MOUNTD_TRY(access_.leases().CheckUsable(owner));
  MOUNTD_TRY(NoteUnchecked(parts_, owner, {*mount}));
  MOUNTD_ASSIGN(repaired.replaced, parts_.mounts.Repair(request));
  MOUNTD_TRY(Forgive(request));
  MOUNTD_TRY(teardowns_.LoseIfLapsed(owner, request));
  repaired.replaced.old_holders = holders;
  MOUNTD_ASSIGN(const std::vector<std::string> inboxes,
                parts_.boot.inboxes.InboxesOf(allocation.str()));
  const bool has_inbox =
      std::find(inboxes.begin(), inboxes.end(), task.str()) != inboxes.end();
  repaired.reason = WhyNotReached(*mount, has_inbox);
  repaired.reaches_task = repaired.reason.empty();
  return repaired;
}

Result<UniqueFd> MountVerbs::OpenTree(const CallContext& call,
                                      BindMountRequest request) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                access_.FindPrepared(call, request.allocation));
  MOUNTD_TRY(access_.PolicyFor(call).mounts().MayOpenTree(call.caller));
  const auto refused = [&](Code code, const char* why) {
    return MakeError(code, "open-tree",
                     request.allocation + "/" + request.wish.source, why);
  };
  if (request.wish.source_kind == exec::SourceKind::kTmpfs) {
    return refused(Code::kInvalidArgument,
                   "a tmpfs cannot be opened as a detached mount");
  }
  if (request.wish.source_kind == exec::SourceKind::kDirectory) {
    return refused(Code::kInvalidArgument,
                   "a directory of the caller's cannot be opened as a detached "
                   "mount");
  }
  if (request.wish.propagation == exec::Propagation::kBidirectional) {
    return refused(Code::kInvalidArgument,
                   "a detached mount cannot be bidirectional");
  }
  MOUNTD_TRY(admission_.Authorise(call, owner, request));
  call.progress.At(StepOf(request));
  HandedOutRecord record;
  record.allocation = owner.id;
  record.uid = owner.uid;
  record.source_kind = request.wish.source_kind;
  record.name = request.wish.source;
  MOUNTD_ASSIGN(UniqueFd tree, HandOut(parts_, std::move(record), [&] {
                  return parts_.mounts.OpenTree(request);
                }));
  MOUNTD_TRY(access_.leases().CheckUsable(owner));
  return tree;
}

namespace {

const char* NameOf(exec::UnmountMode mode) {
  return mode == exec::UnmountMode::kForce ? "force" : "abort";
}

}  // namespace

// Restricts force and abort, because they affect every user of the file system.
Result<void> MountVerbs::CheckUnmountMode(const CallContext& call,
                                          const MountRecord& mount,
                                          exec::UnmountMode mode) {
  if (mode == exec::UnmountMode::kPlain || mode == exec::UnmountMode::kDetach ||
      access_.PolicyFor(call).MayAdminister(call.caller)) {
    return Ok();
  }
  const auto denied = [&](const std::string& why) {
    return ButAdministrators(
        MakeError(Code::kPermissionDenied, "unmount", Described(mount),
                  std::string("mode ") + NameOf(mode) + ": " + why));
  };
  if (mount.wish.source_kind != exec::SourceKind::kPublishedVolume) {
    return denied(
        "its source belongs to the host, so only an administrator may do this");
  }
  const Result<std::optional<FilesystemUser>> other =
      FindOtherUser(parts_, mount);
  if (!other) {
    return denied("mountd cannot tell whether others use its file system: " +
                  other.error().Message());
  }
  if (*other) {
    return denied((*other)->uid == call.caller.uid
                      ? (*other)->what + " also uses its file system"
                      : "another user's allocation also uses its file system");
  }
  return Ok();
}

Result<void> MountVerbs::Unmount(const CallContext& call,
                                 const Name& allocation, const Name& task,
                                 const Name& name, exec::UnmountMode mode,
                                 OnTasks on_tasks) {
  MOUNTD_ASSIGN(const AllocationRecord record,
                access_.Find(call, allocation.str()));
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> mount,
      parts_.boot.mounts.GetMount(allocation.str(), task.str(), name.str()));
  if (mount) {
    MOUNTD_TRY(CheckUnmountMode(call, *mount, mode));
  }
  if (mode == exec::UnmountMode::kForce || mode == exec::UnmountMode::kAbort) {
    spdlog::info("unmount {}/{}/{} for uid {}: mode {}", allocation.str(),
                 task.str(), name.str(), call.caller.uid, NameOf(mode));
  }
  call.progress.At(Step::kUnmount);
  return teardowns_.Unmount(record, task.str(), name.str(), mode,
                            {on_tasks, call.progress, call.cancelled});
}

}  // namespace mountd
