// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <vector>

#include "propagation/context.h"

// Processes of others, as /proc shows them. Nothing of theirs is opened but
// files of /proc itself.
namespace mountd::propagation {

inline constexpr std::uint32_t kInit = 1;

struct Process {
  std::uint32_t pid = 0;  // as seen here
  UniqueFd dir;           // O_PATH of /proc/<pid>: ESRCH once it has ended
};

// NotFound if there is none (any more).
Result<Process> OpenProcess(const Context& context, std::uint32_t pid);

// Whether it has ended. What was asked of it just then may have been refused
// for that alone.
bool HasGone(const Context& context, std::uint32_t pid);

// The process `pidfd` is of. InvalidArgument if it is none, or a thread's;
// FailedPrecondition if the process has ended, or is in no pid namespace seen
// from here.
Result<Process> OpenProcess(const Context& context, int pidfd);

// FailedPrecondition if the process has ended.
Result<void> CheckAlive(const Context& context, int pidfd);

// Several. `all_seen` is false if there were more than are looked at.
struct Members {
  std::set<std::uint32_t> pids;
  bool all_seen = true;
};

// All that are seen from here, but the executor itself.
Result<Members> AllProcesses(const Context& context);

// Fills in whose it is and what it runs, as far as that can be told.
void Describe(const Context& context, const Process& process,
              exec::Holder* holder);

// The mounts in its mount namespace that lie below its root directory.
Result<std::vector<MountFacts>> MountsOf(const Context& context,
                                         const Process& process);

// The inode of the namespace that a link of /proc leads to, as "ns/mnt" in a
// process's directory.
Result<std::uint64_t> NamespaceAt(const Context& context, int dir,
                                  const std::string& link);

// What stands behind `label` at the beginning of a line: "Uid:\t" in a
// /proc/<pid>/status. Empty if no line begins so.
std::string_view LineAfter(std::string_view text, std::string_view label);

}  // namespace mountd::propagation
