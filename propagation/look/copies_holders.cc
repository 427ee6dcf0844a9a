// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>

#include "mountd/base/paths.h"
#include "propagation/look/copies_search.h"

namespace mountd::propagation {
namespace {

using exec::Holder;
using exec::HolderKind;

const MountFacts* ParentOf(const MountNamespace& space,
                           const MountFacts& mount) {
  const auto parent = space.seen.places.find(mount.parent_id);
  return parent == space.seen.places.end() ||
                 space.seen.mounts[parent->second].id != mount.parent_id
             ? nullptr
             : &space.seen.mounts[parent->second];
}

// Returns the path, within the parent's file system, of the directory that
// `mount` is attached to. Empty if that path is not known.
std::string PlaceOf(const MountFacts& mount, const MountFacts& parent) {
  const std::string top = parent.point == "/" ? "" : parent.point;
  const std::string root = parent.root == "/" ? "" : parent.root;
  return mount.point.starts_with(top + "/")
             ? root + mount.point.substr(top.size())
             : "";
}

}  // namespace

// Returns the peer groups that receive mounts made in `group`.
const std::set<std::uint64_t>& CopySearch::FollowersOf(std::uint64_t group) {
  const auto [known, is_new] = followers_.try_emplace(group);
  std::set<std::uint64_t>& all = known->second;
  if (!is_new) {
    return all;
  }
  all.insert(group);
  const auto add = [&all](const MountNamespace& space) {
    bool grown = false;
    for (const MountFacts& mount : space.seen.mounts) {
      if (mount.peer_group != 0 && all.contains(mount.master)) {
        grown = all.insert(mount.peer_group).second || grown;
      }
    }
    return grown;
  };
  // A group found in this round may have followers, so repeat until none is
  // new.
  bool grown = true;
  while (grown) {
    grown = add(namespaces_->own());
    for (const auto& [key, space] : namespaces_->others()) {
      grown = add(space) || grown;
    }
  }
  return all;
}

// Returns a key of the mount and of the place in the parent's file system that
// the mount is attached to. Empty if that place is not known.
std::string CopySearch::KeyOf(const MountFacts& mount,
                              const MountFacts& parent) {
  const std::string place = PlaceOf(mount, parent);
  return place.empty()
             ? ""
             : std::to_string(mount.device) + '\0' + mount.root + '\0' +
                   std::to_string(parent.device) + '\0' + place;
}

void CopySearch::IndexOwn() {
  for (const MountFacts& mount : namespaces_->own().seen.mounts) {
    const MountFacts* const parent = ParentOf(namespaces_->own(), mount);
    if (parent != nullptr && parent->peer_group != 0) {
      groups_[KeyOf(mount, *parent)].insert(parent->peer_group);
    }
  }
  // IndexOwn cannot match a mount whose place is not known (KeyOf).
  groups_.erase("");
}

// Returns whether the mount came by propagation from one of mountd's mounts.
// The kernel removes such a mount when mountd unmounts its own.
bool CopySearch::Goes(const MountNamespace& space, const MountFacts& copy) {
  const MountFacts* const parent = ParentOf(space, copy);
  const auto ours =
      parent == nullptr ? groups_.end() : groups_.find(KeyOf(copy, *parent));
  return ours != groups_.end() &&
         std::any_of(ours->second.begin(), ours->second.end(),
                     [&](std::uint64_t group) {
                       const auto& all = FollowersOf(group);
                       return all.contains(parent->peer_group) ||
                              all.contains(parent->master);
                     });
}

// Adds the holder to the answer; each process once.
void CopySearch::Tell(const Wanted& wanted, Holder holder) {
  const bool is_member = members_.pids.contains(holder.pid);
  if (wanted.is_ambiguous || (wanted.is_shared && !is_member) ||
      !told_.insert(holder.pid).second) {
    return;
  }
  exec::HoldersState& holders = state_.holders;
  if (holders.count == exec::kMaxHolders) {
    holders.more = 1;
    return;
  }
  holder.in_cgroup = is_member ? 1 : 0;
  if (holder.pid != 0) {
    if (const Result<Process> process = OpenProcess(context_, holder.pid)) {
      Describe(context_, *process, &holder);
    }
  }
  holders.holders.at(holders.count++) = holder;
}

void CopySearch::TellMounts(const MountNamespace& space) {
  for (const MountFacts& mount : space.seen.mounts) {
    for (const Wanted& wanted : wanted_) {
      if (!wanted.Matches(mount) || Goes(space, mount) ||
          (!wanted.is_volume && hosts_points_.contains(mount.point))) {
        continue;
      }
      Holder holder;
      holder.is_copy = 1;
      holder.kind = HolderKind::kNamespace;
      if (space.pids.empty()) {
        Tell(wanted, holder);
      }
      holder.kind = HolderKind::kMount;
      for (const std::uint32_t pid : space.pids) {
        holder.pid = pid;
        Tell(wanted, holder);
      }
    }
  }
}

// Reports mounts of a volume in mountd's mount namespace that are not mountd's
// own. Every process there has these mounts, but the answer lists only the
// cgroup's processes: a plugin on the host serves the volume from mounts of its
// own there, which look the same as a copy that root made.
void CopySearch::TellOwnMounts() {
  for (const MountFacts& mount : namespaces_->own().seen.mounts) {
    for (const Wanted& wanted : wanted_) {
      if (!wanted.is_volume || !wanted.Matches(mount) || IsPlans(mount) ||
          paths::IsAtOrBelow(mount.point, paths::kBase)) {
        continue;
      }
      for (const std::uint32_t pid : namespaces_->own().pids) {
        if (!members_.pids.contains(pid)) {
          continue;
        }
        Holder holder;
        holder.pid = pid;
        holder.kind = HolderKind::kMount;
        holder.is_copy = 1;
        Tell(wanted, holder);
      }
    }
  }
}

// Reports open files of trees that are attached nowhere. Skips a file of a
// mount that some namespace shows: that mount is a copy and was reported, or
// goes with mountd's, or is mountd's own, for which the kernel answers EBUSY.
void CopySearch::TellFiles() {
  for (const Opened& opened : opened_) {
    const auto shows = [&](const MountNamespace& space) {
      return space.seen.ids.contains(opened.mount_id);
    };
    const bool is_shown =
        opened.mount_id != 0 &&
        (shows(namespaces_->own()) ||
         std::any_of(namespaces_->others().begin(), namespaces_->others().end(),
                     [&](const auto& one) { return shows(one.second); }));
    if (!is_shown) {
      Tell(*opened.wanted, opened.holder);
    }
  }
}

}  // namespace mountd::propagation
