// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agent/driver/bundle/mounts.h"
#include "agent/driver/bundle/process.h"
#include "mountd/base/result.h"

// The OCI runtime configuration of a task's container (config.json). crun and
// runc take it alike.
namespace mountd::driver {

// Limits of cgroup v2. A member without a value is not in the file, because a
// runtime fails where the member's controller is not delegated.
struct ContainerResources {
  std::optional<std::uint64_t> memory_max;  // bytes
  // Bytes of swap beside memory_max; 0 without a value, so that a limit of
  // memory is a limit.
  std::optional<std::uint64_t> memory_swap_max;
  std::optional<std::uint64_t> memory_low;  // bytes
  std::optional<bool> memory_oom_group;
  std::optional<std::uint32_t> cpu_weight;     // 1 to 10000
  std::optional<std::uint64_t> cpu_quota_us;   // of each period
  std::optional<std::uint64_t> cpu_period_us;  // 1000 to 1000000
  std::optional<std::uint64_t> pids_max;
  std::string cpuset_cpus;  // "0-3,7"; "" for all
};

struct ContainerConfig {
  ContainerProcess process;
  // The path that the process that starts the runtime sees. The rootfs must be
  // a mount of its own. The runtime makes the mount private that contains the
  // rootfs, and a private mount receives no new mounts from the host.
  std::string rootfs;
  bool read_only_rootfs = false;
  std::string hostname;
  DefaultMounts default_mounts;
  std::vector<TaskMount> mounts;
  std::vector<TaskDevice> devices;
  Inbox inbox;
  // The cgroup beneath /sys/fs/cgroup. "" leaves the container in the
  // runtime's own cgroup, for `--cgroup-manager=disabled`.
  std::string cgroups_path;
  ContainerResources resources;
};

// Returns the text of config.json. The runtime already runs as uid 0 in the
// task's user and network namespaces, so the text names neither.
// InvalidArgument names the member that is wrong; NotSupported for a
// bidirectional mount. There is no way to leave out the seccomp filter, the
// masked paths, or noNewPrivileges.
Result<std::string> ConfigFile(const ContainerConfig& config);

}  // namespace mountd::driver
