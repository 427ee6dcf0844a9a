// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/closer/passed_fd.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <linux/nsfs.h>
#include <poll.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "mountd/base/unique_fd.h"

namespace mountd {

std::optional<PassedFile> LookAt(int fd) {
  struct statx file {};
  // AT_STATX_DONT_SYNC keeps the kernel from asking a server (statx(2)).
  if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
            STATX_TYPE | STATX_INO, &file) != 0) {
    return std::nullopt;
  }
  return PassedFile{makedev(file.stx_dev_major, file.stx_dev_minor),
                    file.stx_ino, static_cast<mode_t>(file.stx_mode & S_IFMT)};
}

std::string FileIdentityOf(int fd) {
  const std::optional<PassedFile> file = LookAt(fd);
  return file ? std::to_string(file->device) + ":" + std::to_string(file->inode)
              : std::string();
}

// Only kernfs has file handles of type FILEID_KERNFS, for cgroups of either
// version. The handle holds the id, so the kernel asks no server.
std::optional<std::uint64_t> CgroupIdOf(int fd) {
  constexpr int kKernfsHandle = 0xfe;  // FILEID_KERNFS
  alignas(file_handle) std::array<char, sizeof(file_handle) + MAX_HANDLE_SZ>
      buffer{};
  auto* const handle = reinterpret_cast<file_handle*>(buffer.data());
  handle->handle_bytes = MAX_HANDLE_SZ;
  int mount_id = 0;
  std::uint64_t id = 0;
  const std::optional<PassedFile> file = LookAt(fd);
  if (!file || !S_ISDIR(file->mode) ||
      name_to_handle_at(fd, "", handle, &mount_id, AT_EMPTY_PATH) != 0 ||
      handle->handle_type != kKernfsHandle ||
      handle->handle_bytes != sizeof(id)) {
    return std::nullopt;
  }
  struct statfs filesystem {};
  // Call fstatfs(2) only for a file of kernfs. The call asks the file system's
  // server, and kernfs has no server.
  if (fstatfs(fd, &filesystem) != 0 ||
      filesystem.f_type != CGROUP2_SUPER_MAGIC) {
    return std::nullopt;
  }
  std::memcpy(&id, buffer.data() + sizeof(file_handle), sizeof(id));
  return id;
}

std::optional<std::uint64_t> NamespaceInodeOf(int fd) {
  const UniqueFd own(open("/proc/thread-self/ns/net", O_RDONLY | O_CLOEXEC));
  const std::optional<PassedFile> nsfs = LookAt(own.get());
  const std::optional<PassedFile> file = LookAt(fd);
  if (!nsfs || !file || file->device != nsfs->device) {
    return std::nullopt;
  }
  return file->inode;
}

// Calls ioctl(2) only on nsfs, because another file system's server may never
// answer.
bool IsNetNamespace(int fd) {
  return NamespaceInodeOf(fd) && ioctl(fd, NS_GET_NSTYPE) == CLONE_NEWNET;
}

bool IsProcess(int fd) {
  // The kernel checks the fd before the rest, so EPERM and ESRCH mean that the
  // fd is a process.
  return syscall(SYS_pidfd_send_signal, fd, 0, nullptr, 0U) == 0 ||
         errno == EPERM || errno == ESRCH;
}

bool IsPipeReadEnd(int fd) {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return false;
  }
  const UniqueFd read_end(ends[0]);
  const UniqueFd write_end(ends[1]);
  // All pipes are on one device, the kernel's own pipefs.
  const std::optional<PassedFile> own = LookAt(read_end.get());
  const std::optional<PassedFile> file = LookAt(fd);
  const int flags = fcntl(fd, F_GETFL);
  return own && file && flags >= 0 && file->device == own->device &&
         S_ISFIFO(file->mode) && (flags & O_PATH) == 0 &&
         (flags & O_ACCMODE) == O_RDONLY;
}

bool HasWriter(int read_end) {
  pollfd look{read_end, 0, 0};
  return poll(&look, 1, 0) == 0;
}

namespace {

bool IsUniquePidfd(int fd) {
  constexpr long kPidfs = 0x50494446;
  struct statfs filesystem {};
  // IsProcess comes first, because fstatfs(2) of other files asks a server.
  return IsProcess(fd) && fstatfs(fd, &filesystem) == 0 &&
         filesystem.f_type == kPidfs;
}

}  // namespace

std::string TaskOf(int pidfd) {
  static std::uint64_t calls = 0;
  return IsUniquePidfd(pidfd) ? FileIdentityOf(pidfd)
                              : "call " + std::to_string(++calls);
}

}  // namespace mountd
