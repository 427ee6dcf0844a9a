// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// csi-local's calls of the kernel on directories and their mounts, always by
// fd. They need Linux 5.12 (mount_setattr(2)) and keep no state.
namespace mountd::csi_local {

// A path that was resolved once: its parent, and its last part as a name in it.
struct Target {
  UniqueFd parent;
  std::string name;
};

// The current state of a directory (statx(2), fstatvfs(3)).
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

// Opens the parent of the absolute `path`, and follows no symbolic link
// anywhere. InvalidArgument if the path is not absolute, has "." or "..", or
// has a link. NotFound if the parent does not exist.
Result<Target> OpenTarget(std::string_view path);

// Returns an O_PATH fd of the directory, or of the mount on it. The fd keeps a
// mount busy while it lives. NotFound; InvalidArgument if it is no directory.
Result<UniqueFd> OpenDirectory(const Target& target);
Result<UniqueFd> OpenDirectoryAt(int parent, const std::string& name);

// Returns an O_PATH fd of a file of any type, but no link.
Result<UniqueFd> OpenNode(const Target& target);

// Returns the same, and makes the file or directory first if it is missing.
// `made` says whether this call made it. A new file is empty. An existing file
// may be of any type except a directory.
Result<UniqueFd> MakeFileAt(const Target& target, bool* made);
Result<UniqueFd> MakeDirectoryAt(int parent, const std::string& name,
                                 mode_t mode, bool* made);

Result<DirectoryState> Inspect(const UniqueFd& directory);

// Returns a copy of the tree at `source`, with its mount, attached nowhere yet.
// `source` is a directory or a device's node.
Result<UniqueFd> CloneTree(const UniqueFd& source);

enum class Contents {
  kFiles,   // nosuid, nodev
  kDevice,  // a device's node that tasks may use: nosuid, noexec
};

// Attaches an unattached tree to `point`. Makes the mount private, so that it
// is in no peer group, and sets `attributes` before anybody can see it.
Result<void> AttachTree(const UniqueFd& tree, const UniqueFd& point,
                        Contents contents, std::uint64_t attributes);

// Removes the top mount. Busy while it is in use, because a lazy unmount would
// let the volume live on unseen.
Result<void> Unmount(const Target& target);

// Removes the directory or file that was mounted on. Ok if there is none.
Result<void> RemoveTarget(const Target& target);

}  // namespace mountd::csi_local
