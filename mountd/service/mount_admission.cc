// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/mount_admission.h"

#include "mountd/plan/plan_ids.h"
#include "mountd/service/owners_call.h"

namespace mountd {

Result<void> MountAdmission::CheckVolumeSource(
    BindMountRequest& request) const {
  MOUNTD_ASSIGN(const std::optional<csi::PublishedVolume> volume,
                parts_.volumes.Get(request.allocation, request.wish.source));
  const std::string object =
      "volume " + request.allocation + "/" + request.wish.source;
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
  const bool writable = (request.wish.attributes & exec::kReadOnly) == 0;
  if (volume->read_only && writable) {
    return MakeError(Code::kFailedPrecondition, "bind-mount", object,
                     "is published read-only; mount it read-only");
  }
  if (volume->read_only &&
      request.wish.propagation == exec::Propagation::kBidirectional) {
    return MakeError(
        Code::kFailedPrecondition, "bind-mount", object,
        "is published read-only, but bidirectional needs write access");
  }
  MOUNTD_ASSIGN(const std::optional<VolumeRecord> record,
                parts_.state.volumes.GetVolume(volume->record.key));
  if (!record) {
    return MakeError(Code::kInternal, "bind-mount", object, "has no record");
  }
  request.plugin = record->plugin;
  request.volume = record->key;
  return Ok();
}

// Fills in defaults for settings that the caller left out. The defaults depend
// on the allocation's owner.
Result<void> MountAdmission::CompleteTmpfs(const AllocationRecord& owner,
                                           BindMountRequest& request) {
  const auto invalid = [](const char* what, const char* why) {
    return MakeError(Code::kInvalidArgument, "bind-mount", what, why);
  };
  exec::TmpfsPlan& tmpfs = request.wish.tmpfs;
  if (!request.wish.source.empty()) {
    return invalid("source", "must be empty for a tmpfs");
  }
  if (request.wish.propagation != exec::Propagation::kPrivate) {
    return invalid("propagation", "must be private for a tmpfs");
  }
  if ((request.wish.attributes & exec::kReadOnly) != 0) {
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

// Checks whether there is room for one more mount. A call for an existing mount
// needs no room, because it only returns that mount.
Result<void> MountAdmission::CheckRoom(const BindMountRequest& request) const {
  const std::string object =
      request.allocation + "/" + request.task + "/" + request.name;
  const Result<void> room =
      parts_.room.Check("bind-mount", object, request.plugin);
  if (room) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::optional<MountRecord> record,
                parts_.boot.mounts.GetMount(request.allocation, request.task,
                                            request.name));
  return record && record->state == MountRecordState::kAttached ? Ok() : room;
}

Result<void> MountAdmission::AuthoriseIds(const CallContext& call,
                                          BindMountRequest& request) const {
  std::string_view fault = exec::FaultOf(request.wish.ids);
  if (fault.empty() && request.wish.ids.count != 0 &&
      request.wish.source_kind == exec::SourceKind::kTmpfs) {
    fault = "is not possible for a tmpfs; set its owner with uid and gid";
  }
  if (!fault.empty()) {
    return MakeError(Code::kInvalidArgument, "bind-mount", "options[\"idmap\"]",
                     std::string(fault));
  }
  if (request.wish.ids.count == 0) {
    return Ok();
  }
  if (exec::ShowsRoot(request.wish.ids) &&
      request.wish.propagation != exec::Propagation::kPrivate) {
    return MakeError(Code::kInvalidArgument, "bind-mount", "propagation",
                     "must be private if root's files show as the caller's");
  }
  const bool is_host =
      request.wish.source_kind == exec::SourceKind::kHostVolume;
  MOUNTD_ASSIGN(request.caller,
                access_.PolicyFor(call).mounts().MayMapIds(
                    call.caller, request.wish.ids,
                    {request.wish.source_kind,
                     is_host ? request.wish.source : request.plugin,
                     (request.wish.attributes & exec::kReadOnly) != 0}));
  return Ok();
}

Result<void> MountAdmission::AuthoriseTarget(const CallContext& call,
                                             const AllocationRecord& owner,
                                             BindMountRequest& request) const {
  if (request.wish.target_kind == exec::TargetKind::kDirectory) {
    MOUNTD_ASSIGN(
        request.caller,
        access_.PolicyFor(call).mounts().MayPassDirectory(call.caller));
  }
  if (request.wish.target_kind == exec::TargetKind::kContainer) {
    MOUNTD_ASSIGN(const exec::CgroupState task,
                  parts_.executor.InspectTask(request.fd->get()));
    MOUNTD_TRY(access_.PolicyFor(call).mounts().MayMountIn(
        call.caller, task.path.data(),
        request.wish.source_kind == exec::SourceKind::kTmpfs));
    MOUNTD_ASSIGN(request.caller_pid, LivingPidOf(call.caller));
    // The allocation's cgroup, if known, bounds where the container may be.
    request.cgroup = owner.cgroup != 0 ? owner.cgroup : task.id;
    request.wish.place = std::to_string(task.mount_namespace);
  }
  return Ok();
}

// Checks whether the caller may have this mount, and fills in the plan's
// fields.
Result<void> MountAdmission::Authorise(const CallContext& call,
                                       const AllocationRecord& owner,
                                       BindMountRequest& request) const {
  const bool read_only = (request.wish.attributes & exec::kReadOnly) != 0;
  if (MountPolicy::NeedsWriteAccess(request.wish.propagation) && read_only) {
    return MakeError(
        Code::kFailedPrecondition, "bind-mount",
        request.allocation + "/" + request.task + "/" + request.name,
        "bidirectional needs write access; leave out read_only");
  }
  request.uid = owner.uid;
  MOUNTD_TRY(AuthoriseTarget(call, owner, request));
  MOUNTD_TRY(AuthoriseSource(call, owner, request));
  // Check the ids after the source, because the source decides whose ids the
  // mount may show.
  return AuthoriseIds(call, request);
}

Result<void> MountAdmission::AuthoriseOwners(const CallContext& call,
                                             const AllocationRecord& owner,
                                             BindMountRequest& request) const {
  if (call.caller.uid == owner.uid) {
    return Authorise(call, owner, request);
  }
  MOUNTD_ASSIGN(const CallContext owners, OwnersCall(owner));
  return Authorise(owners, owner, request);
}

Result<void> MountAdmission::AuthoriseForOwner(
    const AllocationRecord& owner, BindMountRequest& request) const {
  MOUNTD_TRY(CheckVolumeSource(request));
  if (request.wish.ids.count == 0) {
    return Ok();
  }
  MOUNTD_ASSIGN(const CallContext call, OwnersCall(owner));
  return AuthoriseIds(call, request);
}

// Checks whether the caller may pass any directory. The executor checks which
// directory it is.
Result<void> MountAdmission::AuthoriseDirectory(
    const CallContext& call, BindMountRequest& request) const {
  if (request.wish.propagation == exec::Propagation::kBidirectional) {
    return MakeError(Code::kInvalidArgument, "bind-mount", "propagation",
                     "cannot be bidirectional for a directory; use a host "
                     "volume");
  }
  MOUNTD_ASSIGN(request.caller,
                access_.PolicyFor(call).mounts().MayPassDirectory(call.caller));
  return Ok();
}

Result<void> MountAdmission::AuthoriseSource(const CallContext& call,
                                             const AllocationRecord& owner,
                                             BindMountRequest& request) const {
  const bool read_only = (request.wish.attributes & exec::kReadOnly) != 0;
  switch (request.wish.source_kind) {
    case exec::SourceKind::kHostVolume:
      return access_.PolicyFor(call).mounts().MayMountHostVolume(
          call.caller, request.wish.source, read_only,
          request.wish.propagation);
    case exec::SourceKind::kFilesystem:
      return access_.PolicyFor(call).mounts().MayMountFilesystem(
          call.caller, request.wish.source, read_only,
          request.wish.propagation);
    case exec::SourceKind::kPublishedVolume:
      MOUNTD_TRY(CheckVolumeSource(request));
      return access_.PolicyFor(call).mounts().MayPropagate(
          call.caller, request.wish.propagation);
    case exec::SourceKind::kTmpfs:
      return CompleteTmpfs(owner, request);
    case exec::SourceKind::kDirectory:
      return AuthoriseDirectory(call, request);
  }
  return Ok();
}

}  // namespace mountd
