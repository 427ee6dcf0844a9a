// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/holders.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <vector>

#include "mountd/base/number.h"
#include "propagation/ground/cgroup.h"
#include "propagation/look/memory_maps.h"

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

// Holds the mounts that the search looks for, and the facts it has learned.
class Search {
 public:
  Search(const Context& context, const exec::HoldersPlan& plan)
      : context_(context),
        deadline_(Clock::now() + std::chrono::milliseconds(plan.budget_ms)) {
    if (plan.count != 0) {
      WantHandedOut(std::span(plan.handed_out).first(plan.count));
      return;
    }
    wanted_.emplace(plan.mount_id, 0);
    // The kernel lists no facts on a detached mount that processes still hold.
    const Result<MountFacts> mount = context.inspector.Facts(plan.mount_id);
    if (mount) {
      mount_ = *mount;
    } else if (mount.error().code != Code::kNotFound) {
      incomplete_ = true;  // the mount's copies stay unknown
    }
  }

  // Returns a bit for each mount that some process holds.
  std::uint64_t held() const { return held_; }
  bool AreAllHeld() const {
    return std::all_of(wanted_.begin(), wanted_.end(), [&](const auto& one) {
      return (held_ & Bit(one.second)) != 0;
    });
  }
  bool incomplete() const { return incomplete_; }
  bool init_unseen() const { return init_unseen_; }
  void SetIncomplete() { incomplete_ = true; }
  // Returns whether the time is up; the search then skips the rest.
  bool IsOver() {
    if (Clock::now() < deadline_) {
      return false;
    }
    incomplete_ = true;
    return true;
  }

  // Returns one holder for each mount that the process holds: the first way of
  // holding that the search found.
  std::vector<Holder> LookAt(std::uint32_t pid, bool is_in_cgroup) {
    const bool before = incomplete_;
    std::vector<Holder> found = LookAtOne(pid, is_in_cgroup);
    for (const Holder& holder : found) {
      held_ |= Bit(holder.mount);
    }
    if (incomplete_ && !before && (pid == kInit || HasGone(context_, pid))) {
      incomplete_ = false;  // IsOver notices a passed deadline again
      init_unseen_ = init_unseen_ || pid == kInit;
    }
    return found;
  }

 private:
  // The facts on a mount namespace other than the executor's.
  struct Space {
    std::set<std::uint64_t> copies;        // by reusable mount ids
    std::set<std::uint32_t> handed_out{};  // places of mounts attached there
  };

  static std::uint64_t Bit(std::uint32_t place) {
    return std::uint64_t{1} << place;
  }
  void WantHandedOut(std::span<const exec::HandedOutMount> mounts);
  void Learn(const MountFacts& mount, Space* space) const;
  std::vector<Holder> LookAtOne(std::uint32_t pid, bool is_in_cgroup);
  // Returns whether the look succeeded. ENOENT and ESRCH mean that the process
  // has ended; any other error makes the search incomplete.
  template <typename T>
  bool Got(const Sys<T>& outcome) {
    if (!outcome && outcome.error() != ENOENT && outcome.error() != ESRCH) {
      incomplete_ = true;
    }
    return outcome.has_value();
  }

  void LearnNamespace(const Process& process);
  bool Holds(int dir, const std::string& link, Holder* holder);
  bool Holds(std::uint64_t mount_id,
             const std::function<Sys<std::uint64_t>()>& reusable_id,
             Holder* holder);
  void LookAtMaps(const Process& process, Holder holder,
                  std::vector<Holder>* found);
  void LookAtLinks(const Process& process, const char* dir, Holder holder,
                   std::vector<Holder>* found);
  bool HoldsAll(const std::vector<Holder>& found) const {
    return found.size() == wanted_.size();
  }

  const Context& context_;
  const Clock::time_point deadline_;
  std::map<std::uint64_t, std::uint32_t> wanted_;  // places in the plan, by id
  // Handed-out mounts' places in the plan, by reusable id and device.
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::uint32_t> handed_out_;
  std::optional<MountFacts> mount_;
  std::uint64_t held_ = 0;
  bool incomplete_ = false;
  bool init_unseen_ = false;
  std::map<std::uint64_t, Space> spaces_;  // by inode
  const Space* here_ = nullptr;            // the current process's
};

// Adds the handed-out mounts to the search. A mount that is attached in the
// executor's own namespace counts as held.
void Search::WantHandedOut(std::span<const exec::HandedOutMount> mounts) {
  for (std::uint32_t i = 0; i < mounts.size(); ++i) {
    const exec::HandedOutMount& mount = mounts[i];
    if (wanted_.emplace(mount.mount_id, i).second) {
      handed_out_.emplace(std::pair(mount.reusable_id, mount.device), i);
      const Result<MountFacts> here = context_.inspector.Facts(mount.mount_id);
      held_ |= here ? Bit(i) : 0;
      incomplete_ =
          incomplete_ || (!here && here.error().code != Code::kNotFound);
    }
  }
}

void Search::Learn(const MountFacts& mount, Space* space) const {
  if (mount_ && mount.device == mount_->device && mount.root == mount_->root) {
    space->copies.insert(mount.id);
  }
  const auto found = handed_out_.find({mount.id, mount.device});
  if (found != handed_out_.end()) {
    space->handed_out.insert(found->second);
  }
}

// Learns the process's mount namespace, unless it is the executor's, where a
// copy is a mount like any other.
void Search::LearnNamespace(const Process& process) {
  static const Space kNone;
  here_ = &kNone;
  const Sys<FileFacts> theirs =
      context_.kernel.StatLinked(process.dir.get(), "ns/mnt");
  const Sys<FileFacts> ours =
      context_.kernel.StatLinked(exec::kFromRoot, "/proc/self/ns/mnt");
  if ((!mount_ && handed_out_.empty()) || !Got(theirs) || !Got(ours) ||
      theirs->inode == ours->inode) {
    return;
  }
  const auto [place, is_new] = spaces_.try_emplace(theirs->inode, Space());
  here_ = &place->second;
  if (!is_new) {
    return;
  }
  if (const auto mounts = MountsOf(context_, process); mounts) {
    for (const MountFacts& mount : *mounts) {
      Learn(mount, &place->second);
    }
  } else {
    // A process that is ending has no mounts (EINVAL). Forget its namespace,
    // because another process there may still show it.
    const int error = mounts.error().sys_errno;
    incomplete_ =
        incomplete_ || (error != EINVAL && error != ENOENT && error != ESRCH);
    spaces_.erase(place);
    here_ = &kNone;
    incomplete_ = incomplete_ || !handed_out_.empty();
  }
}

bool Search::Holds(int dir, const std::string& link, Holder* holder) {
  const Sys<FileFacts> file = context_.kernel.StatLinked(dir, link);
  return Got(file) &&
         Holds(
             file->mount_id,
             [&] { return context_.kernel.LinkedMountId(dir, link); }, holder);
}

bool Search::Holds(std::uint64_t mount_id,
                   const std::function<Sys<std::uint64_t>()>& reusable_id,
                   Holder* holder) {
  const auto wanted = wanted_.find(mount_id);
  if (wanted != wanted_.end()) {
    holder->mount = wanted->second;
    return true;
  }
  if (here_->copies.empty()) {
    return false;
  }
  const Sys<std::uint64_t> id = reusable_id();
  holder->is_copy = Got(id) && here_->copies.contains(*id) ? 1 : 0;
  return holder->is_copy != 0;
}

void Add(const Holder& holder, std::vector<Holder>* found) {
  if (std::none_of(found->begin(), found->end(), [&](const Holder& one) {
        return one.mount == holder.mount;
      })) {
    found->push_back(holder);
  }
}

void Search::LookAtLinks(const Process& process, const char* dir, Holder holder,
                         std::vector<Holder>* found) {
  const Sys<UniqueFd> links =
      context_.kernel.Open(process.dir.get(), dir, O_PATH | O_DIRECTORY,
                           RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
  if (!Got(links)) {
    return;
  }
  const Sys<std::vector<std::string>> names =
      context_.kernel.List(links->get(), kMaxLinks);
  if (!Got(names)) {
    return;
  }
  incomplete_ = incomplete_ || names->size() == kMaxLinks;
  for (const std::string& name : *names) {
    if (HoldsAll(*found) || IsOver()) {
      return;
    }
    if (Holds(links->get(), name, &holder)) {
      if (holder.kind == HolderKind::kFd) {
        holder.fd = ParseNumber<int>(name).value_or(-1);
      }
      Add(holder, found);
    }
  }
}

void Search::LookAtMaps(const Process& process, Holder holder,
                        std::vector<Holder>* found) {
  const MappedFiles mapped =
      MappedFilesOf(context_, process, /*wanted=*/{}, LimitOfMaps(deadline_));
  incomplete_ = incomplete_ || mapped.error != 0;
  for (const MappedFile& file : mapped.files) {
    const auto reusable_id = [&file] {
      return Sys<std::uint64_t>(file.reusable_id);
    };
    if (Holds(file.mount_id, reusable_id, &holder)) {
      Add(holder, found);
    }
  }
}

std::vector<Holder> Search::LookAtOne(std::uint32_t pid, bool is_in_cgroup) {
  const Result<Process> process = OpenProcess(context_, pid);
  if (!process) {
    // ENOENT: the process has ended, so it holds nothing.
    incomplete_ = incomplete_ || process.error().sys_errno != ENOENT;
    return {};
  }
  LearnNamespace(*process);
  std::vector<Holder> found;
  Holder holder;
  holder.pid = pid;
  for (const auto& [link, kind] : {std::pair("cwd", HolderKind::kCwd),
                                   std::pair("root", HolderKind::kRoot),
                                   std::pair("exe", HolderKind::kExe)}) {
    holder.kind = kind;
    if (!HoldsAll(found) && Holds(process->dir.get(), link, &holder)) {
      Add(holder, &found);
    }
  }
  holder.kind = HolderKind::kFd;
  if (!HoldsAll(found)) {
    LookAtLinks(*process, "fd", holder, &found);
  }
  // Reads the memory maps of the cgroup's processes only, because each look
  // needs a child (MappedFilesOf).
  holder.kind = HolderKind::kMap;
  if (is_in_cgroup && !HoldsAll(found)) {
    LookAtMaps(*process, holder, &found);
  }
  holder.kind = HolderKind::kMount;
  for (const std::uint32_t place : here_->handed_out) {
    holder.mount = place;
    Add(holder, &found);
  }
  for (Holder& one : found) {
    Describe(context_, *process, &one);
  }
  return found;
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
    const bool is_in_cgroup = members.pids.contains(pid);
    for (Holder& holder : search.LookAt(pid, is_in_cgroup)) {
      if (state.count == exec::kMaxHolders) {
        state.more = 1;
        break;
      }
      holder.in_cgroup = is_in_cgroup ? 1 : 0;
      state.holders.at(state.count++) = holder;
    }
    // A full answer still has to say for each mount whether somebody holds it.
    if (state.more != 0 && search.AreAllHeld()) {
      break;
    }
  }
  state.held = search.held();
  state.incomplete = search.incomplete() ? 1 : 0;
  state.init_unseen = search.init_unseen() ? 1 : 0;
  return state;
}

}  // namespace mountd::propagation
