// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <array>
#include <string>
#include <vector>

#include "agent/driver/shim/setup.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::shim {

// Where a program of the runtime runs.
enum class Place {
  kShim,  // as the shim itself
  // In the container's cgroup unless the runtime joins it by itself, and in the
  // task's user and network namespaces, because config.json does not name these
  // two to the runtime.
  kNamespaces,
  kContainer,  // also with the root file system
};

// A program of the runtime (crun, runc) that runs.
struct RuntimeRun {
  pid_t pid = -1;
  UniqueFd log{};  // a memory file
};

// Starts the runtime with its global options and then `arguments`. The program
// has the fds 0 to 2 of `stdio`, and inherits `inherited`.
Result<RuntimeRun> StartRuntime(const Setup& setup, Place place,
                                const std::vector<std::string>& arguments,
                                const std::array<int, 3>& stdio,
                                int inherited = -1);

// Returns the error of a run that has ended with that status of waitpid(2).
// Aborted after a signal, because the caller may try again; else the runtime's
// own words.
Error RunError(const RuntimeRun& run, int status, const std::string& verb);

}  // namespace mountd::shim
