// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/holders.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>

#include "mountd/base/number.h"
#include "propagation/cgroup.h"

namespace mountd::propagation {
namespace {

using Clock = std::chrono::steady_clock;
using exec::FileFacts;
using exec::Holder;
using exec::HolderKind;
using exec::HolderScope;
using exec::Named;
using exec::Sys;

constexpr std::size_t kMaxLinks = 1U << 16U;  // of one process and kind

// What is looked for, and what was learnt on the way.
class Search {
 public:
  Search(const Context& context, const exec::HoldersPlan& plan)
      : context_(context),
        mount_id_(plan.mount_id),
        deadline_(Clock::now() + std::chrono::milliseconds(plan.budget_ms)) {
    // One that is detached and still held is known to nobody but its holders.
    const Result<MountFacts> mount = context.inspector.Facts(plan.mount_id);
    if (mount) {
      mount_ = *mount;
    }
  }

  bool incomplete() const { return incomplete_; }
  bool init_unseen() const { return init_unseen_; }
  void SetIncomplete() { incomplete_ = true; }
  // Time is over: what is left is not looked at.
  bool IsOver() {
    if (Clock::now() < deadline_) {
      return false;
    }
    incomplete_ = true;
    return true;
  }

  // The first that is found of what the process holds.
  std::optional<Holder> LookAt(std::uint32_t pid) {
    const bool before = incomplete_;
    std::optional<Holder> holder = LookAtOne(pid);
    if (incomplete_ && !before && (pid == kInit || HasGone(context_, pid))) {
      incomplete_ = false;  // a deadline that has passed is noticed again
      init_unseen_ = init_unseen_ || pid == kInit;
    }
    return holder;
  }

 private:
  std::optional<Holder> LookAtOne(std::uint32_t pid);
  // The process is gone, or is none of ours to see.
  template <typename T>
  bool Got(const Sys<T>& outcome) {
    if (!outcome && outcome.error() != ENOENT && outcome.error() != ESRCH) {
      incomplete_ = true;
    }
    return outcome.has_value();
  }

  void LearnNamespace(const Process& process);
  bool Holds(int dir, const std::string& link, Holder* holder);
  bool HoldsAnyOf(const Process& process, const char* dir, HolderKind kind,
                  Holder* holder);

  const Context& context_;
  const std::uint64_t mount_id_;
  const Clock::time_point deadline_;
  std::optional<MountFacts> mount_;
  bool incomplete_ = false;
  bool init_unseen_ = false;
  // Mount namespaces by inode: the copies of the mount there, by their
  // reusable ids.
  std::map<std::uint64_t, std::set<std::uint64_t>> copies_;
  const std::set<std::uint64_t>* here_ = nullptr;  // the process's
};

// Copies in the executor's own namespace are mounts like any other.
void Search::LearnNamespace(const Process& process) {
  static const std::set<std::uint64_t> kNone;
  here_ = &kNone;
  const Sys<FileFacts> theirs =
      context_.kernel.StatLinked(process.dir.get(), "ns/mnt");
  const Sys<FileFacts> ours =
      context_.kernel.StatLinked(exec::kFromRoot, "/proc/self/ns/mnt");
  if (!mount_ || !Got(theirs) || !Got(ours) || theirs->inode == ours->inode) {
    return;
  }
  const auto [place, is_new] =
      copies_.try_emplace(theirs->inode, std::set<std::uint64_t>());
  here_ = &place->second;
  if (!is_new) {
    return;
  }
  if (const auto mounts = MountsOf(context_, process)) {
    for (const MountFacts& mount : *mounts) {
      if (mount.device == mount_->device && mount.root == mount_->root) {
        place->second.insert(mount.id);
      }
    }
  } else {
    // A process that is ending has none; another one there may tell.
    copies_.erase(place);
    here_ = &kNone;
  }
}

bool Search::Holds(int dir, const std::string& link, Holder* holder) {
  const Sys<FileFacts> file = context_.kernel.StatLinked(dir, link);
  if (!Got(file)) {
    return false;
  }
  if (file->mount_id == mount_id_) {
    return true;
  }
  if (here_->empty()) {
    return false;
  }
  const Sys<std::uint64_t> id = context_.kernel.LinkedMountId(dir, link);
  holder->is_copy = Got(id) && here_->contains(*id) ? 1 : 0;
  return holder->is_copy != 0;
}

bool Search::HoldsAnyOf(const Process& process, const char* dir,
                        HolderKind kind, Holder* holder) {
  const Sys<UniqueFd> links =
      context_.kernel.Open(process.dir.get(), dir, O_PATH | O_DIRECTORY,
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  if (!Got(links)) {
    return false;
  }
  const Sys<std::vector<std::string>> names =
      context_.kernel.List(links->get(), kMaxLinks);
  if (!Got(names)) {
    return false;
  }
  incomplete_ = incomplete_ || names->size() == kMaxLinks;
  for (const std::string& name : *names) {
    if (IsOver()) {
      return false;
    }
    if (Holds(links->get(), name, holder)) {
      holder->kind = kind;
      if (kind == HolderKind::kFd) {
        holder->fd = ParseNumber<int>(name).value_or(-1);
      }
      return true;
    }
  }
  return false;
}

std::optional<Holder> Search::LookAtOne(std::uint32_t pid) {
  const Result<Process> process = OpenProcess(context_, pid);
  if (!process) {
    incomplete_ = incomplete_ || process.error().sys_errno != ENOENT;
    return std::nullopt;
  }
  LearnNamespace(*process);
  Holder holder;
  holder.pid = pid;
  bool found = false;
  for (const auto& [link, kind] : {std::pair("cwd", HolderKind::kCwd),
                                   std::pair("root", HolderKind::kRoot),
                                   std::pair("exe", HolderKind::kExe)}) {
    if (!found && Holds(process->dir.get(), link, &holder)) {
      holder.kind = kind;
      found = true;
    }
  }
  found = found || HoldsAnyOf(*process, "fd", HolderKind::kFd, &holder) ||
          HoldsAnyOf(*process, "map_files", HolderKind::kMap, &holder);
  if (!found) {
    return std::nullopt;
  }
  Describe(context_, *process, &holder);
  return holder;
}

}  // namespace

Result<exec::HoldersState> FindHolders(const Context& context,
                                       const exec::HoldersPlan& plan) {
  Search search(context, plan);
  Members members;
  if (plan.cgroup != 0) {
    MOUNTD_ASSIGN(const Cgroup cgroup, OpenCgroup(context, plan.cgroup));
    MOUNTD_ASSIGN(members, MembersOf(context, cgroup));
  }
  std::set<std::uint32_t> pids = members.pids;
  if (plan.scope == HolderScope::kNode) {
    MOUNTD_ASSIGN(Members all, AllProcesses(context));
    pids = std::move(all.pids);
    members.all_seen = all.all_seen;
  }
  if (!members.all_seen) {
    search.SetIncomplete();
  }
  pids.erase(static_cast<std::uint32_t>(::getpid()));
  exec::HoldersState state;
  for (const std::uint32_t pid : pids) {
    if (search.IsOver()) {
      break;
    }
    std::optional<Holder> holder = search.LookAt(pid);
    if (!holder) {
      continue;
    }
    if (state.count == exec::kMaxHolders) {
      state.more = 1;
      break;
    }
    holder->in_cgroup = members.pids.contains(pid) ? 1 : 0;
    state.holders.at(state.count++) = *holder;
  }
  state.incomplete = search.incomplete() ? 1 : 0;
  state.init_unseen = search.init_unseen() ? 1 : 0;
  return state;
}

}  // namespace mountd::propagation
