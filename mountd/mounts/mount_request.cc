// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/mounts/mount_request.h"

#include "mountd/base/paths.h"
#include "mountd/plan/wire.h"

namespace mountd {

std::optional<AnchorKey> AnchorOf(const MountRecord& record) {
  const bool anchored =
      (record.wish.source_kind == exec::SourceKind::kHostVolume ||
       record.wish.source_kind == exec::SourceKind::kFilesystem) &&
      record.state != MountRecordState::kFound;
  return anchored ? std::optional(
                        AnchorKey{record.wish.source_kind, record.wish.source})
                  : std::nullopt;
}

exec::TargetPlan TargetOf(const MountRecord& record) {
  return exec::Target(record.allocation, record.task, record.name);
}

std::string Described(const MountRecord& record) {
  return record.allocation + "/" + record.task + "/" + record.name;
}

exec::AttachPlan PlanOf(const BindMountRequest& request) {
  exec::AttachPlan plan;
  plan.target = exec::Target(request.allocation, request.task, request.name);
  plan.target_kind = request.wish.target_kind;
  plan.caller = request.caller;
  if (request.wish.target_kind == exec::TargetKind::kContainer) {
    plan.container = exec::Container(request.cgroup, request.wish.task_path,
                                     request.caller_pid);
  }
  plan.source.kind = request.wish.source_kind;
  switch (request.wish.source_kind) {
    case exec::SourceKind::kHostVolume:
      plan.source.host_volume = exec::ToWire(request.wish.source);
      break;
    case exec::SourceKind::kPublishedVolume:
      plan.source.plugin = exec::ToWire(request.plugin);
      plan.source.volume = request.volume.hex();
      break;
    case exec::SourceKind::kTmpfs:
      plan.source.tmpfs = request.wish.tmpfs;
      break;
    case exec::SourceKind::kDirectory:
      break;
    case exec::SourceKind::kFilesystem:
      plan.source.filesystem = exec::ToWire(request.wish.source);
      break;
  }
  plan.propagation = request.wish.propagation;
  plan.attributes = request.wish.attributes;
  plan.ids = request.wish.ids;
  return plan;
}

MountRecord RecordOf(const BindMountRequest& request) {
  return {request.allocation, request.task, request.name, request.uid,
          request.wish};
}

BindMountRequest RequestOf(const MountRecord& record) {
  return {record.allocation, record.task, record.name, record.uid, record.wish};
}

std::string_view PropagationName(exec::Propagation propagation) {
  switch (propagation) {
    case exec::Propagation::kHostToTask:
      return "host-to-task";
    case exec::Propagation::kBidirectional:
      return "bidirectional";
    case exec::Propagation::kPrivate:
      break;
  }
  return "private";
}

Result<exec::Propagation> ParsePropagationName(std::string_view name) {
  for (const auto mode :
       {exec::Propagation::kPrivate, exec::Propagation::kHostToTask,
        exec::Propagation::kBidirectional}) {
    if (name == PropagationName(mode)) {
      return mode;
    }
  }
  return MakeError(Code::kInvalidArgument, "check", "propagation",
                   "must be private, host-to-task or bidirectional");
}

std::string_view SourceKindName(exec::SourceKind kind) {
  switch (kind) {
    case exec::SourceKind::kHostVolume:
      return "host";
    case exec::SourceKind::kTmpfs:
      return "tmpfs";
    case exec::SourceKind::kFilesystem:
      return "filesystem";
    case exec::SourceKind::kDirectory:
      return "directory";
    case exec::SourceKind::kPublishedVolume:
      break;
  }
  return "volume";
}

Result<exec::SourceKind> ParseSourceKindName(std::string_view name) {
  for (const auto kind :
       {exec::SourceKind::kPublishedVolume, exec::SourceKind::kHostVolume,
        exec::SourceKind::kTmpfs, exec::SourceKind::kFilesystem,
        exec::SourceKind::kDirectory}) {
    if (name == SourceKindName(kind)) {
      return kind;
    }
  }
  return MakeError(Code::kInvalidArgument, "check", "source_type",
                   "must be volume, host, tmpfs, filesystem or directory");
}

std::string_view RequiredRootfsPropagation(exec::Propagation propagation) {
  switch (propagation) {
    case exec::Propagation::kHostToTask:
      return "slave";
    case exec::Propagation::kBidirectional:
      return "shared";
    case exec::Propagation::kPrivate:
      break;
  }
  return "private";
}

std::string InboxPath(const InboxRecord& inbox) {
  return std::string(paths::kBase) + "/" + paths::kAllocations + "/" +
         inbox.allocation + "/" + inbox.task;
}

namespace {

std::string HostPathOf(const MountRecord& record) {
  switch (record.wish.target_kind) {
    case exec::TargetKind::kDirectory:
      return record.wish.place;
    case exec::TargetKind::kContainer:
      return "";
    case exec::TargetKind::kInbox:
      break;
  }
  return InboxPath({record.allocation, record.task}) + "/" + record.name;
}

}  // namespace

MountConfig ConfigOf(const MountRecord& record) {
  MountConfig config;
  config.host_path = HostPathOf(record);
  config.record = record;
  return config;
}

}  // namespace mountd
