// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Finds the processes of a task whose shim was killed, if the task has no
// cgroup of its own. Such a process has the task's overlay as its root:
// "upperdir=" in the overlay's options names the task's upper directory. A
// process without CAP_SYS_ADMIN cannot leave its root, and no other task has
// that directory. Another user can mount an overlay with the same text, because
// the path may lead elsewhere in that user's mount namespace. So a process
// counts only if the driver may send the process signals (kill(2)). A user may
// always send them to the processes of the user's own user namespaces.
namespace mountd::driver {

struct TaskProcess {
  pid_t pid = -1;
  UniqueFd pidfd;
};

// Returns the processes whose mounts have this upper directory. Each pidfd is
// of the process that was looked at, not of another one with its pid. An empty
// list means that there is none. A list with an element may lack others where
// this process has no fd left.
Result<std::vector<TaskProcess>> ProcessesWithUpper(const std::string& upper);

// Returns the upper directories of the overlays that this user's processes but
// the shims have.
Result<std::set<std::string>> UppersOfProcesses();

// Kills the shims whose working directory is the task's, and waits for their
// end for a while. A shim that waits for a disk ends later, and does nothing
// more.
Result<void> KillShimsIn(int task_directory);

// Kills these processes until there are none. DeadlineExceeded if one does not
// end.
Result<void> KillProcessesWithUpper(const std::string& upper,
                                    std::chrono::milliseconds patience);

}  // namespace mountd::driver
