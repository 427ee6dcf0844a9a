// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "mountd/exec/executor.h"
#include "mountd/holders.h"

// What tasks still have of a mount or a volume that is to go, and that its
// detaching does not take from them: their own copies (propagation/copies.h).
namespace mountd {

// What a tear-down does about tasks that have such copies.
enum class OnTasks {
  kRefuse,  // Busy, before anything has gone
  kWait,    // waits until they have none, up to a deadline; then the same
  kIgnore,  // goes on; a volume is not detached until they have none
};

// "", "wait", "ignore".
Result<OnTasks> ParseOnTasks(std::string_view name);

// The executor's answer. Where the cgroup is not to be looked into any more, as
// no rule grants it, all of the node is. A search that is refused otherwise is
// Unavailable.
Result<exec::CopiesState> FindCopies(exec::Executor& executor,
                                     exec::CopiesPlan plan);

// Busy, with who has copies; also if not all could be looked at. Ok if nobody
// has any.
Result<void> CheckNoCopies(const exec::HoldersState& found,
                           const std::string& op, const std::string& object);

// How long a search may take, of the time that a plan has.
std::uint32_t SearchBudgetMs(std::chrono::milliseconds plan);

}  // namespace mountd
