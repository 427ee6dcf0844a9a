// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/config/config_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "mountd/base/unique_fd.h"

namespace mountd {
namespace {

constexpr std::size_t kMaxConfigBytes = 1U << 20U;

Result<std::string> ReadWhole(const std::string& path, int fd) {
  std::string text;
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t size = read(fd, buffer.data(), buffer.size());
    if (size < 0 && errno == EINTR) {
      continue;
    }
    if (size < 0) {
      return ErrnoError(errno, "read", path);
    }
    if (size == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(size));
    if (text.size() > kMaxConfigBytes) {
      return MakeError(Code::kInvalidArgument, "config", path,
                       "is larger than 1 MiB");
    }
  }
}

}  // namespace

Result<std::string> ReadConfigFile(const std::string& path,
                                   bool require_root_owned) {
  const UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
  if (!fd.valid()) {
    return ErrnoError(errno, "open", path);
  }
  // Checks the open file, so that nobody can exchange it afterwards.
  struct stat status {};
  if (fstat(fd.get(), &status) != 0) {
    return ErrnoError(errno, "fstat", path);
  }
  if (!S_ISREG(status.st_mode)) {
    return MakeError(Code::kInvalidArgument, "config", path,
                     "is not a regular file");
  }
  if (require_root_owned &&
      (status.st_uid != 0 || (status.st_mode & (S_IWGRP | S_IWOTH)) != 0)) {
    return MakeError(Code::kPermissionDenied, "config", path,
                     "must belong to root and be writable by nobody else");
  }
  return ReadWhole(path, fd.get());
}

}  // namespace mountd
