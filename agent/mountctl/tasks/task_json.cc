// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/task_json.h"

#include <array>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

namespace mountd::driver {

using Json = nlohmann::json;

// Members that JSON has by their own names. A member that an older release did
// not write keeps its default.
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(EnvironmentEntry, name, value)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TaskDirectories, alloc, local,
                                                secrets, logs)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(TaskResources, memory_max,
                                                memory_low, cpu_weight,
                                                cpu_quota_us, cpu_period_us,
                                                pids_max, cpuset, oom_kills_all)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Device, task_path, host_path,
                                                cgroup_permissions)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(DnsConfig, servers, searches,
                                                options)

namespace {

template <typename Value, std::size_t size>
using Names = std::array<std::pair<Value, std::string_view>, size>;

template <typename Value, std::size_t size>
std::string_view NameOf(const Names<Value, size>& names, Value value) {
  for (const auto& [one, name] : names) {
    if (one == value) {
      return name;
    }
  }
  return "unknown";
}

// Throws nlohmann's exception for a name that this release does not know,
// because a default in its place would describe another task.
template <typename Value, std::size_t size>
Value ValueOf(const Names<Value, size>& names, const Json& json) {
  const auto text = json.get<std::string>();
  for (const auto& [value, name] : names) {
    if (name == text) {
      return value;
    }
  }
  (void)Json::object().at(text);  // throws
  return {};
}

constexpr Names<MountPropagation, 3> kPropagations{
    {{MountPropagation::kPrivate, "private"},
     {MountPropagation::kHostToTask, "host-to-task"},
     {MountPropagation::kBidirectional, "bidirectional"}}};
constexpr Names<NetworkMode, 4> kNetworkModes{{{NetworkMode::kNone, "none"},
                                               {NetworkMode::kHost, "host"},
                                               {NetworkMode::kGroup, "group"},
                                               {NetworkMode::kTask, "task"}}};
constexpr Names<LogMode, 4> kLogModes{{{LogMode::kOff, "off"},
                                       {LogMode::kFiles, "files"},
                                       {LogMode::kFifos, "fifos"},
                                       {LogMode::kJournal, "journal"}}};
constexpr Names<TaskState, 3> kStates{{{TaskState::kUnknown, "unknown"},
                                       {TaskState::kRunning, "running"},
                                       {TaskState::kExited, "exited"}}};

}  // namespace

inline void to_json(Json& json, MountPropagation value) {
  json = NameOf(kPropagations, value);
}
inline void from_json(const Json& json, MountPropagation& value) {
  value = ValueOf(kPropagations, json);
}
inline void to_json(Json& json, NetworkMode value) {
  json = NameOf(kNetworkModes, value);
}
inline void from_json(const Json& json, NetworkMode& value) {
  value = ValueOf(kNetworkModes, json);
}
inline void to_json(Json& json, LogMode value) {
  json = NameOf(kLogModes, value);
}
inline void from_json(const Json& json, LogMode& value) {
  value = ValueOf(kLogModes, json);
}
inline void to_json(Json& json, TaskState value) {
  json = NameOf(kStates, value);
}
inline void from_json(const Json& json, TaskState& value) {
  value = ValueOf(kStates, json);
}

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(Mount, task_path, host_path,
                                                read_only, noexec, propagation,
                                                request_name)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(LogConfig, mode, stdout_path,
                                                stderr_path, max_file_bytes,
                                                max_files)

void to_json(Json& json, const NetworkIsolation& network) {
  json = {{"mode", network.mode},
          {"namespace_path", network.namespace_path},
          {"labels", network.labels}};
}

void from_json(const Json& json, NetworkIsolation& network) {
  network.mode = json.at("mode").get<NetworkMode>();
  json.at("namespace_path").get_to(network.namespace_path);
  json.at("labels").get_to(network.labels);
}

namespace {

std::string Hex(const std::string& bytes) {
  constexpr std::array<char, 17> kDigits{"0123456789abcdef"};
  std::string text;
  for (const char byte : bytes) {
    const auto value = static_cast<unsigned char>(byte);
    text += kDigits.at(value >> 4U);
    text += kDigits.at(value & 15U);
  }
  return text;
}

unsigned DigitOf(char digit) {
  return digit >= 'a' ? static_cast<unsigned>(digit - 'a') + 10
                      : static_cast<unsigned>(digit - '0');
}

// Reads what Hex has written.
std::string Bytes(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes += static_cast<char>(DigitOf(hex[i]) << 4U | DigitOf(hex[i + 1]));
  }
  return bytes;
}

}  // namespace

void to_json(Json& json, const TaskConfig& config) {
  json = {{"id", config.id},
          {"allocation", config.allocation},
          {"name", config.name},
          {"job", config.job},
          {"image", config.image},
          {"entrypoint", config.entrypoint},
          {"command", config.command},
          {"working_directory", config.working_directory},
          {"user", config.user},
          {"hostname", config.hostname},
          {"environment", config.environment},
          {"directories", config.directories},
          {"resources", config.resources},
          {"mounts", config.mounts},
          {"devices", config.devices},
          {"network", config.network},
          {"logs", config.logs},
          {"read_only_root", config.read_only_root}};
  if (config.dns) {
    json["dns"] = *config.dns;
  }
}

void from_json(const Json& json, TaskConfig& config) {
  json.at("id").get_to(config.id);
  json.at("allocation").get_to(config.allocation);
  json.at("name").get_to(config.name);
  json.at("job").get_to(config.job);
  json.at("image").get_to(config.image);
  json.at("entrypoint").get_to(config.entrypoint);
  json.at("command").get_to(config.command);
  json.at("working_directory").get_to(config.working_directory);
  json.at("user").get_to(config.user);
  json.at("hostname").get_to(config.hostname);
  json.at("environment").get_to(config.environment);
  json.at("directories").get_to(config.directories);
  json.at("resources").get_to(config.resources);
  json.at("mounts").get_to(config.mounts);
  json.at("devices").get_to(config.devices);
  json.at("network").get_to(config.network);
  json.at("logs").get_to(config.logs);
  json.at("read_only_root").get_to(config.read_only_root);
  if (json.contains("dns")) {
    config.dns = json.at("dns").get<DnsConfig>();
  }
}

void to_json(Json& json, const TaskHandle& handle) {
  json = {{"version", handle.version},
          {"config", handle.config},
          {"state", handle.state},
          {"driver_state", Hex(handle.driver_state)}};
}

void from_json(const Json& json, TaskHandle& handle) {
  json.at("version").get_to(handle.version);
  json.at("config").get_to(handle.config);
  json.at("state").get_to(handle.state);
  handle.driver_state = Bytes(json.at("driver_state").get<std::string>());
}

}  // namespace mountd::driver

namespace mountd::agent {
namespace {

constexpr driver::Names<RestartMode, 2> kRestartModes{
    {{RestartMode::kFail, "fail"}, {RestartMode::kDelay, "delay"}}};

}  // namespace

void to_json(nlohmann::json& json, const TaskSpec& spec) {
  json = {{"config", spec.config},
          {"attempts", spec.restart.attempts},
          {"interval_ms", spec.restart.interval.count()},
          {"delay_ms", spec.restart.delay.count()},
          {"mode", driver::NameOf(kRestartModes, spec.restart.mode)},
          {"kill_signal", spec.kill_signal},
          {"kill_timeout_ms", spec.kill_timeout.count()},
          {"remove", spec.remove},
          {"holds_exec", spec.holds_exec}};
}

void from_json(const nlohmann::json& json, TaskSpec& spec) {
  json.at("config").get_to(spec.config);
  json.at("attempts").get_to(spec.restart.attempts);
  spec.restart.interval =
      std::chrono::milliseconds(json.at("interval_ms").get<std::int64_t>());
  spec.restart.delay =
      std::chrono::milliseconds(json.at("delay_ms").get<std::int64_t>());
  spec.restart.mode = driver::ValueOf(kRestartModes, json.at("mode"));
  json.at("kill_signal").get_to(spec.kill_signal);
  spec.kill_timeout =
      std::chrono::milliseconds(json.at("kill_timeout_ms").get<std::int64_t>());
  // Records of older releases have no such members.
  spec.remove = json.value("remove", false);
  spec.holds_exec = json.value("holds_exec", false);
}

}  // namespace mountd::agent
