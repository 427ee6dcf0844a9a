// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>

// Identifies the files behind fds that callers pass. mountd asks on the loop's
// thread, and the file may lie on a caller's FUSE file system. So no function
// here waits for a file system's server, as fstat(2) and fstatfs(2) would.
namespace mountd {

struct PassedFile {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  mode_t mode = 0;  // its type bits only
};

// Returns device, inode and type; nothing if `fd` is no open fd.
std::optional<PassedFile> LookAt(int fd);

// Returns "<device>:<inode>", by which mountd recognises calls on the same
// file. Empty if `fd` is no open fd.
std::string FileIdentityOf(int fd);

// Returns the id of the cgroup (version 2) whose directory the fd is; nothing
// for any other file.
std::optional<std::uint64_t> CgroupIdOf(int fd);

// Returns the inode of the namespace that the fd is; nothing for any other
// file.
std::optional<std::uint64_t> NamespaceInodeOf(int fd);

// Returns whether the fd is a network namespace. Closing its last fd never
// waits, because the kernel ends a network namespace in a thread of its own. A
// mount namespace has no such thread.
bool IsNetNamespace(int fd);

// Returns whether the fd is a pidfd or a directory of a process in /proc.
bool IsProcess(int fd);

// Returns whether the fd is the read end of a pipe(2), and no FIFO of a file
// system. Closing it never waits.
bool IsPipeReadEnd(int fd);

// Returns whether somebody has the write end of the pipe open.
bool HasWriter(int read_end);

// Returns a string that names the pidfd's process. Before pidfs (Linux 6.9) all
// pidfds are one file, so every call then gets a string of its own.
std::string TaskOf(int pidfd);

}  // namespace mountd
