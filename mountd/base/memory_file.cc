// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/memory_file.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <cerrno>

namespace mountd {

Result<UniqueFd> MemoryWith(const char* name, std::string_view text) {
  UniqueFd fd(::memfd_create(name, MFD_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), text.data(), text.size()) !=
                         static_cast<ssize_t>(text.size())) {
    return ErrnoError(errno, "memfd_create", name);
  }
  return fd;
}

Result<std::string> ReadMemory(int fd, std::size_t limit) {
  std::string text;
  std::array<char, 16384> buffer{};
  for (;;) {
    // pread(2) leaves the offset alone, because the fd's other holders share
    // that offset.
    const ssize_t got = ::pread(fd, buffer.data(), buffer.size(),
                                static_cast<off_t>(text.size()));
    if (got < 0 && errno == EINTR) {
      continue;
    }
    if (got < 0) {
      return ErrnoError(errno, "pread", "memory");
    }
    if (got == 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
    if (text.size() > limit) {
      return MakeError(Code::kResourceExhausted, "pread", "memory",
                       "holds more than " + std::to_string(limit) + " bytes");
    }
  }
}

}  // namespace mountd
