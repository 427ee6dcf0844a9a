// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/plan/task_executor.h"

// Processes that use a mount, as text.
namespace mountd {

struct HolderInfo {
  std::uint32_t pid = 0;
  // Details that only some callers may see.
  struct Details {
    std::uint32_t uid = 0;
    std::string command;
    std::string how;  // "cwd", "root", "exe", "fd 5", "mmap", "cgroup", ...
    bool in_cgroup = false;
    bool copy = false;
  };
  std::optional<Details> details;
};

struct HolderReport {
  std::vector<HolderInfo> holders;
  bool more = false;
  bool complete = true;
};

// Returns the holders with all details. Bytes of a command that are not
// printable ASCII become "?". If the plan had several handed-out mounts,
// `mount` is the index of the one to report.
HolderReport ReportOf(const exec::HoldersState& state, std::uint32_t mount = 0);

// Searches `cgroup` for at most half a second, and returns the processes that
// were found to use the mount. Nothing without a cgroup or a mount, or if the
// search failed.
std::optional<HolderReport> HoldersIn(exec::TaskExecutor& executor,
                                      std::uint64_t cgroup,
                                      std::uint64_t mount_id);

// Returns "nginx (pid 12, fd 5), sh (pid 13, cwd) and more"; "" if there are
// none.
std::string Summary(const HolderReport& report);

}  // namespace mountd
