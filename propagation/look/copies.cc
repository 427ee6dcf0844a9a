// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/copies.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "propagation/ground/cgroup.h"
#include "propagation/look/copies_search.h"

namespace mountd::propagation {
namespace {

using exec::HolderKind;
using exec::HolderScope;
using exec::Named;

}  // namespace

Result<std::set<std::uint32_t>> CopySearch::ProcessesInScope() {
  if (plan_.cgroup != 0) {
    const Result<Cgroup> cgroup = OpenCgroup(context_, plan_.cgroup);
    if (cgroup) {
      MOUNTD_ASSIGN(members_, MembersOf(context_, *cgroup));
    } else if (cgroup.error().code != Code::kNotFound) {
      return cgroup.error();
    }
  }
  Members looked_at = members_;
  if (plan_.scope == HolderScope::kNode) {
    MOUNTD_ASSIGN(looked_at, AllProcesses(context_));
  }
  if (!members_.all_seen || !looked_at.all_seen) {
    Miss(0);
  }
  looked_at.pids.erase(static_cast<std::uint32_t>(::getpid()));
  return std::move(looked_at.pids);
}

void CopySearch::Miss(int error) {
  exec::HoldersState& holders = state_.holders;
  if (holders.incomplete == 0) {
    holders.unseen_error = static_cast<std::uint32_t>(error);
    // ETIME stands for the deadline, at which no single process is to blame.
    holders.unseen_pid = error == ETIME ? 0 : looked_at_;
  }
  holders.incomplete = 1;
}

bool CopySearch::IsOver() {
  if (CopySearch::Clock::now() < deadline_) {
    return false;
  }
  Miss(ETIME);
  return true;
}

// Looks at the processes, and again at those that came meanwhile, because a
// process that ended may have passed its files to a child that the first list
// does not have.
Result<void> CopySearch::LookAtAll(std::set<std::uint32_t> pids) {
  std::set<std::uint32_t> seen;
  for (int round = 0; !pids.empty(); ++round) {
    if (round == kMostListings) {
      Miss(EAGAIN);
      break;
    }
    for (const std::uint32_t pid : pids) {
      if (IsOver()) {
        return Ok();
      }
      LookAt(pid);
      seen.insert(pid);
    }
    MOUNTD_ASSIGN(pids, ProcessesInScope());
    std::erase_if(pids, [&](std::uint32_t pid) { return seen.contains(pid); });
  }
  return Ok();
}

// Reads mount namespaces without a process. A file or a descriptor keeps such a
// namespace, and a process that enters it later uses its mounts. Skipped if the
// plan asks for one cgroup, because such a namespace belongs to no cgroup.
void CopySearch::LookAtOthers() {
  if (plan_.scope == HolderScope::kNode && !IsOver()) {
    Got(namespaces_->ReadOthers([this] { return IsOver(); }));
  }
}

Result<exec::CopiesState> CopySearch::Run() {
  // Look at the volume first: the answer describes it (`found`) in any case.
  if (plan_.has_volume != 0) {
    MOUNTD_TRY(WantVolume());
  }
  MOUNTD_ASSIGN(std::set<std::uint32_t> pids, ProcessesInScope());
  if (pids.empty()) {
    return state_;
  }
  MOUNTD_TRY(WantMounts());
  if (wanted_.empty()) {
    return state_;
  }
  namespaces_.emplace(context_, devices_);
  MOUNTD_TRY(Named(namespaces_->ReadOwn(), "read mountinfo", "self"));
  FindShared();
  MOUNTD_TRY(LookAtAll(std::move(pids)));
  LookAtOthers();
  IndexOwn();
  for (const auto& [key, space] : namespaces_->others()) {
    TellMounts(space);
  }
  TellOwnMounts();
  TellFiles();
  return state_;
}

namespace {

// Returns whether the only holder is a namespace without a process.
bool IsLoneNamespace(const exec::HoldersState& found) {
  return found.count == 1 && found.more == 0 &&
         found.holders[0].kind == HolderKind::kNamespace;
}

}  // namespace

// Searches again while the only copy is in a namespace without a process. Such
// a namespace may exist only because somebody looks at it (another executor's
// search, lsns(8)), because a look holds a descriptor of each namespace for a
// moment. Each search is a whole one, because a task can move its copy from
// one namespace to the next.
Result<exec::CopiesState> FindCopies(const Context& context,
                                     const exec::CopiesPlan& plan) {
  constexpr std::chrono::milliseconds kLongestLook(500);
  const CopySearch::Clock::time_point deadline =
      CopySearch::Clock::now() + std::chrono::milliseconds(plan.budget_ms);
  MOUNTD_ASSIGN(exec::CopiesState found,
                CopySearch(context, plan, deadline).Run());
  const CopySearch::Clock::time_point until =
      std::min(deadline, CopySearch::Clock::now() + kLongestLook);
  for (std::chrono::milliseconds pause(4);
       IsLoneNamespace(found.holders) &&
       CopySearch::Clock::now() + pause < until;
       pause *= 2) {
    std::this_thread::sleep_for(pause);
    MOUNTD_ASSIGN(exec::CopiesState again,
                  CopySearch(context, plan, deadline).Run());
    if (again.holders.incomplete != 0) {
      break;  // the search before it has seen more
    }
    found = again;
  }
  return found;
}

}  // namespace mountd::propagation
