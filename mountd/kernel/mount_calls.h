// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "mountd/kernel/sys.h"

// The part of the seam to the kernel that makes, changes and lists mounts.
namespace mountd::exec {

struct MountFacts {
  std::uint64_t id = 0;
  std::uint64_t parent_id = 0;
  std::uint64_t device = 0;
  std::uint64_t attributes = 0;  // MOUNT_ATTR_*
  std::uint64_t peer_group = 0;  // 0: not shared
  std::uint64_t master = 0;      // 0: not a slave
  std::string type;              // "ext4"
  std::string source;            // "/dev/sda1"; "": unknown
  std::string root;              // path in its file system
  std::string point;             // path in this namespace
};

// A change for mount_setattr(2). A propagation of 0 leaves it unchanged.
struct MountChange {
  std::uint64_t set = 0;
  std::uint64_t clear = 0;
  std::uint64_t propagation = 0;  // MS_PRIVATE, MS_SLAVE, MS_SHARED
  int user_namespace = -1;  // with MOUNT_ATTR_IDMAP: the namespace with the map
};

struct ProbeOutcome {
  int error = 0;  // statfs's errno
  bool timed_out = false;
  std::uint32_t lost_children = 0;  // killed children that have not ended yet
};

// Mounts, and their presence and health.
class MountCalls {
 public:
  virtual ~MountCalls() = default;

  virtual Sys<UniqueFd> OpenFilesystem(const char* type) = 0;  // fsopen
  // A `value` of nullptr sets a flag, such as "noswap".
  virtual Sys<void> ConfigureFilesystem(int fs, const char* key,
                                        const char* value) = 0;
  virtual Sys<void> CreateFilesystem(int fs) = 0;
  virtual Sys<UniqueFd> MountFilesystem(int fs, unsigned attributes) = 0;
  virtual Sys<UniqueFd> CloneTree(int fd, bool recursive) = 0;  // open_tree
  virtual Sys<void> SetMount(int tree, bool recursive,
                             const MountChange& change) = 0;
  virtual Sys<void> AttachTree(int tree, int target) = 0;  // move_mount
  // Attaches the tree beneath the mount whose root is `target` (Linux 6.5).
  virtual Sys<void> AttachBeneath(int tree, int target) = 0;
  // Puts the private mount of `fd` into the peer group of the mount of `from`,
  // and gives it the same master. The mount of `fd` must show a part of the
  // mount of `from` (MOVE_MOUNT_SET_GROUP, Linux 5.15).
  virtual Sys<void> JoinGroup(int from, int fd) = 0;
  // Unmounts the top mount at (parent, name) by umount2(2), never through a
  // link.
  virtual Sys<void> Unmount(int parent, const std::string& name, int flags) = 0;
  virtual bool CanMountBeneath() = 0;  // Linux 6.5
  // statmount(2). `root` and `point` are empty where they are too long.
  virtual Sys<MountFacts> MountById(std::uint64_t id) = 0;
  // listmount(2). Returns the mounts anywhere below the mount `id` that are
  // newer than the mount `after`; 0: all. The kernel skips the older ones
  // without looking at them.
  virtual Sys<std::vector<std::uint64_t>> MountsBelow(std::uint64_t id,
                                                      std::uint64_t after) = 0;

  // Returns a fanotify group that reports mounts and unmounts in the namespace
  // (Linux 6.15; EINVAL before). Reading it needs no right.
  virtual Sys<UniqueFd> WatchMounts(int mount_namespace) = 0;
  // Calls statfs(2) on the file system of `fd` in a child, and kills the child
  // at the deadline. ECHILD if others killed it.
  virtual Sys<ProbeOutcome> ProbeFilesystem(
      int fd, std::chrono::milliseconds deadline) = 0;
  // Returns a clone of the whole detached `tree` whose flags nobody can clear
  // and whose mounts nobody can take apart: nodev, nosuid, noexec, read-only,
  // and the choice of atime (mount_namespaces(7)). Attaches the tree itself in
  // a namespace that ends with this call. ETIMEDOUT and ECHILD as for RunChild.
  // ENOSPC where user.max_user_namespaces or user.max_mnt_namespaces allows no
  // more, ENOSYS where the kernel has no user namespaces, EPERM where somebody
  // forbids them.
  virtual Sys<UniqueFd> LockTree(int tree, std::chrono::milliseconds limit) = 0;
};

}  // namespace mountd::exec
