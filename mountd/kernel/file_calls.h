// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "mountd/kernel/sys.h"

// The part of the seam to the kernel that finds, names and changes files.
namespace mountd::exec {

// The answer of statx(2) without asking a file system's server
// (AT_STATX_DONT_SYNC). Safe on the root of a mount whose server hangs.
struct FileFacts {
  std::uint32_t mode = 0;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::uint32_t links = 0;  // st_nlink
  std::uint64_t inode = 0;
  std::uint64_t device = 0;
  std::uint64_t node = 0;           // st_rdev, of a device
  std::uint64_t mount_id = 0;       // of the mount that holds the file
  bool mount_id_is_unique = false;  // Linux 6.8
  bool mount_root = false;
};

// Returns the number by which ListAfter sorts the names of a directory; never
// 0. The number depends on this name alone. Two names rarely have the same
// number.
std::uint64_t NameOrder(std::string_view name);

struct OrderedName {
  std::uint64_t order = 0;
  std::string name;
};

// The value of `dir` if the path is absolute.
inline constexpr int kFromRoot = -1;

// Files and directories, without their content. A `name` is one path component,
// and no call follows a link at it. "" names `dir` itself.
class FileCalls {
 public:
  virtual ~FileCalls() = default;

  virtual Sys<UniqueFd> Open(int dir, const std::string& path, int flags,
                             std::uint64_t resolve) = 0;
  virtual Sys<FileFacts> Stat(int dir, const std::string& name) = 0;
  // Returns facts of the file that the magic link `name` of /proc leads to,
  // without opening it.
  virtual Sys<FileFacts> StatLinked(int dir, const std::string& name) = 0;
  // Returns the reusable id, as in mountinfo, of the mount that holds the file
  // of StatLinked. Without a name the file is `dir` itself.
  virtual Sys<std::uint64_t> LinkedMountId(int dir,
                                           const std::string& name) = 0;
  virtual Sys<void> MakeDirectory(int dir, const std::string& name,
                                  mode_t mode) = 0;
  virtual Sys<void> MakeFile(int dir, const std::string& name, mode_t mode) = 0;
  virtual Sys<void> MakeLink(const std::string& text, int dir,
                             const std::string& name) = 0;
  virtual Sys<std::string> ReadLink(int dir, const std::string& name) = 0;
  virtual Sys<void> RemoveFile(int dir, const std::string& name) = 0;
  virtual Sys<void> RemoveDirectory(int dir, const std::string& name) = 0;
  // EEXIST if `new_name` exists.
  virtual Sys<void> Rename(int dir, const std::string& name, int new_dir,
                           const std::string& new_name) = 0;
  // SetOwner and SetMode change the file of `fd`, which may be O_PATH.
  virtual Sys<void> SetOwner(int fd, uid_t uid, gid_t gid) = 0;
  virtual Sys<void> SetMode(int fd, mode_t mode) = 0;
  // Returns the file's access ACL, acl(5), in the kernel's format
  // (linux/posix_acl_xattr.h); "" if the mode says it all. EOPNOTSUPP if the
  // file system keeps no ACLs.
  virtual Sys<std::string> ReadAcl(int fd) = 0;
  virtual Sys<void> SetAcl(int fd, std::string_view acl) = 0;
  // Lists at most `limit` names other than "." and "..". `dir` may be O_PATH.
  virtual Sys<std::vector<std::string>> List(int dir, std::size_t limit) = 0;
  // Lists the first `limit` names after `after`, in the order of NameOrder.
  virtual Sys<std::vector<OrderedName>> ListAfter(int dir, std::uint64_t after,
                                                  std::size_t limit) = 0;
  // Locks by flock(2) LOCK_EX until `fd` is closed. EWOULDBLOCK if somebody
  // else holds the lock for longer than a plan can wait. ECANCELED if the
  // mountd that asked for the plan is gone by then, because another mountd may
  // have changed the object meanwhile.
  virtual Sys<void> Lock(int fd) = 0;

  // Opens as O_PATH the file of a kernfs (such as cgroupfs) with this inode
  // number, by open_by_handle_at(2). `fs` is an fd on that kernfs, not O_PATH.
  // ESTALE if there is no such file.
  virtual Sys<UniqueFd> OpenKernfs(int fs, std::uint64_t id) = 0;
};

}  // namespace mountd::exec
