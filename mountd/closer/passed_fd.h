// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

// What is behind the fds that callers pass. It is asked on the loop's thread,
// and the file may lie on a FUSE file system of the caller's own: so nothing
// here waits for a file system's server, as fstat(2) and fstatfs(2) would.
namespace mountd {

struct PassedFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  mode_t mode = 0;  // its type alone
};

// Nothing if it is no fd.
std::optional<PassedFile> LookAt(int fd);

// "<device>:<inode>", which tells calls on the same file; "" if it is no fd.
std::string FileIdentityOf(int fd);

// The id of the cgroup (version 2) whose directory it is of; nothing for any
// other file.
std::optional<std::uint64_t> CgroupIdOf(int fd);

// The inode of the namespace that it is of; nothing for any other file.
std::optional<std::uint64_t> NamespaceInodeOf(int fd);

// Whether it is a network namespace. The last fd of one closes at once: the
// kernel ends it in a thread of its own, unlike a mount namespace.
bool IsNetNamespace(int fd);

// Whether it is a pidfd, or a directory of a process in /proc.
bool IsProcess(int fd);

// The same of a pidfd's process. Before pidfs (Linux 6.9) all pidfds are one
// file: then no two calls are on the same.
std::string TaskOf(int pidfd);

}  // namespace mountd
