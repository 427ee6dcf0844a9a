// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/exec/plan.h"
#include "mountd/progress.h"
#include "mountd/store/records.h"

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
  std::uint32_t uid = 0;  // the allocation's owner, whose limit it counts for
  exec::TargetKind target_kind = exec::TargetKind::kInbox;
  // kDirectory: the caller's fd of it; kContainer: a pidfd. And which that is,
  // as in MountRecord::place.
  std::shared_ptr<const UniqueFd> fd;
  std::string place;
  exec::CallerPlan caller;   // kDirectory
  std::uint64_t cgroup = 0;  // kContainer: that the container is in, or beneath
  std::uint32_t caller_pid = 0;  // kContainer: who asks
};

// The mount configuration a task driver inserts.
struct MountConfig {
  std::string host_path;  // "" of one in a container: there it is at task_path
  MountRecord record;
  // GetAllocation only: whether its file system answers.
  exec::MountHealth health = exec::MountHealth::kUnknown;
};

MountConfig ConfigOf(const MountRecord& record);

// "web/server/data", for errors.
std::string Described(const MountRecord& record);

// In the host's mount namespace, where it is watched: one in a container is
// the container's.
inline bool IsOnHost(const MountRecord& record) {
  return record.target_kind != exec::TargetKind::kContainer;
}

// base/a/<allocation>/<task>
std::string InboxPath(const InboxRecord& inbox);

// What is anchored, or mounted, for its users.
std::optional<AnchorKey> AnchorOf(const MountRecord& record);

// What mounting it is.
inline Step StepOf(const BindMountSpec& spec) {
  return spec.source_kind == exec::SourceKind::kFilesystem ? Step::kFilesystem
                                                           : Step::kMount;
}

exec::TargetPlan TargetOf(const MountRecord& record);
exec::AttachPlan PlanOf(const BindMountSpec& spec);
MountRecord RecordOf(const BindMountSpec& spec);
// What the record was made for; what is not in a record (where a volume is
// published, a caller's fd) is missing.
BindMountSpec SpecOf(const MountRecord& record);
// Whether a record of the one answers a call for the other.
bool SameSpec(const MountRecord& a, const MountRecord& b);

// What the runtime's rootfsPropagation has to be for the mount to behave.
std::string_view RequiredRootfsPropagation(exec::Propagation propagation);

}  // namespace mountd
