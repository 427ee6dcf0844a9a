// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "agent/driver/task_config.h"

// The answers of a driver.
namespace mountd::driver {

// A point of time of CLOCK_REALTIME, for people to read. No decision uses it.
using Timestamp = std::chrono::system_clock::time_point;

struct ExitResult {
  bool operator==(const ExitResult&) const = default;

  int exit_code = 0;
  int signal = 0;  // of the signal that ended the task; 0: none
  bool oom_killed = false;
  std::string error{};  // not empty: the driver could not learn the status

  // True only of code 0 without a signal and without an error.
  bool IsSuccess() const;
};

enum class TaskState { kUnknown, kRunning, kExited };

// All that a driver needs to find a task again after any process has ended. The
// caller keeps the handle. `version` is the version of `driver_state`.
struct TaskHandle {
  bool operator==(const TaskHandle&) const = default;

  static constexpr int kVersion = 1;

  int version = kVersion;
  TaskConfig config;
  TaskState state = TaskState::kUnknown;
  std::string driver_state{};  // bytes that the driver alone understands
};

// A task's network, where it differs from the network that was asked for.
struct DriverNetwork {
  bool operator==(const DriverNetwork&) const = default;

  std::map<std::string, std::uint16_t> port_map{};  // label -> port in the task
  std::string address{};
  bool auto_advertise = false;

  // Depends on the members alone, not on the order in which ports were added.
  std::uint64_t Hash() const;
};

// Returns the network's auto_advertise; false if there is no network.
bool AutoAdvertises(const std::optional<DriverNetwork>& network);

struct StartedTask {
  TaskHandle handle;
  std::optional<DriverNetwork> network{};
};

struct TaskStatus {
  std::string id;
  std::string name;
  TaskState state = TaskState::kUnknown;
  Timestamp started_at{};
  std::optional<Timestamp> completed_at{};
  std::optional<ExitResult> result{};
  std::map<std::string, std::string> attributes{};
};

// The resources that a task uses. A member is absent if its cgroup controller
// is not delegated.
struct TaskStats {
  bool operator==(const TaskStats&) const = default;

  Timestamp at{};
  std::optional<std::uint64_t> memory_current{};  // bytes
  std::optional<std::uint64_t> memory_peak{};     // bytes; Linux 5.19
  std::optional<std::uint64_t> memory_anon{};     // bytes
  std::optional<std::uint64_t> memory_file{};     // bytes
  std::optional<std::uint64_t> memory_swap{};     // bytes
  std::optional<std::uint64_t> cpu_user_us{};
  std::optional<std::uint64_t> cpu_system_us{};
  std::optional<std::uint64_t> cpu_throttled_us{};
  std::optional<std::uint64_t> cpu_throttled_periods{};
  std::optional<std::uint64_t> pids{};
};

// Something that people want to know of a task, such as "image unpacked".
struct TaskEvent {
  bool operator==(const TaskEvent&) const = default;

  std::string task_id;
  std::string allocation;
  std::string task;
  Timestamp at{};
  std::string message;
  std::map<std::string, std::string> annotations{};
};

using Attribute = std::variant<bool, std::int64_t, double, std::string>;

enum class Health { kUndetected, kUnhealthy, kHealthy };

struct Fingerprint {
  bool operator==(const Fingerprint&) const = default;

  std::map<std::string, Attribute> attributes{};
  Health health = Health::kUndetected;
  std::string description{};
};

enum class FileSystemIsolation { kNone, kChroot, kImage };
enum class MountConfigs { kAny, kNone };

struct DriverCapabilities {
  bool operator==(const DriverCapabilities&) const = default;

  bool sends_signals = false;
  bool executes = false;
  FileSystemIsolation file_system = FileSystemIsolation::kNone;
  std::vector<NetworkMode> networks{NetworkMode::kHost};
  bool must_create_network = false;
  MountConfigs mount_configs = MountConfigs::kAny;
};

// One key of a driver's configuration of a task.
struct SchemaKey {
  bool operator==(const SchemaKey&) const = default;

  enum class Type { kString, kBool, kNumber, kStrings, kStringMap };

  std::string name;
  Type type = Type::kString;
  bool required = false;
  std::string description{};
};

}  // namespace mountd::driver
