// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// The kernel's side of csi-local: directories, and mounts on them, always by
// fd. Needs Linux 5.12 (mount_setattr(2)). All functions are stateless.
namespace mountd::csi_local {

// A path that was resolved once: its parent, and the last part's name in it.
struct Target {
  UniqueFd parent;
  std::string name;
};

// What is at a directory right now (statx(2), fstatvfs(3)).
struct DirectoryState {
  dev_t device = 0;
  ino_t inode = 0;
  bool is_mount_root = false;
  // MOUNT_ATTR_{RDONLY,NOEXEC,NOATIME} of its mount.
  std::uint64_t attributes = 0;

  bool SameDirectory(const DirectoryState& other) const {
    return device == other.device && inode == other.inode;
  }
};

// Opens the parent of the absolute `path`, following no symbolic link anywhere.
// InvalidArgument: not absolute, has "." or "..", or a link; NotFound: the
// parent does not exist.
Result<Target> OpenTarget(std::string_view path);

// O_PATH fd to the directory; what is mounted there, if something is. It keeps
// a mount busy as long as it lives. NotFound; InvalidArgument if no directory.
Result<UniqueFd> OpenDirectory(const Target& target);
Result<UniqueFd> OpenDirectoryAt(int parent, const std::string& name);

// O_PATH fd to whatever is there, a directory or not, but no link.
Result<UniqueFd> OpenNode(const Target& target);

// The same, made first if missing; `made` says which. A file is empty, and what
// is no directory can be there already.
Result<UniqueFd> MakeFileAt(const Target& target, bool* made);
Result<UniqueFd> MakeDirectoryAt(int parent, const std::string& name,
                                 mode_t mode, bool* made);

Result<DirectoryState> Inspect(const UniqueFd& directory);

// A copy of what is at `source` (a directory or a device's node, with what is
// mounted there), which nobody sees yet.
Result<UniqueFd> CloneTree(const UniqueFd& source);

enum class Contents {
  kFiles,   // nosuid, nodev
  kDevice,  // the node of a device, which is to be used: nosuid, noexec
};

// Attaches a tree that nobody sees yet to `point`: private, in no peer group of
// anybody's, and with `attributes` set before anybody can see it.
Result<void> AttachTree(const UniqueFd& tree, const UniqueFd& point,
                        Contents contents, std::uint64_t attributes);

// Takes the top mount off. Busy while it is in use: never lazily, or the volume
// would live on unseen.
Result<void> Unmount(const Target& target);

// The directory, or the file, that was mounted on. Gone already is success.
Result<void> RemoveTarget(const Target& target);

}  // namespace mountd::csi_local
