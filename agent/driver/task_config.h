// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The request of a task: what a driver needs to know to start it.
namespace mountd::driver {

// A variable of a task's environment.
struct EnvironmentEntry {
  bool operator==(const EnvironmentEntry&) const = default;

  std::string name;
  std::string value;
};

// The directories of a task on the host. A member is "" if the task does not
// have that directory.
struct TaskDirectories {
  bool operator==(const TaskDirectories&) const = default;

  std::string alloc;    // shared by the allocation's tasks; /alloc in the task
  std::string local;    // the task's own; /local
  std::string secrets;  // a tmpfs of mountd's; /secrets
  std::string logs;     // the rotated logs; no task sees this directory
};

// Limits of a task. 0, or "", is no limit. A driver leaves out a limit whose
// cgroup controller is not delegated to it, and its fingerprint says so.
// Source: cgroup-v2.rst of the kernel.
struct TaskResources {
  bool operator==(const TaskResources&) const = default;

  std::uint64_t memory_max = 0;    // bytes of memory and swap together
  std::uint64_t memory_low = 0;    // bytes that the kernel reclaims last
  std::uint32_t cpu_weight = 0;    // 1 to 10000
  std::uint64_t cpu_quota_us = 0;  // of each period
  std::uint64_t cpu_period_us = 100'000;
  std::uint32_t pids_max = 0;  // 0: a driver's default, such as podman's 2048
  std::string cpuset{};        // a list as of cpuset.cpus, such as "0-3,8"
  bool oom_kills_all = true;   // memory.oom.group
};

enum class MountPropagation { kPrivate, kHostToTask, kBidirectional };

// A mount of the task. Two mounts with equal members are one mount, so a driver
// never inserts one twice.
struct Mount {
  bool operator==(const Mount&) const = default;

  std::string task_path;
  std::string host_path;
  bool read_only = false;
  bool noexec = false;
  MountPropagation propagation = MountPropagation::kPrivate;
  std::string request_name{};  // the job's name of the volume; "": none
  // mountd has it for this task, in the task's allocation, and looks at it
  // before the task's program begins.
  bool is_mountds = false;
};

// Adds the mount. Replaces mounts at the same task_path, because the last
// request for a path counts. False if `mounts` has an equal mount.
bool InsertMount(const Mount& mount, std::vector<Mount>& mounts);

// A device node of the host's. A driver refuses a node whose access it cannot
// limit to the permissions.
struct Device {
  bool operator==(const Device&) const = default;

  std::string task_path;
  std::string host_path;
  std::string cgroup_permissions;  // of "r", "w" and "m"
};

struct DnsConfig {
  bool operator==(const DnsConfig&) const = default;

  std::vector<std::string> servers{};
  std::vector<std::string> searches{};
  std::vector<std::string> options{};
};

enum class NetworkMode { kHost, kGroup, kTask, kNone };

// The network that CreateNetwork made for the allocation of the task.
struct NetworkIsolation {
  bool operator==(const NetworkIsolation&) const = default;

  NetworkMode mode = NetworkMode::kHost;
  std::string namespace_path{};  // "" unless kGroup
  std::map<std::string, std::string> labels{};
};

// Where the two streams of a task go.
enum class LogMode {
  kFiles,    // rotated files in TaskDirectories::logs
  kFifos,    // FIFOs of the caller's, at stdout_path and stderr_path
  kJournal,  // the task writes to the journal itself; nothing is collected
  kOff,      // the driver opens nothing and collects nothing
};

struct LogConfig {
  bool operator==(const LogConfig&) const = default;

  LogMode mode = LogMode::kFiles;
  std::string stdout_path{};
  std::string stderr_path{};
  std::uint64_t max_file_bytes = std::uint64_t{10} << 20U;
  std::uint32_t max_files = 10;
};

struct TaskConfig {
  bool operator==(const TaskConfig&) const = default;

  // Unique on the node, new for each start: "<allocation>/<task>/<8 hex>".
  std::string id;
  std::string allocation;
  std::string name;  // of the task in its allocation
  std::string job{};

  // "dir:/PATH", "oci:/PATH[:TAG]", "oci-archive:/PATH[:TAG]" or
  // "docker-archive:/PATH[:REFERENCE]".
  std::string image;
  std::string entrypoint{};            // "": the image's
  std::vector<std::string> command{};  // empty: the image's
  std::string working_directory{};     // "": the image's
  // "NAME", "UID", "NAME:GROUP" or "UID:GID" of the image; "": the image's.
  std::string user{};
  std::string hostname{};
  // Added to the image's environment. Set it by SetEnvironment.
  std::vector<EnvironmentEntry> environment{};

  TaskDirectories directories{};
  TaskResources resources{};
  std::vector<Mount> mounts{};
  std::vector<Device> devices{};
  NetworkIsolation network{};
  std::optional<DnsConfig> dns{};
  LogConfig logs{};
  bool read_only_root = false;
};

// Sets a variable and keeps the environment sorted by name, so that equal
// environments are equal lists.
void SetEnvironment(std::string_view name, std::string_view value,
                    std::vector<EnvironmentEntry>& environment);

}  // namespace mountd::driver
