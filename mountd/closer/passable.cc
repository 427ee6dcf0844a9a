// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/closer/passable.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cstdint>
#include <optional>

#include "mountd/closer/passed_fd.h"

namespace mountd::closer {
namespace {

// Secrets are 64 KiB at most. The kernel needs time to free larger memory.
constexpr std::uint64_t kMostMemory = std::uint64_t{1} << 20U;

// Returns whether the fd is a sealed memory file of at most kMostMemory.
// fcntl(2) knows seals only of tmpfs and hugetlbfs files. Such files have no
// server, so fstat(2) cannot hang on them. Blocks beyond the file's end count
// too (FALLOC_FL_KEEP_SIZE).
bool IsSmallSealedMemory(int fd) {
  const int seals = fcntl(fd, F_GET_SEALS);
  struct stat file {};
  return seals >= 0 && (seals & F_SEAL_GROW) != 0 &&
         (seals & F_SEAL_WRITE) != 0 && fstat(fd, &file) == 0 &&
         static_cast<std::uint64_t>(file.st_size) <= kMostMemory &&
         static_cast<std::uint64_t>(file.st_blocks) * 512 <= kMostMemory;
}

}  // namespace

bool IsPassable(int fd) {
  const int flags = fcntl(fd, F_GETFL);
  const std::optional<PassedFile> file = LookAt(fd);
  if (flags < 0 || !file) {
    return false;
  }
  if ((flags & O_PATH) != 0 || S_ISDIR(file->mode)) {
    return true;
  }
  if (S_ISFIFO(file->mode)) {
    return IsPipeReadEnd(fd);
  }
  // Before Linux 6.9 a pidfd has no type.
  return (file->mode == 0 || S_ISREG(file->mode)) &&
         (IsProcess(fd) || IsNetNamespace(fd) || IsSmallSealedMemory(fd));
}

}  // namespace mountd::closer
