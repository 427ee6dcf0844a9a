// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "propagation/ground/context.h"
#include "propagation/look/mountinfo_excerpt.h"

namespace mountd::propagation {

// A mount namespace and the processes in it.
struct MountNamespace {
  MountinfoExcerpt seen;
  std::set<std::uint32_t> pids;  // empty: no process was looked at
};

// Reads the mount namespaces of the node, each once. Since Linux 6.11 the
// kernel lists all mounts of a namespace by the namespace's id. On older
// kernels /proc/<pid>/mountinfo lists the mounts below the process's root
// directory, so this class keeps the list of the process that sees most mounts.
class MountNamespaces {
 public:
  // `devices` is as ExcerptOf takes it.
  MountNamespaces(const Context& context, std::set<std::uint64_t> devices)
      : context_(context), devices_(std::move(devices)) {}

  exec::Sys<void> ReadOwn();
  // Returns the namespace of a process or thread, by its directory in /proc;
  // nullptr if the process is ending. The pointer stays valid over further
  // calls.
  exec::Sys<MountNamespace*> Of(int process);
  // Reads the namespaces in which no process was looked at, if the kernel lists
  // them (see Kernel::MountNamespaces). Stops when `is_over` returns true.
  // EAGAIN if namespaces come and go so fast that some could not be read.
  exec::Sys<void> ReadOthers(const std::function<bool()>& is_over);

  const MountNamespace& own() const { return own_; }
  // Names a namespace. The number of /proc/<pid>/ns/mnt is only a second
  // choice, because the kernel gives a free number to the next namespace. The
  // kernel never uses an id again.
  struct Key {
    std::uint64_t id = 0;     // 0 before Linux 6.11
    std::uint64_t inode = 0;  // 0 if the id is known
    friend auto operator<=>(const Key&, const Key&) = default;
  };
  const std::map<Key, MountNamespace>& others() const { return others_; }

 private:
  // The root directory that a process or thread sees mounts from.
  struct View {
    std::uint64_t mount_id;
    std::uint64_t inode;
    friend auto operator<=>(const View&, const View&) = default;
  };

  exec::Sys<bool> ReadListed(const std::function<bool()>& is_over);
  exec::Sys<bool> ReadById(std::uint64_t id, MountinfoExcerpt* seen) const;
  exec::Sys<bool> ReadMountinfo(int process, MountinfoExcerpt* seen) const;
  exec::Sys<MountNamespace*> Widened(int process, std::uint64_t inode);

  const Context& context_;
  const std::set<std::uint64_t> devices_;
  std::uint64_t own_inode_ = 0;
  MountNamespace own_;
  std::map<Key, MountNamespace> others_;
  // For each namespace read from mountinfo, the views that were read.
  std::map<std::uint64_t, std::set<View>> views_;
};

}  // namespace mountd::propagation
