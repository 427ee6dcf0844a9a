// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/task.h"

#include <algorithm>
#include <tuple>

#include "mountd/base/paths.h"
#include "propagation/ground/cgroup.h"

namespace mountd::propagation {
namespace {

using exec::FileFacts;
using exec::Named;

// Returns whether the mount is one of the host's. A task whose root file system
// is the host's sees the host's mounts, too, and its runtime did not make
// those.
bool IsHosts(const Context& context, const MountFacts& mount) {
  return paths::IsAtOrBelow(mount.point, paths::kBase) ||
         std::any_of(context.config.host_volumes.begin(),
                     context.config.host_volumes.end(),
                     [&](const auto& volume) {
                       return volume.second.path == mount.point;
                     });
}

bool IsCovered(const std::vector<MountFacts>& all, const MountFacts& mount) {
  return std::any_of(all.begin(), all.end(), [&](const MountFacts& other) {
    return other.parent_id == mount.id && other.point == mount.point;
  });
}

// Returns how much a mount of the task has in common with mountd's mount.
// Compare takes the mount with most in common for the copy.
auto Likeness(const Context& context, const std::vector<MountFacts>& all,
              const MountFacts& ours, const MountFacts& theirs) {
  const bool same =
      theirs.peer_group == ours.peer_group && theirs.master == ours.master;
  const bool peers =
      ours.peer_group != 0 && ours.peer_group == theirs.peer_group;
  const bool follows = theirs.master != 0 && (theirs.master == ours.master ||
                                              theirs.master == ours.peer_group);
  const bool attributes =
      (theirs.attributes & ours.attributes) == ours.attributes;
  return std::tuple(!IsHosts(context, theirs), !IsCovered(all, theirs),
                    attributes, same, peers, follows);
}

exec::TaskMount Compare(const Context& context,
                        const std::vector<MountFacts>& all,
                        const MountFacts& ours) {
  const MountFacts* best = nullptr;
  for (const MountFacts& theirs : all) {
    // A copy shows the same directory of the same file system.
    if (theirs.device != ours.device || theirs.root != ours.root) {
      continue;
    }
    if (best == nullptr || Likeness(context, all, ours, theirs) >
                               Likeness(context, all, ours, *best)) {
      best = &theirs;
    }
  }
  exec::TaskMount seen;
  seen.exists_on_host = 1;
  if (best != nullptr) {
    seen.found = 1;
    seen.covered = IsCovered(all, *best) ? 1 : 0;
    seen.attributes = best->attributes;
    seen.peer_group = best->peer_group;
    seen.master = best->master;
  }
  return seen;
}

}  // namespace

Result<exec::TaskState> VerifyTask(const Context& context,
                                   const exec::VerifyTaskPlan& plan,
                                   int pidfd) {
  MOUNTD_ASSIGN(const Process process, OpenProcess(context, pidfd));
  MOUNTD_TRY(CheckWithin(context, process, plan.cgroup));
  exec::TaskState state;
  MOUNTD_ASSIGN(state.mount_namespace,
                NamespaceAt(context, process.dir.get(), "ns/mnt"));
  MOUNTD_ASSIGN(const std::uint64_t users,
                NamespaceAt(context, process.dir.get(), "ns/user"));
  MOUNTD_ASSIGN(const std::uint64_t own_users,
                NamespaceAt(context, exec::kFromRoot, "/proc/self/ns/user"));
  state.has_own_user_namespace = users != own_users ? 1 : 0;
  MOUNTD_ASSIGN(const std::vector<MountFacts> all, MountsOf(context, process));
  for (; state.count < plan.count; ++state.count) {
    const Result<MountFacts> ours =
        context.inspector.Facts(plan.mount_ids.at(state.count));
    if (ours) {
      state.mounts.at(state.count) = Compare(context, all, *ours);
    } else if (ours.error().code != Code::kNotFound) {
      return ours.error();
    }
  }
  // If the process is still alive, its pid was not reused, so the mounts are
  // its own.
  MOUNTD_TRY(CheckAlive(context, pidfd));
  return state;
}

}  // namespace mountd::propagation
