// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/netns_path.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include <cerrno>

#include "mountd/base/paths.h"
#include "mountd/base/unique_fd.h"
#include "netns/cni/trusted_files.h"

namespace mountd::cni {
namespace {

constexpr char kOwnNamespace[] = "/proc/self/ns/net";

bool IsNetworkNamespace(int fd) {
  struct statfs filesystem {};
  // The ioctl comes last, because its number may mean something else to another
  // file's driver (ioctl(2)).
  return ::fstatfs(fd, &filesystem) == 0 && filesystem.f_type == NSFS_MAGIC &&
         ::ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET;
}

}  // namespace

Result<std::uint64_t> CheckNetns(const std::string& path, std::uint64_t inode) {
  if (!paths::IsNormalised(path)) {
    return MakeError(Code::kInvalidArgument, "netns", path,
                     "must be an absolute path without ., .. or a trailing /");
  }
  const std::size_t slash = path.rfind('/');
  MOUNTD_ASSIGN(const UniqueFd directory,
                OpenTrustedDirectory(path.substr(0, slash)));
  // NONBLOCK, because a FIFO at the path would otherwise block the open.
  const UniqueFd file(::openat(directory.get(), path.substr(slash + 1).c_str(),
                               O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file.valid()) {
    return ErrnoError(errno, "netns", path);
  }
  struct stat facts {};
  struct stat own {};
  if (!IsNetworkNamespace(file.get()) || ::fstat(file.get(), &facts) != 0) {
    return MakeError(Code::kFailedPrecondition, "netns", path,
                     "is not a network namespace");
  }
  if (::stat(kOwnNamespace, &own) != 0 || own.st_ino == facts.st_ino) {
    return MakeError(
        Code::kPermissionDenied, "netns", path,
        "is the host's network namespace, which no allocation may have");
  }
  if (inode != 0 && inode != facts.st_ino) {
    return MakeError(Code::kFailedPrecondition, "netns", path,
                     "is another namespace than at the ADD");
  }
  return facts.st_ino;
}

}  // namespace mountd::cni
