// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/look/processes.h"

#include <chrono>
#include <optional>

#include "propagation/ground/cgroup.h"

namespace mountd::propagation {
namespace {

using Clock = std::chrono::steady_clock;
using exec::HolderKind;
using exec::Sys;

void Add(const Context& context, const Process& process, HolderKind kind,
         exec::HoldersState* state) {
  if (state->count == exec::kMaxHolders) {
    state->more = 1;
    return;
  }
  exec::Holder& holder = state->holders.at(state->count++);
  holder.pid = process.pid;
  holder.kind = kind;
  holder.in_cgroup = kind == HolderKind::kMember ? 1 : 0;
  Describe(context, process, &holder);
}

// Asks the cgroup whether it or a cgroup beneath it has any process, because a
// threaded cgroup lists no processes and listing a part of a hierarchy may
// fail.
void AskCgroup(const Context& context, const Cgroup& cgroup,
               exec::HoldersState* state) {
  const Result<CgroupEvents> events = ReadEvents(context, cgroup);
  if (!events) {
    state->incomplete = 1;
  } else if (events->populated) {
    state->more = 1;
  }
}

// Adds the process if it is in the network namespace. Returns whether the look
// succeeded; a process that has ended counts as success.
bool AddIfIn(const Context& context, std::uint64_t netns_inode,
             std::uint32_t pid, exec::HoldersState* state) {
  const Result<Process> process = OpenProcess(context, pid);
  if (!process) {
    return process.error().sys_errno == ENOENT;
  }
  const Sys<exec::FileFacts> netns =
      context.kernel.StatLinked(process->dir.get(), "ns/net");
  if (!netns) {  // ENOENT if the process has ended and is not waited for yet
    return netns.error() == ENOENT || netns.error() == ESRCH ||
           HasGone(context, pid);
  }
  if (netns->inode == netns_inode) {
    Add(context, *process, HolderKind::kNetwork, state);
  }
  return true;
}

// A cgroup without processes needs no rule, because the rule of a user who is
// gone may be gone, too.
Result<Members> AddMembers(const Context& context, std::uint64_t id,
                           exec::HoldersState* state) {
  MOUNTD_ASSIGN(const std::optional<Cgroup> cgroup,
                OpenUnlessEmpty(context, id));
  if (!cgroup) {
    return Members();
  }
  MOUNTD_ASSIGN(Members members, MembersOf(context, *cgroup));
  state->incomplete = members.all_seen ? 0 : 1;
  for (const std::uint32_t pid : members.pids) {
    if (const Result<Process> process = OpenProcess(context, pid)) {
      Add(context, *process, HolderKind::kMember, state);
    } else if (process.error().sys_errno != ENOENT) {
      state->incomplete = 1;
    }
  }
  if (state->count == 0) {
    AskCgroup(context, *cgroup, state);
  }
  return members;
}

}  // namespace

Result<exec::HoldersState> FindProcesses(const Context& context,
                                         const exec::ProcessesPlan& plan) {
  const Clock::time_point deadline =
      Clock::now() + std::chrono::milliseconds(plan.budget_ms);
  exec::HoldersState state;
  Members members;
  if (plan.cgroup != 0) {
    MOUNTD_ASSIGN(members, AddMembers(context, plan.cgroup, &state));
  }
  if (plan.netns_inode == 0) {
    return state;
  }
  MOUNTD_ASSIGN(const Members all, AllProcesses(context));
  state.incomplete |= all.all_seen ? 0U : 1U;
  for (const std::uint32_t pid : all.pids) {
    if (Clock::now() >= deadline) {
      state.incomplete = 1;
      break;
    }
    if (members.pids.contains(pid)) {
      continue;
    }
    if (!AddIfIn(context, plan.netns_inode, pid, &state)) {
      (pid == kInit ? state.init_unseen : state.incomplete) = 1;
    }
  }
  return state;
}

}  // namespace mountd::propagation
