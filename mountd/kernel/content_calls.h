// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "mountd/base/unique_fd.h"
#include "mountd/kernel/sys.h"

// The part of the seam to the kernel that reads and writes files' content.
namespace mountd::exec {

// The content of files, of the kernel's settings and of memory. A `name` is one
// path component, and no call follows a link at it.
class ContentCalls {
 public:
  virtual ~ContentCalls() = default;

  // Reads a whole file of the kernel's, such as one of /proc. EFBIG if it holds
  // more than `limit` bytes.
  virtual Sys<std::string> ReadFile(int dir, const std::string& name,
                                    std::size_t limit) = 0;
  // ENOSPC if the kernel writes only a part.
  virtual Sys<void> Write(int fd, std::string_view text) = 0;
  // Writes to the file with the rights of user `uid` alone, because the file
  // may belong to that user and this process has no right to override modes.
  // The caller has checked that the file is no link and lies on a file system
  // of the kernel's own, such as cgroup2.
  virtual Sys<void> WriteAs(int dir, const std::string& name, uid_t uid,
                            std::string_view text) = 0;
  // Returns whether the fd is a file of memory (memfd_create(2), tmpfs), which
  // no server can delay.
  virtual Sys<bool> IsMemory(int fd) = 0;
  // Reads all of a memfd. EFBIG if it holds more than `limit` bytes.
  virtual Sys<std::string> ReadMemory(int fd, std::size_t limit) = 0;
  virtual Sys<std::string> ReadSetting(const char* path) = 0;
  virtual Sys<void> WriteSetting(const char* path, std::string_view text) = 0;
  // Returns a memfd that holds `content`.
  virtual Sys<UniqueFd> MakeMemory(std::span<const std::byte> content) = 0;
};

}  // namespace mountd::exec
