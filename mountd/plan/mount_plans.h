// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "mountd/base/names.h"
#include "mountd/plan/values.h"

// The plans that make, inspect and remove mounts and the directories beneath
// them, and their replies.
namespace mountd::exec {

// base/a/<allocation>. Besides root only the owner and the group that the owner
// names may pass through it.
struct AllocationPlan {
  WireName allocation;
  std::uint32_t uid = 0;
  std::uint32_t group = 0;  // 0: leave the group as it is
};

// base/a/<allocation>/<task>/<name>.
struct TargetPlan {
  WireName allocation;
  WireName task;
  WireName name;
};

// base/a/<allocation>/<task>, the task's inbox.
struct TaskPlan {
  WireName allocation;
  WireName task;
};

struct SourcePlan {
  SourceKind kind = SourceKind::kHostVolume;
  WireName host_volume;
  WireName filesystem;
  WireName plugin;
  std::array<char, VolumeKey::kHexDigits> volume{};
  TmpfsPlan tmpfs;
};

inline constexpr std::size_t kMaxContainerPath = 1024;

// A container after its runtime has created it, and the path to mount at. The
// container must be in `cgroup` or beneath, and must not contain the caller.
struct ContainerPlan {
  std::uint64_t cgroup = 0;
  std::uint32_t caller = 0;  // pid of the asking process
  // From the container's root: absolute, without ".", ".." or "//", with a NUL.
  std::array<char, kMaxContainerPath> path{};
};

struct AttachPlan {
  TargetPlan target;
  TargetKind target_kind = TargetKind::kInbox;
  CallerPlan caller;        // kDirectory, or with ids: the user who asks
  ContainerPlan container;  // kContainer only
  SourcePlan source;
  Propagation propagation = Propagation::kPrivate;
  std::uint32_t attributes = 0;
  IdMapPlan ids;
  // The mount at the target that the new mount replaces; 0: none. A repeated
  // plan still names the old mount.
  std::uint64_t replaces = 0;
};

// A detached clone of the source, as the answer's fd. A process that has the fd
// can attach it in a namespace of its own and clear any flag there, read-only
// too. So the source must be writable. The clone is never bidirectional,
// because its peer group would let the process mount on the host.
struct OpenTreePlan {
  WireName allocation;
  SourcePlan source;
  Propagation propagation = Propagation::kPrivate;
  std::uint32_t attributes = 0;
};

// Detaches the mount at `target` only if it is still `mount_id`. Success if no
// mount is there; FailedPrecondition if another mount is there.
struct DetachPlan {
  TargetPlan target;
  std::uint64_t mount_id = 0;
  UnmountMode mode = UnmountMode::kPlain;
};

// Unmounts the anchor of a host volume's directory, or a file system that
// Attach mounted for the source's users, if its mount is still `anchor_id`. 0
// means any mount, because an answer with the id may have been lost. Busy while
// a process or mount uses it.
struct AnchorPlan {
  SourceKind kind = SourceKind::kHostVolume;  // or kFilesystem
  WireName source;
  std::uint64_t anchor_id = 0;
};

// The kernel's facts about one mount, read back after the plan. Propagation is
// the actual one, not the requested one.
struct MountState {
  // The unique id (statx(2) MNT_ID_UNIQUE, 6.8); the reusable id on older
  // kernels. 0: no mount here.
  std::uint64_t mount_id = 0;
  std::uint64_t peer_group = 0;         // 0: not shared
  std::uint64_t master = 0;             // 0: not a slave
  std::uint64_t source_peer_group = 0;  // Attach only: the source's group
  // Attach only: the anchor that was mounted on a host volume's directory, 0 if
  // the directory was a mount already. For a file system, the mount that its
  // users' mounts are clones of.
  std::uint64_t anchor_id = 0;
  std::uint64_t device = 0;        // of the mount's file system, as st_dev
  std::uint64_t block_device = 0;  // st_rdev, if there is a block device
  std::uint32_t exists = 0;        // 1: a directory or file, mounted or not
  std::uint32_t is_directory = 0;
  // InspectTarget only: the mount lies on a second mount at the same target, as
  // after a swap that was cut off.
  std::uint32_t is_stacked = 0;
};

// An object that the kernel has, whether mountd has a record of it or not. The
// fd of ListTargets' answer holds one FoundTarget for each allocation's
// directory, without task and name, and one for each mount in its inboxes.
struct FoundTarget {
  TargetPlan target;
  std::uint32_t uid = 0;    // user who may pass through the directory
  std::uint32_t group = 0;  // group that may pass as well; 0: none
  MountState state;         // of the mount
};

}  // namespace mountd::exec
