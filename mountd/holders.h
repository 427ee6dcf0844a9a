// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "mountd/exec/executor.h"

// Who uses a mount, in words.
namespace mountd {

struct HolderInfo {
  std::uint32_t pid = 0;
  // What only some may know of it.
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

// All details. A command's bytes that are no printable ASCII are "?". `mount`
// is the place of one that was handed out in its plan.
HolderReport ReportOf(const exec::HoldersState& state, std::uint32_t mount = 0);

// Who of the processes in `cgroup` uses the mount, as far as half a second
// tells. Nothing without a cgroup or a mount, or if it could not be told.
std::optional<HolderReport> HoldersIn(exec::Executor& executor,
                                      std::uint64_t cgroup,
                                      std::uint64_t mount_id);

// "nginx (pid 12, fd 5), sh (pid 13, cwd) and more"; "" if there are none.
std::string Summary(const HolderReport& report);

}  // namespace mountd
