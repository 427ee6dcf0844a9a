// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/replies.h"

#include <chrono>

#include "agent/nomad/plugin/task_request.h"

namespace mountd::nomad {
namespace {

constexpr std::string_view kDriverAttributes = "driver.oci";
constexpr std::string_view kAttributes = "driver.mountd";
// 0001-01-01, the zero of Go's time.
constexpr std::int64_t kGoZero = -62'135'596'800;

wire::NetworkIsolationSpec::NetworkIsolationMode ModeOf(
    driver::NetworkMode mode) {
  switch (mode) {
    case driver::NetworkMode::kHost:
      return wire::NetworkIsolationSpec::HOST;
    case driver::NetworkMode::kGroup:
      return wire::NetworkIsolationSpec::GROUP;
    case driver::NetworkMode::kTask:
      return wire::NetworkIsolationSpec::TASK;
    case driver::NetworkMode::kNone:
      break;
  }
  return wire::NetworkIsolationSpec::NONE;
}

void FillTime(driver::Timestamp from, google::protobuf::Timestamp* to) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(from);
  to->set_seconds(seconds.time_since_epoch().count());
  to->set_nanos(static_cast<std::int32_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(from - seconds)
          .count()));
}

std::string NameOf(const std::string& attribute) {
  return attribute.starts_with(kDriverAttributes)
             ? std::string(kAttributes) +
                   attribute.substr(kDriverAttributes.size())
             : attribute;
}

struct AttributeFiller {
  hashicorp::nomad::plugins::shared::structs::Attribute* to;

  void operator()(bool value) const { to->set_bool_val(value); }
  void operator()(std::int64_t value) const { to->set_int_val(value); }
  void operator()(double value) const { to->set_float_val(value); }
  void operator()(const std::string& value) const { to->set_string_val(value); }
};

// Per cent of one processor; nothing without two samples.
std::optional<double> Percent(std::optional<std::uint64_t> now,
                              std::optional<std::uint64_t> before,
                              std::chrono::microseconds passed) {
  if (!now || !before || *now < *before || passed.count() <= 0) {
    return std::nullopt;
  }
  return static_cast<double>(*now - *before) * 100 /
         static_cast<double>(passed.count());
}

void FillCpu(const driver::TaskStats& from,
             const std::optional<driver::TaskStats>& before,
             wire::CPUUsage* to) {
  if (from.cpu_throttled_periods) {
    to->set_throttled_periods(*from.cpu_throttled_periods);
    to->add_measured_fields(wire::CPUUsage::THROTTLED_PERIODS);
  }
  if (from.cpu_throttled_us) {
    to->set_throttled_time(*from.cpu_throttled_us * 1000);
    to->add_measured_fields(wire::CPUUsage::THROTTLED_TIME);
  }
  if (!before) {
    return;
  }
  const auto passed = std::chrono::duration_cast<std::chrono::microseconds>(
      from.at - before->at);
  const auto system =
      Percent(from.cpu_system_us, before->cpu_system_us, passed);
  const auto user = Percent(from.cpu_user_us, before->cpu_user_us, passed);
  if (system && user) {
    to->set_system_mode(*system);
    to->set_user_mode(*user);
    to->set_percent(*system + *user);
    to->add_measured_fields(wire::CPUUsage::SYSTEM_MODE);
    to->add_measured_fields(wire::CPUUsage::USER_MODE);
    to->add_measured_fields(wire::CPUUsage::PERCENT);
  }
}

void FillMemory(const driver::TaskStats& from, wire::MemoryUsage* to) {
  using Memory = wire::MemoryUsage;
  const auto set = [to](const std::optional<std::uint64_t>& value,
                        void (Memory::*setter)(std::uint64_t),
                        Memory::Fields field) {
    if (value) {
      (to->*setter)(*value);
      to->add_measured_fields(field);
    }
  };
  set(from.memory_anon, &Memory::set_rss, Memory::RSS);
  set(from.memory_file, &Memory::set_cache, Memory::CACHE);
  set(from.memory_peak, &Memory::set_max_usage, Memory::MAX_USAGE);
  set(from.memory_current, &Memory::set_usage, Memory::USAGE);
  set(from.memory_swap, &Memory::set_swap, Memory::SWAP);
}

void FillData(const driver::ExecData& from,
              wire::ExecTaskStreamingIOOperation* to) {
  to->set_data(from.data);
  to->set_close(from.close);
}

wire::TaskState StateOf(driver::TaskState state) {
  switch (state) {
    case driver::TaskState::kRunning:
      return wire::RUNNING;
    case driver::TaskState::kExited:
      return wire::EXITED;
    case driver::TaskState::kUnknown:
      break;
  }
  return wire::UNKNOWN;
}

}  // namespace

std::string AllocIdOf(const std::string& allocation) {
  const std::string prefix = AllocationOf("");
  return allocation.starts_with(prefix) ? allocation.substr(prefix.size())
                                        : allocation;
}

void Fill(const driver::DriverCapabilities& from,
          wire::DriverCapabilities* to) {
  to->set_send_signals(from.sends_signals);
  to->set_exec(from.executes);
  switch (from.file_system) {
    case driver::FileSystemIsolation::kNone:
      to->set_fs_isolation(wire::DriverCapabilities::NONE);
      break;
    case driver::FileSystemIsolation::kChroot:
      to->set_fs_isolation(wire::DriverCapabilities::CHROOT);
      break;
    case driver::FileSystemIsolation::kImage:
      to->set_fs_isolation(wire::DriverCapabilities::IMAGE);
      break;
  }
  for (const driver::NetworkMode mode : from.networks) {
    to->add_network_isolation_modes(ModeOf(mode));
  }
  to->set_must_create_network(from.must_create_network);
  to->set_mount_configs(from.mount_configs == driver::MountConfigs::kAny
                            ? wire::DriverCapabilities::ANY_MOUNTS
                            : wire::DriverCapabilities::NO_MOUNTS);
}

void Fill(const driver::Fingerprint& from, wire::FingerprintResponse* to) {
  for (const auto& [name, value] : from.attributes) {
    std::visit(AttributeFiller{&(*to->mutable_attributes())[NameOf(name)]},
               value);
  }
  switch (from.health) {
    case driver::Health::kUndetected:
      to->set_health(wire::FingerprintResponse::UNDETECTED);
      break;
    case driver::Health::kUnhealthy:
      to->set_health(wire::FingerprintResponse::UNHEALTHY);
      break;
    case driver::Health::kHealthy:
      to->set_health(wire::FingerprintResponse::HEALTHY);
      break;
  }
  to->set_health_description(from.description);
}

void Fill(const driver::ExitResult& from, wire::ExitResult* to) {
  to->set_exit_code(from.exit_code);
  to->set_signal(from.signal);
  to->set_oom_killed(from.oom_killed);
}

void Fill(const driver::NetworkIsolation& from,
          wire::NetworkIsolationSpec* to) {
  to->set_mode(ModeOf(from.mode));
  to->set_path(from.namespace_path);
  to->mutable_labels()->insert(from.labels.begin(), from.labels.end());
}

void Fill(const driver::DriverNetwork& from, wire::NetworkOverride* to) {
  to->mutable_port_map()->insert(from.port_map.begin(), from.port_map.end());
  to->set_addr(from.address);
  to->set_auto_advertise(from.auto_advertise);
}

void Fill(const driver::TaskStatus& from, wire::InspectTaskResponse* to) {
  wire::TaskStatus* task = to->mutable_task();
  task->set_id(from.id);
  task->set_name(from.name);
  task->set_state(StateOf(from.state));
  FillTime(from.started_at, task->mutable_started_at());
  task->mutable_completed_at()->set_seconds(kGoZero);
  if (from.completed_at) {
    FillTime(*from.completed_at, task->mutable_completed_at());
  }
  Fill(from.result.value_or(driver::ExitResult()), task->mutable_result());
  to->mutable_driver()->mutable_attributes()->insert(from.attributes.begin(),
                                                     from.attributes.end());
}

void Fill(const driver::TaskEvent& from, wire::DriverTaskEvent* to) {
  to->set_task_id(from.task_id);
  to->set_alloc_id(AllocIdOf(from.allocation));
  to->set_task_name(from.task);
  FillTime(from.at, to->mutable_timestamp());
  to->set_message(from.message);
  to->mutable_annotations()->insert(from.annotations.begin(),
                                    from.annotations.end());
}

void Fill(const driver::ExecResponse& from,
          wire::ExecTaskStreamingResponse* to) {
  if (from.stdout_data) {
    FillData(*from.stdout_data, to->mutable_stdout());
  }
  if (from.stderr_data) {
    FillData(*from.stderr_data, to->mutable_stderr());
  }
  if (from.result) {
    to->set_exited(true);
    Fill(*from.result, to->mutable_result());
  }
}

void Fill(const driver::TaskStats& from,
          const std::optional<driver::TaskStats>& before, wire::TaskStats* to) {
  FillTime(from.at, to->mutable_timestamp());
  wire::TaskResourceUsage* usage = to->mutable_agg_resource_usage();
  FillCpu(from, before, usage->mutable_cpu());
  FillMemory(from, usage->mutable_memory());
}

}  // namespace mountd::nomad
