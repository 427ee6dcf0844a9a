// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "mountd/base/memory_file.h"
#include "mountd/base/write_all.h"

namespace mountd::driver {

Result<UniqueFd> OpenDirectory(int parent, const std::string& name) {
  UniqueFd directory(::openat(parent, name.c_str(),
                              O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
  if (!directory.valid()) {
    return ErrnoError(errno, "open", name);
  }
  return directory;
}

Result<UniqueFd> MakeDirectory(int parent, const std::string& name) {
  if (::mkdirat(parent, name.c_str(), 0700) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "mkdir", name);
  }
  return OpenDirectory(parent, name);
}

bool IsThere(int directory, const std::string& name) {
  return ::faccessat(directory, name.c_str(), F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

Result<std::string> ReadFile(int directory, const std::string& name,
                             std::size_t most) {
  // O_NONBLOCK, because open(2) of a FIFO would wait for a writer.
  const UniqueFd file(::openat(directory, name.c_str(),
                               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) {
    return ErrnoError(errno, "open", name);
  }
  return ReadMemory(file.get(), most);
}

Result<void> WriteFile(int directory, const std::string& name,
                       std::string_view text, Sync sync) {
  const std::string beside = name + ".new";
  const UniqueFd file(
      ::openat(directory, beside.c_str(),
               O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!file.valid()) {
    return ErrnoError(errno, "open", beside);
  }
  MOUNTD_TRY(WriteAll(file.get(), text, name));
  // The file is on the disk before it gets its name, because a loss of power
  // could otherwise leave an empty file.
  if ((sync == Sync::kFile && ::fsync(file.get()) != 0) ||
      ::renameat(directory, beside.c_str(), directory, name.c_str()) != 0) {
    return ErrnoError(errno, "write", name);
  }
  return Ok();
}

// A directory's entry needs a sync of its own (fsync(2)).
Result<void> MarkWith(int directory, const std::string& name) {
  const UniqueFd file(::openat(directory, name.c_str(),
                               O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                               0600));
  if (!file.valid() || ::fsync(directory) != 0) {
    return ErrnoError(errno, "write", name);
  }
  return Ok();
}

}  // namespace mountd::driver
