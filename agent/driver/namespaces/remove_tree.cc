// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/namespaces/remove_tree.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string_view>

#include "agent/driver/namespaces/child.h"

namespace mountd::driver {
namespace {

enum RemoveStep : int { kEnter, kBecomeRoot, kRemove, kRemoved };

constexpr std::size_t kNameBytes = 256;  // NAME_MAX and the end

struct RemoveOrder {
  int user_namespace = -1;
  int directory = -1;
  std::array<char, kNameBytes> name{};
};

// The head of a record of getdents64(2); the name follows.
struct Entry {
  std::uint64_t inode;
  std::int64_t offset;
  unsigned short bytes;
  unsigned char type;
  char name[1];
};
constexpr std::size_t kNameOffset = offsetof(Entry, name);

bool IsDotName(const char* name) {
  return name[0] == '.' &&
         (name[1] == '\0' || (name[1] == '.' && name[2] == '\0'));
}

// Calls `body` with each name of the directory. False with errno if the
// directory cannot be read. All of this file's code in the child is
// async-signal-safe, so it has no opendir(3).
template <typename Function>
bool ForEachName(int directory, Function body) {
  alignas(Entry) std::array<char, 8192> page;
  if (::lseek(directory, 0, SEEK_SET) != 0) {
    return false;
  }
  for (;;) {
    const long got =
        ::syscall(SYS_getdents64, directory, page.data(), page.size());
    if (got <= 0) {
      return got == 0;
    }
    for (long at = 0; at < got;) {
      const char* const record = page.data() + at;
      unsigned short bytes = 0;
      std::memcpy(&bytes, record + offsetof(Entry, bytes), sizeof(bytes));
      if (!IsDotName(record + kNameOffset)) {
        body(record + kNameOffset);
      }
      at += bytes;
    }
  }
}

// Enters no mount, because a mount in the tree may be somebody else's volume.
int OpenDirectoryAt(int directory, const char* name) {
  open_how how{};
  how.flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  how.resolve = RESOLVE_NO_XDEV | RESOLVE_NO_SYMLINKS | RESOLVE_BENEATH;
  return static_cast<int>(
      ::syscall(SYS_openat2, directory, name, &how, sizeof(how)));
}

// Removes an entry that is a file, or an empty directory.
bool RemoveSimple(int directory, const char* name) {
  if (::unlinkat(directory, name, 0) == 0) {
    return true;
  }
  // POSIX and Linux differ in the errno for a directory (unlink(2)).
  const int file_error = errno;
  if (file_error != EISDIR && file_error != EPERM) {
    return false;
  }
  if (::unlinkat(directory, name, AT_REMOVEDIR) == 0) {
    return true;
  }
  if (errno == ENOTDIR) {
    errno = file_error;
  }
  return false;
}

bool IsNotEmpty(int error) { return error == ENOTEMPTY || error == EEXIST; }

// Removes the trees in one directory `top`. Every directory in a directory of
// `top` moves up into `top`, so each round has a depth of two.
class Remover {
 public:
  explicit Remover(int top) : top_(top) {}

  // Returns 0, or the errno of the first entry that stays.
  int RemoveAll() {
    do {
      changed_ = false;
      error_ = 0;
      if (!ForEachName(top_, [this](const char* name) { RemoveOne(name); })) {
        return errno;
      }
    } while (changed_);
    return error_;
  }

 private:
  void Done(bool success) {
    if (success) {
      changed_ = true;
    } else if (errno != ENOENT && error_ == 0) {
      error_ = errno;
    }
  }

  void RemoveOne(const char* name) {
    if (RemoveSimple(top_, name)) {
      changed_ = true;
      return;
    }
    if (!IsNotEmpty(errno)) {
      Done(false);
      return;
    }
    const int directory = OpenDirectoryAt(top_, name);
    if (directory < 0) {
      Done(false);
      return;
    }
    const bool read =
        ForEachName(directory, [this, directory](const char* inner) {
          RemoveInner(directory, inner);
        });
    if (!read) {
      Done(false);
    }
    ::close(directory);
    Done(::unlinkat(top_, name, AT_REMOVEDIR) == 0);
  }

  void RemoveInner(int directory, const char* name) {
    if (RemoveSimple(directory, name)) {
      changed_ = true;
      return;
    }
    if (!IsNotEmpty(errno)) {
      Done(false);
      return;
    }
    Done(MoveUp(directory, name));
  }

  // Moves the directory to a free name in `top`. Tries several names, because
  // an earlier call may have left directories under some of them.
  bool MoveUp(int directory, const char* name) {
    for (int tries = 0; tries < kMostTries; ++tries) {
      std::array<char, 24> free_name{};
      NextName(&free_name);
      if (::syscall(SYS_renameat2, directory, name, top_, free_name.data(),
                    1U /* RENAME_NOREPLACE */) == 0) {
        return true;
      }
      if (errno == EINVAL || errno == ENOSYS) {
        // This file system does not know RENAME_NOREPLACE. rename(2) is safe
        // here, because it replaces nothing but an empty directory.
        return ::renameat(directory, name, top_, free_name.data()) == 0;
      }
      if (errno != EEXIST) {
        return false;
      }
    }
    return false;
  }

  // ".mountd-" and the hex digits of a number.
  void NextName(std::array<char, 24>* name) {
    constexpr char kPrefix[] = ".mountd-";
    std::memcpy(name->data(), kPrefix, sizeof(kPrefix) - 1);
    std::uint64_t number = next_++;
    std::size_t at = sizeof(kPrefix) - 1;
    do {
      (*name)[at++] = "0123456789abcdef"[number & 15U];
      number >>= 4U;
    } while (number != 0 && at + 1 < name->size());
    (*name)[at] = '\0';
  }

  static constexpr int kMostTries = 1 << 20;
  const int top_;
  bool changed_ = false;
  int error_ = 0;
  std::uint64_t next_ = 0;
};

int RemoveEntry(int directory, const char* name) {
  if (RemoveSimple(directory, name) || errno == ENOENT) {
    return 0;
  }
  if (!IsNotEmpty(errno)) {
    return errno;
  }
  const int top = OpenDirectoryAt(directory, name);
  if (top < 0) {
    return errno;
  }
  const int failed = Remover(top).RemoveAll();
  if (failed != 0) {
    return failed;
  }
  return ::unlinkat(directory, name, AT_REMOVEDIR) == 0 ? 0 : errno;
}

// Makes the system calls directly, because glibc's functions would also change
// the threads that the parent had.
bool BecomeRootInside() {
  // setgroups(2) may fail here, because a map of one id denies it.
  ::syscall(SYS_setgroups, 0, nullptr);
  return ::syscall(SYS_setresgid, 0, 0, 0) == 0 &&
         ::syscall(SYS_setresuid, 0, 0, 0) == 0;
}

void RemoveInChild(int socket, const void* data) {
  const RemoveOrder& order = *static_cast<const RemoveOrder*>(data);
  if (::setns(order.user_namespace, CLONE_NEWUSER) != 0) {
    ReportStep(socket, kEnter, errno);
  } else if (!BecomeRootInside()) {
    ReportStep(socket, kBecomeRoot, errno);
  } else if (const int failed =
                 RemoveEntry(order.directory, order.name.data())) {
    ReportStep(socket, kRemove, failed);
  } else {
    ReportStep(socket, kRemoved, 0);
  }
}

Error RemoveError(const ChildReport& report, const std::string& name) {
  switch (report.step) {
    case kEnter:
      return ErrnoError(report.error, "setns", name,
                        "the user namespace is not one of this user's");
    case kBecomeRoot:
      return ErrnoError(report.error, "setresuid", name,
                        "the user namespace has no id 0");
    default:
      return ErrnoError(report.error, "remove", name,
                        report.error == EBUSY
                            ? "unmount what is mounted in the tree"
                            : "a file in the tree stays");
  }
}

}  // namespace

Result<void> RemoveTreeAsRootOf(int user_namespace, int directory,
                                const std::string& name,
                                std::chrono::milliseconds patience) {
  if (name.empty() || name.size() >= kNameBytes || name == "." ||
      name == ".." ||
      name.find_first_of(std::string_view("/\0", 2)) != std::string::npos) {
    return MakeError(Code::kInvalidArgument, "remove", "",
                     "the name is not one component of a path");
  }
  RemoveOrder order;
  order.user_namespace = user_namespace;
  order.directory = directory;
  name.copy(order.name.data(), name.size());
  MOUNTD_ASSIGN(const Child child, Child::Fork(RemoveInChild, &order,
                                               {user_namespace, directory}));
  MOUNTD_ASSIGN(const ChildReport report, child.Receive(Deadline(patience)));
  if (report.step != kRemoved || report.error != 0) {
    return RemoveError(report, name);
  }
  return Ok();
}

}  // namespace mountd::driver
