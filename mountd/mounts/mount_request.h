// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mountd/base/progress.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/plan/mount_plans.h"
#include "mountd/plan/values.h"
#include "mountd/store/records.h"

namespace mountd {

std::string_view PropagationName(exec::Propagation propagation);
Result<exec::Propagation> ParsePropagationName(std::string_view name);

// Names as in the API's "source_type".
std::string_view SourceKindName(exec::SourceKind kind);
Result<exec::SourceKind> ParseSourceKindName(std::string_view name);

struct BindMountRequest {
  std::string allocation;
  std::string task;
  std::string name;
  // The allocation's owner, whose limit counts the mount.
  std::uint32_t uid = 0;
  // In a tmpfs `inodes` 0 means as many as the size allows. A uid or gid of
  // kNoId means that of the allocation's owner.
  MountWish wish;
  // kPublishedVolume: the place where the plugin published the volume.
  std::string plugin{};
  VolumeKey volume{};
  // kDirectory, as target or source: the caller's fd of the directory.
  // kContainer: a pidfd of the container. MountWish::place identifies it.
  std::shared_ptr<const UniqueFd> fd{};
  exec::CallerPlan caller{};  // kDirectory, or with mapped ids
  // kContainer: the cgroup that must hold the container.
  std::uint64_t cgroup = 0;
  std::uint32_t caller_pid = 0;  // kContainer: the asking process
};

// The mount configuration that a task driver inserts.
struct MountConfig {
  std::string host_path;  // "" for a container, where the mount is at task_path
  MountRecord record;
  // GetAllocation only: the health of its file system.
  exec::MountHealth health = exec::MountHealth::kUnknown;
};

MountConfig ConfigOf(const MountRecord& record);

// Returns "web/server/data", for errors.
std::string Described(const MountRecord& record);

// Returns whether the mount is in the host's mount namespace. mountd watches
// mounts there, and not those in containers.
inline bool IsOnHost(const MountRecord& record) {
  return record.wish.target_kind != exec::TargetKind::kContainer;
}

// Returns whether the source is a caller's own directory, and the mount also
// gets mounts that somebody later makes below that directory.
inline bool IsPropagatedDirectory(const MountWish& wish) {
  return wish.source_kind == exec::SourceKind::kDirectory &&
         wish.propagation != exec::Propagation::kPrivate;
}

// base/a/<allocation>/<task>
std::string InboxPath(const InboxRecord& inbox);

// Returns the key of the source's anchor. Nothing for a source without one.
std::optional<AnchorKey> AnchorOf(const MountRecord& record);

// Returns the step that ListOperations shows for the mount.
inline Step StepOf(const BindMountRequest& request) {
  return request.wish.source_kind == exec::SourceKind::kFilesystem
             ? Step::kFilesystem
             : Step::kMount;
}

exec::TargetPlan TargetOf(const MountRecord& record);
exec::AttachPlan PlanOf(const BindMountRequest& request);
MountRecord RecordOf(const BindMountRequest& request);
// Returns the request that the record was made for. Lacks the place where a
// volume is published and the caller's fd, because records do not have them.
BindMountRequest RequestOf(const MountRecord& record);

// Returns the rootfsPropagation that the container runtime must set, so that
// the mount propagates as wished.
std::string_view RequiredRootfsPropagation(exec::Propagation propagation);

}  // namespace mountd
