// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Service's verbs on bind mounts.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "mountd/plan/plan_ids.h"
#include "mountd/plan/wire.h"
#include "mountd/service/filesystem_users.h"
#include "mountd/service/service.h"

namespace mountd {

Result<void> Service::CheckVolumeSource(BindMountRequest& request) {
  MOUNTD_ASSIGN(const std::optional<csi::PublishedVolume> volume,
                parts_.volumes.Get(request.allocation, request.source));
  const std::string object =
      "volume " + request.allocation + "/" + request.source;
  if (!volume) {
    return MakeError(Code::kNotFound, "bind-mount", object,
                     "is not published for this allocation; publish it first");
  }
  if (volume->record.state != PublicationState::kPublished) {
    return MakeError(
        Code::kFailedPrecondition, "bind-mount", object,
        "is " + std::string(csi::PublicationStateName(volume->record.state)));
  }
  if (volume->record.device != 0) {
    return MakeError(Code::kFailedPrecondition, "bind-mount", object,
                     "is a block device, which a bind mount with nodev makes "
                     "useless; give the task the device itself");
  }
  const bool writable = (request.attributes & exec::kReadOnly) == 0;
  if (volume->read_only && writable) {
    return MakeError(Code::kFailedPrecondition, "bind-mount", object,
                     "is published read-only; mount it read-only");
  }
  if (volume->read_only &&
      request.propagation == exec::Propagation::kBidirectional) {
    return MakeError(
        Code::kFailedPrecondition, "bind-mount", object,
        "is published read-only, but bidirectional needs write access");
  }
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> record,
                parts_.state.GetVolume(volume->record.key));
  if (!record) {
    return MakeError(Code::kInternal, "bind-mount", object, "has no record");
  }
  request.plugin = record->plugin;
  request.volume = record->key;
  return Ok();
}

// Fills in the owner's defaults for settings that the caller left out.
Result<void> Service::CompleteTmpfs(const AllocationRecord& owner,
                                    BindMountRequest& request) {
  const auto invalid = [](const char* what, const char* why) {
    return MakeError(Code::kInvalidArgument, "bind-mount", what, why);
  };
  exec::TmpfsPlan& tmpfs = request.tmpfs;
  if (!request.source.empty()) {
    return invalid("source", "must be empty for a tmpfs");
  }
  if (request.propagation != exec::Propagation::kPrivate) {
    return invalid("propagation", "must be private for a tmpfs");
  }
  if ((request.attributes & exec::kReadOnly) != 0) {
    return invalid("read_only", "is useless for a tmpfs, which begins empty");
  }
  if (tmpfs.bytes < exec::kMinTmpfsBytes) {
    return invalid("options[\"size\"]", "must be at least 4096 bytes");
  }
  const std::uint64_t most = tmpfs.bytes / exec::kTmpfsBytesPerInode;
  if (tmpfs.inodes > most) {
    return invalid("options[\"inodes\"]",
                   "must be at most one inode per KiB of size");
  }
  if ((tmpfs.mode & ~exec::kTmpfsModes) != 0) {
    return invalid("options[\"mode\"]", "must be at most 01777 (octal)");
  }
  tmpfs.inodes = tmpfs.inodes == 0 ? most : tmpfs.inodes;
  tmpfs.uid = tmpfs.uid == exec::kNoId ? owner.uid : tmpfs.uid;
  tmpfs.gid = tmpfs.gid == exec::kNoId ? owner.gid : tmpfs.gid;
  return Ok();
}

// Checks the room for one more mount. An existing mount needs none, because the
// call only returns it.
Result<void> Service::CheckRoom(const BindMountRequest& request) {
  const std::string object =
      request.allocation + "/" + request.task + "/" + request.name;
  const Result<void> room =
      parts_.room.Check("bind-mount", object, request.plugin);
  if (room) {
    return Ok();
  }
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> record,
      parts_.boot.GetMount(request.allocation, request.task, request.name));
  return record && record->state == MountRecordState::kAttached ? Ok() : room;
}

Result<void> Service::CheckIds(const CallContext& call,
                               const BindMountRequest& request) const {
  std::string_view fault = exec::FaultOf(request.ids);
  if (fault.empty() && request.ids.count != 0 &&
      request.source_kind == exec::SourceKind::kTmpfs) {
    fault = "is not possible for a tmpfs; set its owner with uid and gid";
  }
  if (!fault.empty()) {
    return MakeError(Code::kInvalidArgument, "bind-mount", "options[\"idmap\"]",
                     std::string(fault));
  }
  return PolicyFor(call).MayMapIds(call.caller, request.ids);
}

Result<void> Service::AuthoriseTarget(const CallContext& call,
                                      const AllocationRecord& owner,
                                      BindMountRequest& request) {
  if (request.target_kind == exec::TargetKind::kDirectory) {
    MOUNTD_ASSIGN(request.caller,
                  PolicyFor(call).MayPassDirectory(call.caller));
  }
  if (request.target_kind == exec::TargetKind::kContainer) {
    MOUNTD_ASSIGN(const exec::CgroupState task,
                  parts_.executor.InspectTask(request.fd->get()));
    MOUNTD_TRY(PolicyFor(call).MayMountIn(
        call.caller, task.path.data(),
        request.source_kind == exec::SourceKind::kTmpfs));
    MOUNTD_ASSIGN(request.caller_pid, LivingPidOf(call.caller));
    // The allocation's cgroup, if known, bounds where the container may be.
    request.cgroup = owner.cgroup != 0 ? owner.cgroup : task.id;
    request.place = std::to_string(task.mount_namespace);
  }
  return Ok();
}

// Checks whether the caller may have this mount, and fills in the plan's
// fields.
Result<void> Service::Authorise(const CallContext& call,
                                const AllocationRecord& owner,
                                BindMountRequest& request) {
  const bool read_only = (request.attributes & exec::kReadOnly) != 0;
  if (request.propagation == exec::Propagation::kBidirectional && read_only) {
    return MakeError(
        Code::kFailedPrecondition, "bind-mount",
        request.allocation + "/" + request.task + "/" + request.name,
        "bidirectional needs write access; leave out read_only");
  }
  request.uid = owner.uid;
  MOUNTD_TRY(AuthoriseTarget(call, owner, request));
  MOUNTD_TRY(CheckIds(call, request));
  switch (request.source_kind) {
    case exec::SourceKind::kHostVolume:
      return PolicyFor(call).MayMountHostVolume(call.caller, request.source,
                                                read_only, request.propagation);
    case exec::SourceKind::kFilesystem:
      return PolicyFor(call).MayMountFilesystem(call.caller, request.source,
                                                read_only, request.propagation);
    case exec::SourceKind::kPublishedVolume:
      MOUNTD_TRY(CheckVolumeSource(request));
      return PolicyFor(call).MayPropagate(call.caller, request.propagation);
    case exec::SourceKind::kTmpfs:
      return CompleteTmpfs(owner, request);
  }
  return Ok();
}

// Removes the pending unmount of a mount that is mounted again.
Result<void> Service::Forgive(const BindMountRequest& request) {
  return teardowns_.Forgive(OwedKind::kUnmount, Described(RecordOf(request)));
}

Result<MountConfig> Service::BindMount(const CallContext& call,
                                       BindMountRequest request) {
  std::vector<BindMountRequest> requests;
  requests.push_back(std::move(request));
  MOUNTD_ASSIGN(std::vector<MountConfig> configs,
                BindMounts(call, std::move(requests)));
  return std::move(configs.front());
}

Result<std::vector<MountConfig>> Service::BindMounts(
    const CallContext& call, std::vector<BindMountRequest> requests) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                FindPrepared(call, requests.front().allocation));
  // Check all requests before mounting any.
  for (BindMountRequest& request : requests) {
    MOUNTD_TRY(Authorise(call, owner, request));
    MOUNTD_TRY(CheckRoom(request));
  }
  Result<std::vector<MountConfig>> configs =
      parts_.mounts.Bind(requests, call.progress);
  for (const BindMountRequest& request : requests) {
    MOUNTD_TRY(configs ? Forgive(request)
                       : teardowns_.OweUnlessUndone(request));
  }
  return configs;
}

// Returns the processes that use a mount before a replacement, because they
// keep the old mount. Afterwards a task's copy is in no mount namespace any
// more, so a search could not find its mount.
std::optional<HolderReport> Service::HoldersBefore(
    const AllocationRecord& owner, const std::optional<MountRecord>& old) {
  return old ? HoldersIn(parts_.executor, owner.cgroup, old->mount_id)
             : std::nullopt;
}

Result<Mounts::Replaced> Service::ReplaceMount(const CallContext& call,
                                               BindMountRequest request,
                                               OnTasks on_tasks) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                FindPrepared(call, request.allocation));
  if (request.source_kind == exec::SourceKind::kTmpfs) {
    return MakeError(Code::kNotSupported, "replace",
                     Described(RecordOf(request)),
                     "a tmpfs begins empty and cannot be replaced; unmount it "
                     "and mount it again");
  }
  if (request.target_kind != exec::TargetKind::kInbox) {
    return MakeError(Code::kInvalidArgument, "replace",
                     Described(RecordOf(request)),
                     "a mount can be replaced only in an inbox");
  }
  MOUNTD_TRY(Authorise(call, owner, request));
  MOUNTD_ASSIGN(
      const std::optional<MountRecord> old,
      parts_.boot.GetMount(request.allocation, request.task, request.name));
  if (old) {
    MOUNTD_TRY(teardowns_.CheckReplaceable(
        owner, *old, {on_tasks, call.progress, call.cancelled}));
  }
  const std::optional<HolderReport> holders = HoldersBefore(owner, old);
  call.progress.At(StepOf(request));
  MOUNTD_ASSIGN(Mounts::Replaced replaced, parts_.mounts.Replace(request));
  MOUNTD_TRY(Forgive(request));
  replaced.old_holders = replaced.old_mount_id != 0 ? holders : std::nullopt;
  return replaced;
}

namespace {

Result<void> CheckRepairable(const MountRecord& mount) {
  const auto refused = [&](Code code, const char* why) {
    return MakeError(code, "repair", Described(mount), why);
  };
  if (mount.source_kind == exec::SourceKind::kTmpfs) {
    return refused(Code::kFailedPrecondition,
                   "the contents of a tmpfs are lost with it; unmount it and "
                   "mount it again");
  }
  if (mount.target_kind != exec::TargetKind::kInbox) {
    return refused(Code::kNotSupported,
                   "mountd repairs mounts only in an inbox; unmount it and "
                   "mount it again");
  }
  return Ok();
}

// Returns why the repair does not reach the task. A task's copy of the inbox
// follows the host's. A runtime's own bind of one mount is another mount, which
// the repair cannot reach.
std::string WhyNotReached(const MountRecord& mount, bool has_inbox) {
  if (!has_inbox) {
    return "the task has no inbox, so its runtime's own bind mount stays as it "
           "is";
  }
  return mount.propagation == exec::Propagation::kBidirectional
             ? "the task sees a bidirectional mount through its runtime's own "
               "bind mount"
             : "";
}

}  // namespace

Result<Service::Repaired> Service::RepairMount(const CallContext& call,
                                               const Name& allocation,
                                               const Name& task,
                                               const Name& name) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                FindPrepared(call, allocation.str()));
  MOUNTD_ASSIGN(const std::optional<MountRecord> mount,
                parts_.boot.GetMount(allocation.str(), task.str(), name.str()));
  if (!mount) {
    return MakeError(Code::kNotFound, "repair",
                     allocation.str() + "/" + task.str() + "/" + name.str(),
                     "is not mounted");
  }
  MOUNTD_TRY(CheckRepairable(*mount));
  BindMountRequest request = RequestOf(*mount);
  MOUNTD_TRY(Authorise(call, owner, request));
  const std::optional<HolderReport> holders = HoldersBefore(owner, mount);
  Repaired repaired;
  call.progress.At(StepOf(request));
  MOUNTD_ASSIGN(repaired.replaced, parts_.mounts.Repair(request));
  MOUNTD_TRY(Forgive(request));
  repaired.replaced.old_holders = holders;
  MOUNTD_ASSIGN(const std::vector<std::string> inboxes,
                parts_.boot.InboxesOf(allocation.str()));
  const bool has_inbox =
      std::find(inboxes.begin(), inboxes.end(), task.str()) != inboxes.end();
  repaired.reason = WhyNotReached(*mount, has_inbox);
  repaired.reaches_task = repaired.reason.empty();
  return repaired;
}

Result<UniqueFd> Service::OpenTree(const CallContext& call,
                                   BindMountRequest request) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                FindPrepared(call, request.allocation));
  MOUNTD_TRY(PolicyFor(call).MayOpenTree(call.caller));
  const auto refused = [&](Code code, const char* why) {
    return MakeError(code, "open-tree",
                     request.allocation + "/" + request.source, why);
  };
  if (request.source_kind == exec::SourceKind::kTmpfs) {
    return refused(Code::kInvalidArgument,
                   "a tmpfs cannot be opened as a detached mount");
  }
  if (request.propagation == exec::Propagation::kBidirectional) {
    return refused(Code::kInvalidArgument,
                   "a detached mount cannot be bidirectional");
  }
  MOUNTD_TRY(Authorise(call, owner, request));
  call.progress.At(StepOf(request));
  HandedOutRecord record;
  record.allocation = owner.id;
  record.uid = owner.uid;
  record.source_kind = request.source_kind;
  record.name = request.source;
  return HandOut(std::move(record),
                 [&] { return parts_.mounts.OpenTree(request); });
}

// Records the mount that is handed out. A mount without a unique id gets no
// record, because a later mount may have the same id.
Result<UniqueFd> Service::HandOut(
    HandedOutRecord record,
    const std::function<Result<exec::Executor::HandedOut>()>& open) {
  MOUNTD_TRY(MakeRoomFor(parts_, record));
  MOUNTD_ASSIGN(exec::Executor::HandedOut opened, open());
  record.mount = opened.mount;
  if (record.mount.mount_id != 0) {
    MOUNTD_TRY(parts_.boot.PutHandedOut(record));
  }
  return std::move(opened.fd);
}

Result<Service::Inbox> Service::PrepareInbox(const CallContext& call,
                                             const InboxRecord& record,
                                             bool open) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                FindPrepared(call, record.allocation));
  if (open) {
    MOUNTD_TRY(PolicyFor(call).MayOpenTree(call.caller));
  }
  Inbox inbox;
  MOUNTD_ASSIGN(inbox.host_path, parts_.mounts.PrepareInbox(record));
  if (open) {
    HandedOutRecord handed_out;
    handed_out.allocation = owner.id;
    handed_out.uid = owner.uid;
    handed_out.kind = HandedOutKind::kInbox;
    handed_out.name = record.task;
    MOUNTD_ASSIGN(UniqueFd tree, HandOut(std::move(handed_out), [&] {
                    return parts_.mounts.OpenInbox(record);
                  }));
    inbox.tree = std::make_shared<UniqueFd>(std::move(tree));
  }
  return inbox;
}

Result<void> Service::RemoveInbox(const CallContext& call,
                                  const InboxRecord& inbox) {
  MOUNTD_TRY(Find(call, inbox.allocation));
  return parts_.mounts.RemoveInbox(inbox);
}

namespace {

const char* NameOf(exec::UnmountMode mode) {
  return mode == exec::UnmountMode::kForce ? "force" : "abort";
}

}  // namespace

// Restricts force and abort, because they affect every user of the file system.
Result<void> Service::CheckUnmountMode(const CallContext& call,
                                       const MountRecord& mount,
                                       exec::UnmountMode mode) {
  if (mode == exec::UnmountMode::kPlain || mode == exec::UnmountMode::kDetach ||
      PolicyFor(call).MayAdminister(call.caller)) {
    return Ok();
  }
  const auto denied = [&](const std::string& why) {
    return ButAdministrators(
        MakeError(Code::kPermissionDenied, "unmount", Described(mount),
                  std::string("mode ") + NameOf(mode) + ": " + why));
  };
  if (mount.source_kind != exec::SourceKind::kPublishedVolume) {
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

Result<void> Service::Unmount(const CallContext& call, const Name& allocation,
                              const Name& task, const Name& name,
                              exec::UnmountMode mode, OnTasks on_tasks) {
  MOUNTD_ASSIGN(const AllocationRecord record, Find(call, allocation.str()));
  MOUNTD_ASSIGN(const std::optional<MountRecord> mount,
                parts_.boot.GetMount(allocation.str(), task.str(), name.str()));
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
