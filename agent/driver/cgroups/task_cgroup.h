// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Limits of a task; a member without a value stays as it is.
struct CgroupLimits {
  static constexpr std::uint64_t kNone =
      std::numeric_limits<std::uint64_t>::max();

  std::optional<std::uint64_t> memory_max;  // bytes; kNone for no limit
  // Bytes; 0 if memory_max has a value and this member has none, because a
  // limit of memory alone would move the task to swap.
  std::optional<std::uint64_t> memory_swap_max;
  std::optional<std::uint64_t> memory_low;
  std::optional<bool> memory_oom_group;
  std::optional<std::uint32_t> cpu_weight;
  std::optional<std::uint64_t> cpu_quota_us;  // kNone for no limit
  std::uint64_t cpu_period_us = 100000;
  std::optional<std::uint64_t> pids_max;
  std::optional<std::string> cpuset_cpus;
};

// Values of a task's cgroup. A member has no value if its controller is not
// delegated.
struct CgroupStats {
  std::optional<std::uint64_t> memory_current;  // bytes
  std::optional<std::uint64_t> memory_peak;     // Linux 5.19
  std::optional<std::uint64_t> memory_anon;
  std::optional<std::uint64_t> memory_file;
  std::optional<std::uint64_t> memory_swap;
  std::optional<std::uint64_t> cpu_usage_us;
  std::optional<std::uint64_t> cpu_user_us;
  std::optional<std::uint64_t> cpu_system_us;
  std::optional<std::uint64_t> cpu_throttled_us;
  std::optional<std::uint64_t> cpu_throttled_periods;
  std::optional<std::uint64_t> pids_current;
};

// Owns the directory of a task's cgroup. The cgroup outlives the object.
class TaskCgroup {
 public:
  explicit TaskCgroup(UniqueFd directory) : directory_(std::move(directory)) {}

  int fd() const { return directory_.get(); }

  // Writes the limits; works while the task runs, too. Returns the files that
  // are left out because their controller is not delegated. The first error
  // names the file whose value the kernel refuses.
  Result<std::vector<std::string>> SetLimits(const CgroupLimits& limits) const;

  Result<CgroupStats> Stats() const;
  // Returns how many processes the kernel killed because memory was short. The
  // number stays readable after the last process ended, until somebody removes
  // the cgroup. NotFound without the memory controller.
  Result<std::uint64_t> OomKills() const;
  // Says whether a process is in the cgroup or beneath it.
  Result<bool> IsPopulated() const;
  // Kills all processes of the cgroup and of the cgroups beneath it. Needs
  // cgroup.kill (Linux 5.14).
  Result<void> Kill() const;

 private:
  UniqueFd directory_;
};

}  // namespace mountd::driver
