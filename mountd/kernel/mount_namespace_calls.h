// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <vector>

#include "mountd/kernel/mount_calls.h"
#include "mountd/kernel/sys.h"

// The part of the seam to the kernel that enters and lists mount namespaces.
namespace mountd::exec {

// A mount namespace as ioctl_nsfs(2) names it.
struct MountNamespaceName {
  std::uint64_t inode = 0;
  std::uint64_t id = 0;
};

// Mount namespaces, and the mounts of others.
class MountNamespaceCalls {
 public:
  virtual ~MountNamespaceCalls() = default;

  // Returns the id of the mount namespace of a process or thread; `process` is
  // its directory in /proc. ENOTTY before Linux 6.11.
  virtual Sys<std::uint64_t> MountNamespaceOf(int process) = 0;
  // Returns all mount namespaces of the machine except this process's own,
  // including those without a process. ENOTTY before Linux 6.12; EPERM where
  // the kernel shows them to nobody in this pid namespace.
  virtual Sys<std::vector<MountNamespaceName>> MountNamespaces() = 0;
  // Returns the mounts of the mount namespace with that id (Linux 6.11), with
  // mountinfo's ids and with points in that namespace. ENOENT if it is gone.
  virtual Sys<std::vector<MountFacts>> MountsOfNamespace(std::uint64_t id) = 0;

  // Moves the process into a new copy of its mount namespace. The old namespace
  // can pin the copy: the kernel lets a namespace pin only a younger one,
  // because this excludes loops. On an error the process stays in the old
  // namespace.
  virtual Sys<void> NewMountNamespace() = 0;
  // Enters a namespace by setns(2), which sets the root and the working
  // directory to the namespace's root. Only a child of RunChild may enter a
  // namespace of another process.
  virtual Sys<void> EnterMountNamespace(int mount_namespace) = 0;
};

}  // namespace mountd::exec
