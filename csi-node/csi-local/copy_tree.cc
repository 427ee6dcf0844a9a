// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/csi-local/copy_tree.h"

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "csi-node/csi-local/files.h"

namespace mountd::csi_local {
namespace {

// Each level of the recursion has two descriptors open.
constexpr int kMaxDepth = 256;
constexpr std::size_t kMaxAttribute = 65536;  // XATTR_SIZE_MAX

// Copies only attributes that a file's owner can set, because "trusted." and
// the labels of security modules belong to the node.
bool IsCopied(std::string_view attribute) {
  return attribute.substr(0, 5) == "user." ||
         attribute.substr(0, 16) == "system.posix_acl";
}

Result<void> CopyAttributes(int from, int to, const std::string& name) {
  std::vector<char> names(kMaxAttribute);
  const ssize_t length = ::flistxattr(from, names.data(), names.size());
  if (length < 0) {
    // ENOTSUP: the file system has no extended attributes (listxattr(2)).
    return errno == ENOTSUP
               ? Ok()
               : Result<void>(ErrnoError(errno, "flistxattr", name));
  }
  std::vector<char> value(kMaxAttribute);
  for (std::string_view rest(names.data(), static_cast<std::size_t>(length));
       !rest.empty();) {
    const std::string attribute(rest.substr(0, rest.find('\0')));
    rest.remove_prefix(attribute.size() + 1);
    if (!IsCopied(attribute)) {
      continue;
    }
    const ssize_t size =
        ::fgetxattr(from, attribute.c_str(), value.data(), value.size());
    if (size < 0 && errno == ENODATA) {
      continue;  // removed meanwhile
    }
    if (size < 0 || ::fsetxattr(to, attribute.c_str(), value.data(),
                                static_cast<std::size_t>(size), 0) != 0) {
      return ErrnoError(errno, "xattr", name);
    }
  }
  return Ok();
}

// Sets the owner first, because a change of the owner clears the set-user-ID
// and set-group-ID bits.
Result<void> CopyStatus(const struct stat& status, int from, int to,
                        const std::string& name) {
  if (::fchown(to, status.st_uid, status.st_gid) != 0 ||
      ::fchmod(to, status.st_mode & 07777) != 0) {
    return ErrnoError(errno, "fchown", name);
  }
  MOUNTD_TRY(CopyAttributes(from, to, name));
  const std::array<timespec, 2> times{status.st_atim, status.st_mtim};
  return ::futimens(to, times.data()) == 0
             ? Ok()
             : Result<void>(ErrnoError(errno, "futimens", name));
}

std::string Below(const std::string& path, const std::string& name) {
  return path.empty() ? name : path + "/" + name;
}

class TreeCopy {
 public:
  TreeCopy(const UniqueFd& from, const UniqueFd& to, dev_t device)
      : from_(from), to_(to), device_(device) {}

  Result<void> Run() { return CopyDirectory(from_.get(), to_.get(), "", 0); }

 private:
  Result<void> CopyDirectory(int from, int to, const std::string& path,
                             int depth) {
    if (depth > kMaxDepth) {
      return MakeError(Code::kFailedPrecondition, "copy", "",
                       "directories are nested too deep");
    }
    struct stat status {};
    if (::fstat(from, &status) != 0) {
      return ErrnoError(errno, "fstat", path);
    }
    MOUNTD_ASSIGN(const auto names, ListNames(from));
    for (const std::string& name : names) {
      MOUNTD_TRY(CopyEntry(from, to, name, Below(path, name), depth));
    }
    // Copies the status last, because making entries changes the directory's
    // times.
    return CopyStatus(status, from, to, path);
  }

  Result<void> CopyEntry(int from, int to, const std::string& name,
                         const std::string& path, int depth) {
    struct stat status {};
    // ENOENT: a source that is in use may lose entries during the copy.
    if (::fstatat(from, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
      return errno == ENOENT ? Ok()
                             : Result<void>(ErrnoError(errno, "fstatat", path));
    }
    switch (status.st_mode & S_IFMT) {
      case S_IFDIR:
        return status.st_dev == device_
                   ? EnterDirectory(from, to, name, path, depth)
                   : Ok();
      case S_IFREG:
        return CopyFile(from, to, name, path);
      case S_IFLNK:
        return CopyLink(status, from, to, name);
      case S_IFIFO:
        return ::mkfifoat(to, name.c_str(), 0600) == 0
                   ? CopyStatusAt(status, to, name)
                   : Result<void>(ErrnoError(errno, "mkfifoat", path));
      default:
        return Ok();
    }
  }

  Result<void> EnterDirectory(int from, int to, const std::string& name,
                              const std::string& path, int depth) {
    // O_NOFOLLOW, because a link may have replaced the directory since
    // fstatat(2).
    const UniqueFd source(::openat(
        from, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!source.valid()) {
      // Somebody has put another file there meanwhile.
      return errno == ENOENT || errno == ENOTDIR || errno == ELOOP
                 ? Ok()
                 : Result<void>(ErrnoError(errno, "openat", path));
    }
    if (::mkdirat(to, name.c_str(), 0700) != 0) {
      return ErrnoError(errno, "mkdirat", path);
    }
    const UniqueFd target(::openat(
        to, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!target.valid()) {
      return ErrnoError(errno, "openat", path);
    }
    return CopyDirectory(source.get(), target.get(), path, depth + 1);
  }

  Result<void> CopyFile(int from, int to, const std::string& name,
                        const std::string& path) {
    // O_PATH, because the open of a device that has taken the file's place may
    // have effects.
    const UniqueFd found(
        ::openat(from, name.c_str(), O_PATH | O_NOFOLLOW | O_CLOEXEC));
    struct stat status {};
    if (!found.valid() || ::fstat(found.get(), &status) != 0) {
      return errno == ENOENT ? Ok()
                             : Result<void>(ErrnoError(errno, "openat", path));
    }
    if (!S_ISREG(status.st_mode) || status.st_dev != device_) {
      return Ok();
    }
    const UniqueFd source(
        ::open(("/proc/self/fd/" + std::to_string(found.get())).c_str(),
               // O_NONBLOCK, because otherwise a lease of a task could block
               // the open for 45 s (fcntl(2)).
               O_RDONLY | O_NONBLOCK | O_CLOEXEC));
    if (!source.valid()) {
      return ErrnoError(errno, "open", path);
    }
    if (status.st_nlink > 1) {
      const auto [first, added] = linked_.emplace(status.st_ino, path);
      if (!added) {
        return ::linkat(to_.get(), first->second.c_str(), to, name.c_str(),
                        0) == 0
                   ? Ok()
                   : Result<void>(ErrnoError(errno, "linkat", path));
      }
    }
    // 0600 until the copy is whole and gets the owner and mode of its source.
    const UniqueFd target(
        ::openat(to, name.c_str(),
                 O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
    if (!target.valid()) {
      return ErrnoError(errno, "openat", path);
    }
    MOUNTD_TRY(CopyData(source.get(), target.get(), path));
    return CopyStatus(status, source.get(), target.get(), path);
  }

  static Result<void> CopyLink(const struct stat& status, int from, int to,
                               const std::string& name) {
    std::array<char, PATH_MAX> text{};
    const ssize_t length =
        ::readlinkat(from, name.c_str(), text.data(), text.size() - 1);
    if (length < 0) {
      // EINVAL: the file is no link any more (readlink(2)).
      return errno == ENOENT || errno == EINVAL
                 ? Ok()
                 : Result<void>(ErrnoError(errno, "readlinkat", name));
    }
    if (::symlinkat(text.data(), to, name.c_str()) != 0) {
      return ErrnoError(errno, "symlinkat", name);
    }
    return CopyStatusAt(status, to, name);
  }

  // Copies the status of a file that cannot be opened.
  static Result<void> CopyStatusAt(const struct stat& status, int to,
                                   const std::string& name) {
    const std::array<timespec, 2> times{status.st_atim, status.st_mtim};
    if (::fchownat(to, name.c_str(), status.st_uid, status.st_gid,
                   AT_SYMLINK_NOFOLLOW) != 0 ||
        (!S_ISLNK(status.st_mode) &&
         ::fchmodat(to, name.c_str(), status.st_mode & 07777, 0) != 0) ||
        ::utimensat(to, name.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) != 0) {
      return ErrnoError(errno, "fchownat", name);
    }
    return Ok();
  }

  const UniqueFd& from_;
  const UniqueFd& to_;
  const dev_t device_;
  // For each inode with several names, the path in `to_` of the name that was
  // copied first.
  std::map<ino_t, std::string> linked_;
};

}  // namespace

Result<void> CopyTree(const UniqueFd& from, const UniqueFd& to) {
  // Opens the directories again, because nobody can list a directory by a
  // descriptor with O_PATH (open(2)).
  const UniqueFd source(
      ::openat(from.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd target(
      ::openat(to.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  struct stat status {};
  if (!source.valid() || !target.valid() ||
      ::fstat(source.get(), &status) != 0) {
    return ErrnoError(errno, "open", "copy");
  }
  return TreeCopy(source, target, status.st_dev).Run();
}

}  // namespace mountd::csi_local
