// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>

#include "propagation/context.h"
#include "propagation/mountinfo_excerpt.h"

namespace mountd::propagation {

// A mount namespace, and who is in it.
struct MountNamespace {
  MountinfoExcerpt seen;
  std::set<std::uint32_t> pids;  // none: no process that was looked at
};

// The mount namespaces of the node, each read once. The kernel tells all mounts
// of a namespace by its id (Linux 6.11). Before, /proc/<pid>/mountinfo tells
// those below the process's root directory, and the process that sees most of
// them is believed.
class MountNamespaces {
 public:
  // `devices`: see ExcerptOf.
  MountNamespaces(const Context& context, std::set<std::uint64_t> devices)
      : context_(context), devices_(std::move(devices)) {}

  exec::Sys<void> ReadOwn();
  // That of a process or thread, by its directory in /proc; nullptr: it ends.
  // Another call leaves the answer as it is.
  exec::Sys<MountNamespace*> Of(int process);
  // Reads those that no process was looked at in, if the kernel shows them (see
  // Kernel::MountNamespaces), until `is_over` says so.
  exec::Sys<void> ReadOthers(const std::function<bool()>& is_over);

  const MountNamespace& own() const { return own_; }
  const std::map<std::uint64_t, MountNamespace>& others() const {
    return others_;  // by inode
  }

 private:
  // Where a process or thread looks from.
  struct View {
    std::uint64_t mount_id;
    std::uint64_t inode;
    friend auto operator<=>(const View&, const View&) = default;
  };

  exec::Sys<bool> ReadById(std::uint64_t id, MountinfoExcerpt* seen) const;
  exec::Sys<bool> ReadMountinfo(int process, MountinfoExcerpt* seen) const;
  exec::Sys<MountNamespace*> Widened(int process, std::uint64_t inode);

  const Context& context_;
  const std::set<std::uint64_t> devices_;
  std::uint64_t own_inode_ = 0;
  MountNamespace own_;
  std::map<std::uint64_t, MountNamespace> others_;
  // Of the namespaces that mountinfo tells of: from where it was read.
  std::map<std::uint64_t, std::set<View>> views_;
};

}  // namespace mountd::propagation
