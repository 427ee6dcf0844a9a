// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/images/beneath.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace mountd::driver {
namespace {

// A rename or a mount anywhere during the lookup gives EAGAIN (openat2(2)).
constexpr int kTries = 100;

Error NotReadable(const std::string& object, const char* why) {
  return MakeError(Code::kInvalidArgument, "read", object, why);
}

Result<UniqueFd> OpenInTree(int tree, const std::string& path,
                            std::uint64_t flags, const std::string& object) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_NO_XDEV;
  for (int tries = 0;; ++tries) {
    UniqueFd fd(static_cast<int>(
        ::syscall(SYS_openat2, tree, path.c_str(), &how, sizeof(how))));
    if (fd.valid()) {
      return fd;
    }
    if (errno == EXDEV) {
      return NotReadable(object, "is on another file system than its tree");
    }
    if (errno != EAGAIN || tries == kTries) {
      return ErrnoError(errno, "open", object);
    }
  }
}

Result<struct stat> FactsOf(int fd, const std::string& object) {
  struct stat facts {};
  if (::fstat(fd, &facts) != 0) {
    return ErrnoError(errno, "fstat", object);
  }
  return facts;
}

Result<UniqueFd> OpenRegular(int tree, const std::string& path,
                             const std::string& object) {
  // An open with O_PATH has no effect on a FIFO or a device.
  MOUNTD_ASSIGN(const UniqueFd found, OpenInTree(tree, path, O_PATH, object));
  MOUNTD_ASSIGN(const struct stat facts, FactsOf(found.get(), object));
  if (!S_ISREG(facts.st_mode)) {
    return NotReadable(object, "must be a regular file");
  }
  // Somebody may have put a FIFO or a terminal in the file's place since.
  // O_NONBLOCK and O_NOCTTY keep this open from waiting and from taking the
  // terminal. The comparison below refuses the other file.
  MOUNTD_ASSIGN(
      UniqueFd file,
      OpenInTree(tree, path, O_RDONLY | O_NONBLOCK | O_NOCTTY, object));
  MOUNTD_ASSIGN(const struct stat opened, FactsOf(file.get(), object));
  if (opened.st_dev != facts.st_dev || opened.st_ino != facts.st_ino) {
    return MakeError(Code::kUnavailable, "open", object,
                     "was replaced during the call; call again");
  }
  return file;
}

}  // namespace

Result<UniqueFd> OpenTree(const std::string& path) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) {
    return ErrnoError(errno, "open", path,
                      errno == ENOTDIR ? "must be a directory" : "");
  }
  return fd;
}

Result<std::string> ReadBeneath(int tree, const std::string& path,
                                std::size_t max_bytes,
                                const std::string& object) {
  MOUNTD_ASSIGN(const UniqueFd file, OpenRegular(tree, path, object));
  std::string text;
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return ErrnoError(errno, "read", object);
    }
    if (got == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > max_bytes) {
      return MakeError(
          Code::kInvalidArgument, "read", object,
          "must have at most " + std::to_string(max_bytes) + " bytes");
    }
  }
}

}  // namespace mountd::driver
