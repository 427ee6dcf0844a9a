// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/mount_point.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>

namespace mountd::csi_local {
namespace {

// A link in a path could lead a mount to another place (openat2(2)).
constexpr std::uint64_t kSafe = RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;

Result<UniqueFd> Open(int parent, const std::string& path,
                      std::uint64_t resolve,
                      std::uint64_t flags = O_DIRECTORY) {
  open_how how{};
  // O_PATH opens no device and waits for no FIFO (open(2)).
  how.flags = flags | O_PATH | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = resolve;
  const long fd =
      ::syscall(SYS_openat2, parent, path.c_str(), &how, sizeof(how));
  if (fd >= 0) {
    return UniqueFd(static_cast<int>(fd));
  }
  Error error = ErrnoError(errno, "openat2", path);
  if (error.sys_errno == ENOENT) {
    error.code = Code::kNotFound;
  } else if (error.sys_errno == ELOOP || error.sys_errno == ENOTDIR) {
    // ELOOP means that the path has a link (RESOLVE_NO_SYMLINKS).
    error.code = Code::kInvalidArgument;
  }
  return error;
}

// True if every part of the path is a name: no "", ".", "..".
bool IsPlainPath(std::string_view path) {
  if (path.size() < 2 || path[0] != '/' ||
      path.find('\0') != std::string_view::npos) {
    return false;
  }
  for (std::size_t at = 0; at < path.size();) {
    const std::size_t end = std::min(path.find('/', at + 1), path.size());
    const std::string_view part = path.substr(at + 1, end - at - 1);
    if (part.empty() || part == "." || part == "..") {
      return false;
    }
    at = end;
  }
  return true;
}

}  // namespace

Result<Target> OpenTarget(std::string_view path) {
  while (path.size() > 1 && path.back() == '/') {
    path.remove_suffix(1);
  }
  if (!IsPlainPath(path)) {
    return MakeError(Code::kInvalidArgument, "open", std::string(path),
                     "must be an absolute path without . and ..");
  }
  const std::size_t slash = path.rfind('/');
  const std::string parent(slash == 0 ? "/" : path.substr(0, slash));
  MOUNTD_ASSIGN(UniqueFd fd, Open(AT_FDCWD, parent, kSafe));
  return Target{std::move(fd), std::string(path.substr(slash + 1))};
}

Result<UniqueFd> OpenDirectory(const Target& target) {
  return Open(target.parent.get(), target.name, kSafe | RESOLVE_BENEATH);
}

// Checks the type afterwards, because O_PATH opens a link itself.
Result<UniqueFd> OpenNode(const Target& target) {
  MOUNTD_ASSIGN(UniqueFd node, Open(target.parent.get(), target.name,
                                    kSafe | RESOLVE_BENEATH, 0));
  struct stat status {};
  if (::fstat(node.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", target.name);
  }
  if (S_ISLNK(status.st_mode)) {
    return MakeError(Code::kInvalidArgument, "open", target.name,
                     "must not be a symbolic link");
  }
  return node;
}

Result<UniqueFd> MakeFileAt(const Target& target, bool* made) {
  const UniqueFd file(
      ::openat(target.parent.get(), target.name.c_str(),
               O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  *made = file.valid();
  // EEXIST: an earlier call may have made it, because the calls are idempotent
  // (CSI spec, NodePublishVolume).
  if (!*made && errno != EEXIST) {
    return ErrnoError(errno, "openat", target.name);
  }
  return OpenNode(target);
}

Result<UniqueFd> OpenDirectoryAt(int parent, const std::string& name) {
  return Open(parent, name, kSafe | RESOLVE_BENEATH);
}

Result<UniqueFd> MakeDirectoryAt(int parent, const std::string& name,
                                 mode_t mode, bool* made) {
  *made = ::mkdirat(parent, name.c_str(), mode) == 0;
  if (!*made && errno != EEXIST) {
    return ErrnoError(errno, "mkdirat", name);
  }
  Result<UniqueFd> directory = OpenDirectoryAt(parent, name);
  // The umask has changed the mode in mkdirat. fchmodat, because fchmod refuses
  // O_PATH.
  if (directory && *made && ::fchmodat(parent, name.c_str(), mode, 0) != 0) {
    return ErrnoError(errno, "fchmodat", name);
  }
  return directory;
}

Result<DirectoryState> Inspect(const UniqueFd& directory) {
  struct statx status {};
  if (::statx(directory.get(), "", AT_EMPTY_PATH, STATX_INO, &status) != 0) {
    return ErrnoError(errno, "statx", "");
  }
  struct statvfs mount {};
  if (::fstatvfs(directory.get(), &mount) != 0) {
    return ErrnoError(errno, "fstatvfs", "");
  }
  DirectoryState state;
  state.device = makedev(status.stx_dev_major, status.stx_dev_minor);
  state.inode = status.stx_ino;
  state.is_mount_root = (status.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  if ((mount.f_flag & ST_RDONLY) != 0) {
    state.attributes |= MOUNT_ATTR_RDONLY;
  }
  if ((mount.f_flag & ST_NOEXEC) != 0) {
    state.attributes |= MOUNT_ATTR_NOEXEC;
  }
  if ((mount.f_flag & ST_NOATIME) != 0) {
    state.attributes |= MOUNT_ATTR_NOATIME;
  }
  return state;
}

Result<UniqueFd> CloneTree(const UniqueFd& source) {
  // Not AT_RECURSIVE, because mounts below the source do not belong to the
  // volume.
  UniqueFd tree(::open_tree(
      source.get(), "", AT_EMPTY_PATH | OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC));
  if (!tree.valid()) {
    return ErrnoError(errno, "open_tree", "");
  }
  return tree;
}

Result<void> AttachTree(const UniqueFd& tree, const UniqueFd& point,
                        Contents contents, std::uint64_t attributes) {
  mount_attr attr{};
  attr.attr_set = attributes | MOUNT_ATTR_NOSUID;
  // The mount of a device's node without MOUNT_ATTR_NODEV, because nobody could
  // open the device otherwise.
  if (contents == Contents::kDevice) {
    attr.attr_set |= MOUNT_ATTR_NOEXEC;
    attr.attr_clr |= MOUNT_ATTR_NODEV;
  } else {
    attr.attr_set |= MOUNT_ATTR_NODEV;
  }
  if ((attributes & MOUNT_ATTR_NOATIME) != 0) {
    // The atime flags are one field, so a value needs the whole field cleared
    // (mount_setattr(2)).
    attr.attr_clr |= MOUNT_ATTR__ATIME;
  }
  attr.propagation = MS_PRIVATE;
  if (::mount_setattr(tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attr,
                      sizeof(attr)) != 0) {
    return ErrnoError(errno, "mount_setattr", "");
  }
  // Names both ends by descriptor, so that the kernel looks up no path again.
  if (::move_mount(tree.get(), "", point.get(), "",
                   MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH) != 0) {
    return ErrnoError(errno, "move_mount", "");
  }
  return Ok();
}

Result<void> Unmount(const Target& target) {
  // umount2(2) takes no fd. The /proc link leads to the directory that was
  // opened, so the kernel resolves only the last name again.
  const std::string path = "/proc/self/fd/" +
                           std::to_string(target.parent.get()) + "/" +
                           target.name;
  if (::umount2(path.c_str(), UMOUNT_NOFOLLOW) == 0) {
    return Ok();
  }
  Error error = ErrnoError(errno, "umount2", target.name);
  if (error.sys_errno == EBUSY) {
    error.code = Code::kBusy;
  }
  return error;
}

Result<void> RemoveTarget(const Target& target) {
  const int parent = target.parent.get();
  const char* name = target.name.c_str();
  // ENOENT: an earlier call has removed it. The call is idempotent (CSI spec,
  // NodeUnpublishVolume).
  if (::unlinkat(parent, name, AT_REMOVEDIR) == 0 || errno == ENOENT) {
    return Ok();
  }
  // ENOTDIR: a device was mounted here, on a file. csi-local only makes empty
  // files.
  if (errno != ENOTDIR) {
    return ErrnoError(errno, "rmdir", target.name);
  }
  struct stat status {};
  if (::fstatat(parent, name, &status, AT_SYMLINK_NOFOLLOW) != 0 ||
      !S_ISREG(status.st_mode) || status.st_size != 0) {
    return MakeError(Code::kFailedPrecondition, "unlink", target.name,
                     "the file was not made as a device's target; remove it");
  }
  if (::unlinkat(parent, name, 0) == 0 || errno == ENOENT) {
    return Ok();
  }
  return ErrnoError(errno, "unlink", target.name);
}

}  // namespace mountd::csi_local
