// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/task_request.h"

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "mountd/base/names.h"

namespace mountd::nomad {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kPrefix[] = "cni-";
constexpr std::int64_t kMebibyte = std::int64_t{1} << 20U;

Error Wrong(const char* field, const std::string& value, std::string detail) {
  return MakeError(Code::kInvalidArgument, field, value, std::move(detail));
}

// runc's formula from the shares of version 1 to the weight of version 2.
std::uint32_t WeightOf(std::int64_t shares) {
  constexpr std::int64_t kLeast = 2;
  constexpr std::int64_t kMost = 262'144;
  if (shares <= 0) {
    return 0;
  }
  return static_cast<std::uint32_t>(
      1 +
      (std::clamp(shares, kLeast, kMost) - kLeast) * 9999 / (kMost - kLeast));
}

// 0 for what is no number of megabytes.
std::uint64_t Bytes(std::int64_t megabytes) {
  constexpr std::int64_t kMost = std::int64_t{1} << 40U;
  return static_cast<std::uint64_t>(
      std::clamp(megabytes, std::int64_t{0}, kMost) * kMebibyte);
}

// memory_max is what a task may take, and memory then what it has for sure. -1
// is no limit.
void AddMemory(const wire::Resources& from, driver::TaskResources* to) {
  const auto& memory = from.allocated_resources().memory();
  if (memory.memory_max_mb() != 0) {
    to->memory_max = Bytes(memory.memory_max_mb());
    to->memory_low = Bytes(memory.memory_mb());
    return;
  }
  to->memory_max =
      memory.memory_mb() != 0
          ? Bytes(memory.memory_mb())
          : static_cast<std::uint64_t>(std::max(
                from.linux_resources().memory_limit_bytes(), std::int64_t{0}));
}

driver::TaskResources ResourcesOf(const wire::Resources& from) {
  driver::TaskResources to;
  AddMemory(from, &to);
  const wire::LinuxResources& own = from.linux_resources();
  to.cpu_weight = WeightOf(own.cpu_shares() != 0
                               ? own.cpu_shares()
                               : from.allocated_resources().cpu().cpu_shares());
  if (own.cpu_quota() > 0) {
    to.cpu_quota_us = static_cast<std::uint64_t>(own.cpu_quota());
  }
  if (own.cpu_period() > 0) {
    to.cpu_period_us = static_cast<std::uint64_t>(own.cpu_period());
  }
  to.cpuset = own.cpuset_cpus();
  return to;
}

Result<driver::MountPropagation> PropagationOf(const std::string& mode) {
  if (mode.empty() || mode == "private") {
    return driver::MountPropagation::kPrivate;
  }
  if (mode == "host-to-task") {
    return driver::MountPropagation::kHostToTask;
  }
  if (mode == "bidirectional") {
    return MakeError(Code::kNotSupported, "propagation_mode", mode,
                     "a task of an ordinary user cannot give mounts to the "
                     "host; use private or host-to-task");
  }
  return Wrong("propagation_mode", mode,
               "is none of private, host-to-task and bidirectional");
}

// Leaves out "m", which Nomad adds to the permissions of a device whose job
// names none. The kernel lets no rootless container make a node (mknod(2),
// EPERM).
std::string PermissionsOf(std::string cgroup_permissions) {
  std::erase(cgroup_permissions, 'm');
  return cgroup_permissions;
}

Result<void> AddMounts(const wire::TaskConfig& task, driver::TaskConfig* to) {
  for (const wire::Mount& mount : task.mounts()) {
    if (!mount.selinux_label().empty()) {
      return MakeError(Code::kNotSupported, "selinux_label",
                       mount.selinux_label(), "this driver sets no labels");
    }
    MOUNTD_ASSIGN(const driver::MountPropagation propagation,
                  PropagationOf(mount.propagation_mode()));
    driver::InsertMount({mount.task_path(), mount.host_path(), mount.readonly(),
                         false, propagation, mount.request_name()},
                        to->mounts);
  }
  for (const wire::Device& device : task.devices()) {
    to->devices.push_back({device.task_path(), device.host_path(),
                           PermissionsOf(device.cgroup_permissions())});
  }
  return Ok();
}

// The allocation's directory without the symlinks of the operator. No task can
// change it, and nobody follows a link below it.
std::string RealAllocDir(const std::string& path) {
  std::error_code failed;
  const fs::path real = fs::canonical(path, failed);
  return failed ? path : real.string();
}

driver::LogConfig LogsOf(const wire::TaskConfig& task,
                         const std::string& alloc_dir) {
  const auto real = [&](const std::string& path) {
    const std::string beneath = task.alloc_dir() + "/";
    return path.starts_with(beneath)
               ? alloc_dir + "/" + path.substr(beneath.size())
               : path;
  };
  const auto is_off = [](const std::string& path) {
    return path.empty() || path == "/dev/null";
  };
  driver::LogConfig logs;
  if (is_off(task.stdout_path()) && is_off(task.stderr_path())) {
    logs.mode = driver::LogMode::kOff;
    return logs;
  }
  logs.mode = driver::LogMode::kFifos;
  logs.stdout_path = real(task.stdout_path());
  logs.stderr_path = real(task.stderr_path());
  return logs;
}

void AddValues(const Json& values, driver::TaskConfig* to) {
  to->image = values.value("image", std::string());
  to->entrypoint = values.value("entrypoint", std::string());
  to->command = values.value("command", std::vector<std::string>());
  to->working_directory = values.value("working_directory", std::string());
  to->hostname = values.value("hostname", std::string());
  to->read_only_root = values.value("read_only_root", false);
}

void AddEnvironment(const wire::TaskConfig& task, driver::TaskConfig* to) {
  for (const auto* variables : {&task.device_env(), &task.env()}) {
    for (const auto& [name, value] : *variables) {
      driver::SetEnvironment(name, value, to->environment);
    }
  }
}

template <typename Words>
std::vector<std::string> ListOf(const Words& words) {
  return {words.begin(), words.end()};
}

driver::NetworkMode ModeOf(
    wire::NetworkIsolationSpec::NetworkIsolationMode mode) {
  switch (mode) {
    case wire::NetworkIsolationSpec::GROUP:
      return driver::NetworkMode::kGroup;
    case wire::NetworkIsolationSpec::TASK:
      return driver::NetworkMode::kTask;
    case wire::NetworkIsolationSpec::NONE:
      return driver::NetworkMode::kNone;
    default:
      return driver::NetworkMode::kHost;
  }
}

}  // namespace

std::string AllocationOf(const std::string& alloc_id) {
  return kPrefix + alloc_id;
}

std::optional<TaskNames> NamesOfTask(const std::string& task_id) {
  const std::size_t first = task_id.find('/');
  const std::size_t second = task_id.find('/', first + 1);
  if (first == std::string::npos || second == std::string::npos) {
    return std::nullopt;
  }
  return TaskNames{AllocationOf(task_id.substr(0, first)),
                   task_id.substr(first + 1, second - first - 1)};
}

Keys TaskKeys(const Keys& of_driver) {
  Keys keys;
  std::copy_if(of_driver.begin(), of_driver.end(), std::back_inserter(keys),
               [](const driver::SchemaKey& key) { return key.name != "user"; });
  return keys;
}

driver::NetworkIsolation IsolationOf(const wire::NetworkIsolationSpec& spec) {
  return {ModeOf(spec.mode()),
          spec.path(),
          {spec.labels().begin(), spec.labels().end()}};
}

std::chrono::milliseconds DurationOf(
    const google::protobuf::Duration& duration) {
  constexpr std::int64_t kMostSeconds = 31'536'000;
  const std::int64_t seconds =
      std::clamp(duration.seconds(), std::int64_t{0}, kMostSeconds);
  const std::int64_t nanoseconds = std::clamp(duration.nanos(), 0, 999'999'999);
  return std::chrono::milliseconds(seconds * 1000 + nanoseconds / 1'000'000);
}

Result<driver::TaskConfig> TaskConfigOf(const wire::TaskConfig& task,
                                        const Keys& keys) {
  driver::TaskConfig to;
  to.id = task.id();
  // Paths are made of both names.
  MOUNTD_TRY(Name::Parse("alloc_id", task.alloc_id()));
  MOUNTD_TRY(Name::Parse("name", task.name()));
  to.allocation = AllocationOf(task.alloc_id());
  to.name = task.name();
  to.job = task.job_name();
  if (!fs::path(task.alloc_dir()).is_absolute()) {
    return Wrong("alloc_dir", task.alloc_dir(), "is no absolute path");
  }
  const std::string alloc_dir = RealAllocDir(task.alloc_dir());
  to.directories.alloc = alloc_dir + "/alloc";
  to.directories.local = alloc_dir + "/" + task.name() + "/local";
  to.directories.secrets = alloc_dir + "/" + task.name() + "/secrets";
  MOUNTD_ASSIGN(const Json values,
                ReadValues(task.msgpack_driver_config(), keys));
  AddValues(values, &to);
  to.user = task.user();
  AddEnvironment(task, &to);
  to.resources = ResourcesOf(task.resources());
  MOUNTD_TRY(AddMounts(task, &to));
  if (task.has_network_isolation_spec()) {
    to.network = IsolationOf(task.network_isolation_spec());
  }
  if (task.has_dns()) {
    to.dns = driver::DnsConfig{ListOf(task.dns().servers()),
                               ListOf(task.dns().searches()),
                               ListOf(task.dns().options())};
  }
  to.logs = LogsOf(task, alloc_dir);
  return to;
}

}  // namespace mountd::nomad
