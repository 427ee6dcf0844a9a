// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "mountd/executors/holder_report.h"
#include "mountd/plan/task_executor.h"

// The copies of a mount or volume that tasks have (propagation/look/copies.h).
// A detach does not remove such a copy from its task.
namespace mountd {

// The behaviour of a tear-down while tasks have copies.
enum class OnTasks {
  kRefuse,  // Busy, before anything is removed
  kWait,    // waits until tasks have none; at the deadline as kRefuse
  kIgnore,  // continues; a volume is detached once tasks have no copy
};

// Parses "", "wait" or "ignore".
Result<OnTasks> ParseOnTasks(std::string_view name);

// Returns the executor's answer. If no rule grants the cgroup any more,
// searches the whole node. Unavailable if a search is refused for another
// reason.
Result<exec::CopiesState> FindCopies(exec::TaskExecutor& executor,
                                     exec::CopiesPlan plan);

// Ok if nobody has copies. Busy, with the processes that have them, otherwise,
// and if not all processes could be looked at (`is_unsure`).
Result<void> CheckNoCopies(const exec::HoldersState& found,
                           const std::string& op, const std::string& object);

// Returns how long a search may take. `plan` is the time that a plan has.
std::uint32_t SearchBudgetMs(std::chrono::milliseconds plan);

}  // namespace mountd
