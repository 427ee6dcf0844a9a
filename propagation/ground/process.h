// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <vector>

#include "mountd/plan/holder_plans.h"
#include "propagation/ground/context.h"

// Processes of others, as /proc shows them. Opens only files of /proc itself.
namespace mountd::propagation {

inline constexpr std::uint32_t kInit = 1;

struct Process {
  std::uint32_t pid = 0;  // as seen here
  UniqueFd dir;           // O_PATH of /proc/<pid>: ESRCH once it has ended
};

// Opens the process's directory. NotFound if the process does not exist (any
// more).
Result<Process> OpenProcess(const Context& context, std::uint32_t pid);

// Returns whether the process has ended. A look at an ending process may fail
// for that reason alone.
bool HasGone(const Context& context, std::uint32_t pid);

// Opens the directory of the process that `pidfd` refers to. InvalidArgument if
// `pidfd` is no pidfd or refers to a thread. FailedPrecondition if the process
// has ended, or is in no pid namespace seen from here.
Result<Process> OpenProcess(const Context& context, int pidfd);

// FailedPrecondition if the process has ended.
Result<void> CheckAlive(const Context& context, int pidfd);

// A set of processes. `all_seen` is false if there were more than the limit.
struct Members {
  std::set<std::uint32_t> pids;
  bool all_seen = true;
};

// Returns all processes seen from here except the executor.
Result<Members> AllProcesses(const Context& context);

// Fills in the process's user and program, as far as the executor can read
// them.
void Describe(const Context& context, const Process& process,
              exec::Holder* holder);

// Returns the mounts of its mount namespace that lie below its root directory.
Result<std::vector<MountFacts>> MountsOf(const Context& context,
                                         const Process& process);

// Returns the inode of the namespace that a link of /proc leads to, such as
// "ns/mnt" in a process's directory.
Result<std::uint64_t> NamespaceAt(const Context& context, int dir,
                                  const std::string& link);

// Returns the text after `label` in the line that begins with it, such as
// "Uid:\t" in /proc/<pid>/status. Empty if no line begins with `label`.
std::string_view LineAfter(std::string_view text, std::string_view label);

}  // namespace mountd::propagation
