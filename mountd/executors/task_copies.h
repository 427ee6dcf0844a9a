// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "mountd/executors/holder_report.h"
#include "mountd/plan/task_executor.h"

// Tasks' own copies of a mount or volume (propagation/look/copies.h), which
// detaching does not remove from the tasks.
namespace mountd {

// The behaviour of a tear-down while tasks have copies.
enum class OnTasks {
  kRefuse,  // Busy, before anything is removed
  kWait,    // waits until a deadline for tasks to have none, then as kRefuse
  kIgnore,  // goes on; a volume is detached once tasks have none
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

// Returns how long a search may take, given the time of a plan.
std::uint32_t SearchBudgetMs(std::chrono::milliseconds plan);

}  // namespace mountd
