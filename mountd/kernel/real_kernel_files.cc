// SPDX-License-Identifier: LGPL-2.1-or-later
#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/fsuid.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cstdio>
#include <cstring>
#include <thread>

#include "mountd/base/fd_message.h"
#include "mountd/kernel/kernel_abi.h"
#include "mountd/kernel/real_kernel.h"

namespace mountd::exec {
namespace {

// Calls `each` with the names of a directory until it returns false.
template <typename Each>
Sys<void> EachName(int dir, const Each& each) {
  // Opens the directory again, because `dir` may be O_PATH, and because
  // closedir(3) closes its fd.
  const int fd = ::openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  DIR* stream = ::fdopendir(fd);
  if (stream == nullptr) {
    const int err = errno;
    ::close(fd);
    return err;
  }
  int err = 0;
  for (bool more = true; more;) {
    errno = 0;
    const dirent* entry = ::readdir(stream);
    if (entry == nullptr) {
      err = errno;
      break;
    }
    const std::string_view name(&entry->d_name[0]);
    more = name == "." || name == ".." || each(name);
  }
  ::closedir(stream);
  if (err != 0) {
    return err;
  }
  return {};
}

}  // namespace

// FNV-1a, 64 bits. A weak hash is enough. A user who gives two names the same
// hash only keeps the executor from finding one of his own files.
std::uint64_t NameOrder(std::string_view name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) {
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  }
  return hash == 0 ? 1 : hash;
}

Sys<UniqueFd> RealKernel::Open(int dir, const std::string& path, int flags,
                               std::uint64_t resolve) {
  open_how how = {};
  how.flags = static_cast<unsigned>(flags | O_CLOEXEC);
  how.resolve = resolve;
  // openat2(2) answers EAGAIN if a rename or mount anywhere during the lookup
  // keeps it from proving that ".." stays below `dir`, and asks the caller to
  // try again. A user who renames all the time must not keep the executor here.
  constexpr int kTries = 100;
  for (int i = 0;; ++i) {
    const long fd =
        ::syscall(abi::kSysOpenat2, dir, path.c_str(), &how, sizeof(how));
    if (fd >= 0) {
      return UniqueFd(static_cast<int>(fd));
    }
    if (errno != EAGAIN || i == kTries) {
      return errno;
    }
  }
}

namespace {

// Returns whether statmount(2), the only call that takes unique ids, may be
// used. The kernel has it since it has unique ids. But the seccomp filter of an
// older program (systemd 252, for units and containers) refuses it and lets
// statx(2) through.
bool AreUniqueIdsKnown() {
  static const bool known = [] {
    abi::MountIdRequest none;
    // No mount has the id 0, so the kernel answers ENOENT or EINVAL. Any other
    // error comes from a filter.
    ::syscall(abi::kSysStatmount, &none, nullptr, 0, 0);
    return errno == ENOENT || errno == EINVAL;
  }();
  return known;
}

Sys<FileFacts> StatBy(int dir, const std::string& name, int flags) {
  struct statx stx = {};
  // AT_NO_AUTOMOUNT, because an automount point at the name would wait for its
  // daemon or server.
  const unsigned ids = abi::kStatxMountId |
                       (AreUniqueIdsKnown() ? abi::kStatxMountIdUnique : 0U);
  if (::statx(dir, name.c_str(), flags | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
              STATX_BASIC_STATS | ids, &stx) < 0) {
    return errno;
  }
  FileFacts facts;
  facts.mode = stx.stx_mode;
  facts.uid = stx.stx_uid;
  facts.gid = stx.stx_gid;
  facts.links = stx.stx_nlink;
  facts.inode = stx.stx_ino;
  facts.device = makedev(stx.stx_dev_major, stx.stx_dev_minor);
  facts.node = makedev(stx.stx_rdev_major, stx.stx_rdev_minor);
  facts.mount_id = stx.stx_mnt_id;
  facts.mount_id_is_unique = (stx.stx_mask & abi::kStatxMountIdUnique) != 0;
  facts.mount_root = (stx.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0;
  return facts;
}

}  // namespace

Sys<FileFacts> RealKernel::Stat(int dir, const std::string& name) {
  return StatBy(dir, name,
                AT_SYMLINK_NOFOLLOW | (name.empty() ? AT_EMPTY_PATH : 0));
}

namespace {

// Asks for no field, because FUSE refuses to answer others, even root, about a
// user's own mount. The kernel still fills in the device and the mount's
// reusable id.
Sys<struct statx> StatPlace(int dir, const std::string& name) {
  struct statx stx = {};
  const int flags =
      AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT | (name.empty() ? AT_EMPTY_PATH : 0);
  if (::statx(dir, name.c_str(), flags, 0, &stx) < 0) {
    return errno;
  }
  return stx;
}

}  // namespace

Sys<FileFacts> RealKernel::StatLinked(int dir, const std::string& name) {
  Sys<FileFacts> facts = StatBy(dir, name, 0);
  if (!FailedWith(facts, EACCES)) {
    return facts;
  }
  MOUNTD_ASSIGN(const struct statx stx, StatPlace(dir, name));
  FileFacts place;
  place.device = makedev(stx.stx_dev_major, stx.stx_dev_minor);
  place.mount_id = stx.stx_mnt_id;
  return place;
}

Sys<std::uint64_t> RealKernel::LinkedMountId(int dir, const std::string& name) {
  MOUNTD_ASSIGN(const struct statx stx, StatPlace(dir, name));
  return std::uint64_t{stx.stx_mnt_id};
}

Sys<void> RealKernel::MakeDirectory(int dir, const std::string& name,
                                    mode_t mode) {
  return Done(::mkdirat(dir, name.c_str(), mode));
}

Sys<void> RealKernel::MakeFile(int dir, const std::string& name, mode_t mode) {
  // O_EXCL, because with it openat(2) follows no link at the name.
  const UniqueFd fd(::openat(dir, name.c_str(),
                             O_CREAT | O_EXCL | O_RDONLY | O_CLOEXEC, mode));
  return Done(fd.get());
}

Sys<void> RealKernel::MakeLink(const std::string& text, int dir,
                               const std::string& name) {
  return Done(::symlinkat(text.c_str(), dir, name.c_str()));
}

Sys<std::string> RealKernel::ReadLink(int dir, const std::string& name) {
  std::array<char, PATH_MAX> text{};
  const ssize_t size =
      ::readlinkat(dir, name.c_str(), text.data(), text.size());
  if (size < 0) {
    return errno;
  }
  return std::string(text.data(), static_cast<std::size_t>(size));
}

Sys<void> RealKernel::RemoveFile(int dir, const std::string& name) {
  return Done(::unlinkat(dir, name.c_str(), 0));
}

Sys<void> RealKernel::RemoveDirectory(int dir, const std::string& name) {
  return Done(::unlinkat(dir, name.c_str(), AT_REMOVEDIR));
}

Sys<void> RealKernel::Rename(int dir, const std::string& name, int new_dir,
                             const std::string& new_name) {
  return Done(::renameat2(dir, name.c_str(), new_dir, new_name.c_str(),
                          RENAME_NOREPLACE));
}

Sys<void> RealKernel::SetOwner(int fd, uid_t uid, gid_t gid) {
  // fchown(2) refuses a descriptor with O_PATH (open(2)).
  return Done(::fchownat(fd, "", uid, gid, AT_EMPTY_PATH));
}

namespace {

// Returns a path of the fd for calls that take no O_PATH fd: fchmod (fchmodat2
// needs Linux 6.6), fgetxattr and fsetxattr.
std::string MagicLink(int fd) { return "/proc/self/fd/" + std::to_string(fd); }

constexpr char kAclAttribute[] = "system.posix_acl_access";

}  // namespace

Sys<void> RealKernel::SetMode(int fd, mode_t mode) {
  return Done(::chmod(MagicLink(fd).c_str(), mode));
}

Sys<std::string> RealKernel::ReadAcl(int fd) {
  std::array<char, 1024> acl{};  // 127 entries; an executor makes five
  const ssize_t size =
      ::getxattr(MagicLink(fd).c_str(), kAclAttribute, acl.data(), acl.size());
  if (size < 0) {
    // getxattr(2): ENODATA if the file has no such attribute.
    return errno == ENODATA ? Sys<std::string>(std::string()) : errno;
  }
  return std::string(acl.data(), static_cast<std::size_t>(size));
}

Sys<void> RealKernel::SetAcl(int fd, std::string_view acl) {
  return Done(::setxattr(MagicLink(fd).c_str(), kAclAttribute, acl.data(),
                         acl.size(), 0));
}

Sys<std::vector<std::string>> RealKernel::List(int dir, std::size_t limit) {
  std::vector<std::string> names;
  const Sys<void> read = EachName(dir, [&](std::string_view name) {
    names.emplace_back(name);
    return names.size() < limit;
  });
  if (!read) {
    return read.error();
  }
  return names;
}

Sys<std::vector<OrderedName>> RealKernel::ListAfter(int dir,
                                                    std::uint64_t after,
                                                    std::size_t limit) {
  const auto earlier = [](const OrderedName& a, const OrderedName& b) {
    return a.order < b.order;
  };
  // Keeps only the first names in a heap with the last of them in front, so
  // that memory does not grow with the directory.
  std::vector<OrderedName> names;
  const Sys<void> read = EachName(dir, [&](std::string_view name) {
    const std::uint64_t order = NameOrder(name);
    if (order <= after ||
        (names.size() == limit && order >= names.front().order)) {
      return true;
    }
    if (names.size() == limit) {
      std::pop_heap(names.begin(), names.end(), earlier);
      names.pop_back();
    }
    names.push_back({order, std::string(name)});
    std::push_heap(names.begin(), names.end(), earlier);
    return true;
  });
  if (!read) {
    return read.error();
  }
  std::sort_heap(names.begin(), names.end(), earlier);
  return names;
}

Sys<void> RealKernel::Lock(int fd) {
  // Wait for a bounded time, because a lock's holder may be stuck. mountd waits
  // longer for a plan, so that mountd gets the reason.
  constexpr std::chrono::seconds kWait(3);
  constexpr std::chrono::milliseconds kPause(2);
  const auto deadline = std::chrono::steady_clock::now() + kWait;
  for (;;) {
    // LOCK_NB and a pause, because flock(2) itself waits without a limit.
    const int err = ::flock(fd, LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    // Check this even with the lock. mountd may have given up while this plan
    // waited, and another mountd may have used the object.
    if (asker_ >= 0 && HasGivenUp(asker_)) {
      return ECANCELED;
    }
    if (err == 0) {
      return {};
    }
    if (err != EINTR &&
        (err != EWOULDBLOCK || std::chrono::steady_clock::now() >= deadline)) {
      return err;
    }
    std::this_thread::sleep_for(kPause);
  }
}

Sys<std::string> RealKernel::ReadFile(int dir, const std::string& name,
                                      std::size_t limit) {
  const UniqueFd fd(
      ::openat(dir, name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return errno;
  }
  std::string text;
  std::array<char, 16384> some{};
  for (;;) {
    const ssize_t size = ::read(fd.get(), some.data(), some.size());
    if (size < 0) {
      return errno;
    }
    if (size == 0) {
      return text;
    }
    text.append(some.data(), static_cast<std::size_t>(size));
    if (text.size() > limit) {
      return EFBIG;
    }
  }
}

Sys<std::string> RealKernel::ReadSetting(const char* path) {
  const UniqueFd fd(::open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  std::array<char, 64> text{};
  const ssize_t size =
      fd.valid() ? ::read(fd.get(), text.data(), text.size()) : -1;
  if (size < 0) {
    return errno;
  }
  std::string value(text.data(), static_cast<std::size_t>(size));
  while (!value.empty() && value.back() == '\n') {
    value.pop_back();
  }
  return value;
}

Sys<void> RealKernel::Write(int fd, std::string_view text) {
  const ssize_t size = ::write(fd, text.data(), text.size());
  if (size < 0) {
    return errno;
  }
  return static_cast<std::size_t>(size) == text.size() ? Sys<void>()
                                                       : Sys<void>(ENOSPC);
}

Sys<void> RealKernel::WriteAs(int dir, const std::string& name, uid_t uid,
                              std::string_view text) {
  // setfsuid(2) reports no error, so a second call asks for the result. With
  // another fsuid than 0 the thread has no capabilities over files. The kernel
  // gives them back with the fsuid 0.
  constexpr auto kAsk = static_cast<uid_t>(-1);
  const auto before = static_cast<uid_t>(::setfsuid(uid));
  const bool is_user = static_cast<uid_t>(::setfsuid(kAsk)) == uid;
  const UniqueFd fd(
      is_user ? ::openat(dir, name.c_str(), O_WRONLY | O_NOFOLLOW | O_CLOEXEC)
              : -1);
  const int error = is_user ? errno : EPERM;
  ::setfsuid(before);
  return fd.valid() ? Write(fd.get(), text) : Sys<void>(error);
}

Sys<bool> RealKernel::IsMemory(int fd) {
  // Only memory files have seals (fcntl(2)).
  if (::fcntl(fd, F_GET_SEALS) >= 0) {
    return true;
  }
  return errno == EINVAL ? Sys<bool>(false) : errno;
}

Sys<std::string> RealKernel::ReadMemory(int fd, std::size_t limit) {
  // Ask for one byte more than the limit, which shows whether there is more.
  std::string text(limit + 1, '\0');
  std::size_t done = 0;
  while (done < text.size()) {
    // pread(2), because the fd's other holders share its offset.
    const ssize_t size = ::pread(fd, text.data() + done, text.size() - done,
                                 static_cast<off_t>(done));
    if (size < 0) {
      return errno;
    }
    if (size == 0) {
      text.resize(done);
      return text;
    }
    done += static_cast<std::size_t>(size);
  }
  return EFBIG;
}

Sys<void> RealKernel::WriteSetting(const char* path, std::string_view text) {
  const UniqueFd fd(::open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) < 0) {
    return errno;
  }
  return {};
}

Sys<UniqueFd> RealKernel::OpenKernfs(int fs, std::uint64_t id) {
  // The handle's bytes follow the struct.
  alignas(file_handle) std::array<char, sizeof(file_handle) + sizeof(id)>
      buffer{};
  file_handle handle = {};
  handle.handle_bytes = sizeof(id);
  handle.handle_type = abi::kFileidKernfs;
  std::memcpy(buffer.data(), &handle, sizeof(handle));
  std::memcpy(&buffer.at(sizeof(handle)), &id, sizeof(id));
  // Needs CAP_DAC_READ_SEARCH (open_by_handle_at(2)), which the executor has.
  const int fd = ::open_by_handle_at(
      fs, reinterpret_cast<file_handle*>(buffer.data()), O_PATH | O_CLOEXEC);
  if (fd < 0) {
    return errno;
  }
  return UniqueFd(fd);
}

Sys<bool> RealKernel::HasEnded(int pidfd) {
  // Signal 0 only checks: the fd first, then the process, then the right to
  // send. So EPERM means that the process exists.
  if (::syscall(SYS_pidfd_send_signal, pidfd, 0, nullptr, 0) < 0 &&
      errno != EPERM) {
    return errno == ESRCH ? Sys<bool>(true) : Sys<bool>(errno);
  }
  pollfd process = {pidfd, POLLIN, 0};  // readable: a zombie
  const int count = ::poll(&process, 1, 0);
  if (count < 0) {
    return errno;
  }
  return count > 0;
}

}  // namespace mountd::exec
