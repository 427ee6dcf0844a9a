// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <span>
#include <string>

#include "mountd/base/unique_fd.h"
#include "mountd/kernel/sys.h"

// The part of the seam to the kernel that deals with processes and namespaces.
namespace mountd::exec {

// Children, other processes, and their namespaces.
class ProcessCalls {
 public:
  virtual ~ProcessCalls() = default;

  // Runs `body` in a child and returns the child's exit status. The child has a
  // session of its own, this process's capabilities, an environment with only
  // PATH, and only the fds of `kept`, which programs that it starts do not
  // inherit. Only the hard limit bounds the child's data (RLIMIT_DATA).
  //
  // ETIMEDOUT if the child ran longer than `limit`: this process then kills the
  // child and its session's process group, but a system call of the child may
  // end later. ECHILD if another process killed the child: this process then
  // kills the rest of the group. EAGAIN at the limit of processes; see
  // NamedOfChild.
  virtual Sys<std::uint8_t> RunChild(const std::function<int()>& body,
                                     std::span<const int> kept,
                                     std::chrono::milliseconds limit) = 0;
  // EBADF if the fd is no pidfd.
  virtual Sys<bool> HasEnded(int pidfd) = 0;

  // Makes a user namespace with this uid_map and gid_map, user_namespaces(7),
  // and no process in it.
  virtual Sys<UniqueFd> NewUserNamespace(const std::string& uid_map,
                                         const std::string& gid_map) = 0;
  // Returns the inode of the user namespace that owns `name_space`
  // (NS_GET_USERNS).
  virtual Sys<std::uint64_t> OwnerOf(int name_space) = 0;
  // Returns the uid of the owner of that user namespace (NS_GET_OWNER_UID).
  virtual Sys<uid_t> OwnerUidOf(int name_space) = 0;
  // Returns the kind, such as CLONE_NEWNET (NS_GET_NSTYPE). `name_space` must
  // be of nsfs.
  virtual Sys<std::uint64_t> NamespaceTypeOf(int name_space) = 0;
};

}  // namespace mountd::exec
