// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Service's verbs on bind mounts.
#include <spdlog/spdlog.h>

#include <algorithm>
#include <utility>

#include "mountd/filesystem_users.h"
#include "mountd/plan/plan_ids.h"
#include "mountd/plan/wire.h"
#include "mountd/service.h"

namespace mountd {

Result<void> Service::CheckVolumeSource(BindMountSpec& spec) {
  MOUNTD_ASSIGN(const std::optional<csi::PublishedVolume> volume,
                parts_.volumes.Get(spec.allocation, spec.source));
  const std::string object = "volume " + spec.allocation + "/" + spec.source;
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
  const bool writable = (spec.attributes & exec::kReadOnly) == 0;
  if (volume->read_only && writable) {
    return MakeError(Code::kFailedPrecondition, "bind-mount", object,
                     "is published read-only; mount it read-only");
  }
  if (volume->read_only &&
      spec.propagation == exec::Propagation::kBidirectional) {
    return MakeError(
        Code::kFailedPrecondition, "bind-mount", object,
        "is published read-only, but bidirectional needs write access");
  }
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> record,
                parts_.state.GetVolume(volume->record.key));
  if (!record) {
    return MakeError(Code::kInternal, "bind-mount", object, "has no record");
  }
  spec.plugin = record->plugin;
  spec.volume = record->key;
  return Ok();
}

// Fills in the owner's defaults for settings that the caller left out.
Result<void> Service::CompleteTmpfs(const AllocationRecord& owner,
                                    BindMountSpec& spec) {
  const auto invalid = [](const char* what, const char* why) {
    return MakeError(Code::kInvalidArgument, "bind-mount", what, why);
  };
  exec::TmpfsPlan& tmpfs = spec.tmpfs;
  if (!spec.source.empty()) {
    return invalid("source", "must be empty for a tmpfs");
  }
  if (spec.propagation != exec::Propagation::kPrivate) {
    return invalid("propagation", "must be private for a tmpfs");
  }
  if ((spec.attributes & exec::kReadOnly) != 0) {
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
Result<void> Service::CheckRoom(const BindMountSpec& spec) {
  const std::string object =
      spec.allocation + "/" + spec.task + "/" + spec.name;
  const Result<void> room =
      parts_.room.Check("bind-mount", object, spec.plugin);
  if (room) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::optional<MountRecord> record,
                parts_.boot.GetMount(spec.allocation, spec.task, spec.name));
  return record && record->state == MountRecordState::kAttached ? Ok() : room;
}

Result<void> Service::CheckIds(const CallContext& call,
                               const BindMountSpec& spec) const {
  std::string_view fault = exec::FaultOf(spec.ids);
  if (fault.empty() && spec.ids.count != 0 &&
      spec.source_kind == exec::SourceKind::kTmpfs) {
    fault = "is not possible for a tmpfs; set its owner with uid and gid";
  }
  if (!fault.empty()) {
    return MakeError(Code::kInvalidArgument, "bind-mount", "options[\"idmap\"]",
                     std::string(fault));
  }
  return PolicyFor(call).MayMapIds(call.caller, spec.ids);
}

Result<void> Service::AuthoriseTarget(const CallContext& call,
                                      const AllocationRecord& owner,
                                      BindMountSpec& spec) {
  if (spec.target_kind == exec::TargetKind::kDirectory) {
    MOUNTD_ASSIGN(spec.caller, PolicyFor(call).MayPassDirectory(call.caller));
  }
  if (spec.target_kind == exec::TargetKind::kContainer) {
    MOUNTD_ASSIGN(const exec::CgroupState task,
                  parts_.executor.InspectTask(spec.fd->get()));
    MOUNTD_TRY(PolicyFor(call).MayMountIn(
        call.caller, task.path.data(),
        spec.source_kind == exec::SourceKind::kTmpfs));
    MOUNTD_ASSIGN(spec.caller_pid, LivingPidOf(call.caller));
    // The allocation's cgroup, if known, bounds where the container may be.
    spec.cgroup = owner.cgroup != 0 ? owner.cgroup : task.id;
    spec.place = std::to_string(task.mount_namespace);
  }
  return Ok();
}

// Checks whether the caller may have this mount, and fills in the plan's
// fields.
Result<void> Service::Authorise(const CallContext& call,
                                const AllocationRecord& owner,
                                BindMountSpec& spec) {
  const bool read_only = (spec.attributes & exec::kReadOnly) != 0;
  if (spec.propagation == exec::Propagation::kBidirectional && read_only) {
    return MakeError(Code::kFailedPrecondition, "bind-mount",
                     spec.allocation + "/" + spec.task + "/" + spec.name,
                     "bidirectional needs write access; leave out read_only");
  }
  spec.uid = owner.uid;
  MOUNTD_TRY(AuthoriseTarget(call, owner, spec));
  MOUNTD_TRY(CheckIds(call, spec));
  switch (spec.source_kind) {
    case exec::SourceKind::kHostVolume:
      return PolicyFor(call).MayMountHostVolume(call.caller, spec.source,
                                                read_only, spec.propagation);
    case exec::SourceKind::kFilesystem:
      return PolicyFor(call).MayMountFilesystem(call.caller, spec.source,
                                                read_only, spec.propagation);
    case exec::SourceKind::kPublishedVolume:
      MOUNTD_TRY(CheckVolumeSource(spec));
      return PolicyFor(call).MayPropagate(call.caller, spec.propagation);
    case exec::SourceKind::kTmpfs:
      return CompleteTmpfs(owner, spec);
  }
  return Ok();
}

// Removes the pending unmount of a mount that is mounted again.
Result<void> Service::Forgive(const BindMountSpec& spec) {
  return teardowns_.Forgive(OwedKind::kUnmount, Described(RecordOf(spec)));
}

Result<MountConfig> Service::BindMount(const CallContext& call,
                                       BindMountSpec spec) {
  std::vector<BindMountSpec> specs;
  specs.push_back(std::move(spec));
  MOUNTD_ASSIGN(std::vector<MountConfig> configs,
                BindMounts(call, std::move(specs)));
  return std::move(configs.front());
}

Result<std::vector<MountConfig>> Service::BindMounts(
    const CallContext& call, std::vector<BindMountSpec> specs) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                FindPrepared(call, specs.front().allocation));
  // Check all specs before mounting any.
  for (BindMountSpec& spec : specs) {
    MOUNTD_TRY(Authorise(call, owner, spec));
    MOUNTD_TRY(CheckRoom(spec));
  }
  Result<std::vector<MountConfig>> configs =
      parts_.mounts.Bind(specs, call.progress);
  for (const BindMountSpec& spec : specs) {
    MOUNTD_TRY(configs ? Forgive(spec) : teardowns_.OweUnlessUndone(spec));
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
                                               BindMountSpec spec,
                                               OnTasks on_tasks) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                FindPrepared(call, spec.allocation));
  if (spec.source_kind == exec::SourceKind::kTmpfs) {
    return MakeError(Code::kNotSupported, "replace", Described(RecordOf(spec)),
                     "a tmpfs begins empty and cannot be replaced; unmount it "
                     "and mount it again");
  }
  if (spec.target_kind != exec::TargetKind::kInbox) {
    return MakeError(Code::kInvalidArgument, "replace",
                     Described(RecordOf(spec)),
                     "a mount can be replaced only in an inbox");
  }
  MOUNTD_TRY(Authorise(call, owner, spec));
  MOUNTD_ASSIGN(const std::optional<MountRecord> old,
                parts_.boot.GetMount(spec.allocation, spec.task, spec.name));
  if (old) {
    MOUNTD_TRY(teardowns_.CheckReplaceable(
        owner, *old, {on_tasks, call.progress, call.cancelled}));
  }
  const std::optional<HolderReport> holders = HoldersBefore(owner, old);
  call.progress.At(StepOf(spec));
  MOUNTD_ASSIGN(Mounts::Replaced replaced, parts_.mounts.Replace(spec));
  MOUNTD_TRY(Forgive(spec));
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
  BindMountSpec spec = SpecOf(*mount);
  MOUNTD_TRY(Authorise(call, owner, spec));
  const std::optional<HolderReport> holders = HoldersBefore(owner, mount);
  Repaired repaired;
  call.progress.At(StepOf(spec));
  MOUNTD_ASSIGN(repaired.replaced, parts_.mounts.Repair(spec));
  MOUNTD_TRY(Forgive(spec));
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
                                   BindMountSpec spec) {
  MOUNTD_ASSIGN(const AllocationRecord owner,
                FindPrepared(call, spec.allocation));
  MOUNTD_TRY(PolicyFor(call).MayOpenTree(call.caller));
  const auto refused = [&](Code code, const char* why) {
    return MakeError(code, "open-tree", spec.allocation + "/" + spec.source,
                     why);
  };
  if (spec.source_kind == exec::SourceKind::kTmpfs) {
    return refused(Code::kInvalidArgument,
                   "a tmpfs cannot be opened as a detached mount");
  }
  if (spec.propagation == exec::Propagation::kBidirectional) {
    return refused(Code::kInvalidArgument,
                   "a detached mount cannot be bidirectional");
  }
  MOUNTD_TRY(Authorise(call, owner, spec));
  call.progress.At(StepOf(spec));
  HandedOutRecord record;
  record.allocation = owner.id;
  record.uid = owner.uid;
  record.source_kind = spec.source_kind;
  record.name = spec.source;
  return HandOut(std::move(record),
                 [&] { return parts_.mounts.OpenTree(spec); });
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
