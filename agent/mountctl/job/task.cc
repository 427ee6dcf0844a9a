// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/job/task.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "mountd/base/names.h"
#include "mountd/base/number.h"

namespace mountd::agent {
namespace {

constexpr char kDurationForm[] = "must be a duration such as \"15s\"";

void ReadDuration(Section& section, const char* key,
                  std::chrono::milliseconds& out) {
  section.Choice(key, kDurationForm, [&](const std::string& text) {
    const auto duration = ParseDuration(text);
    out = duration.value_or(out);
    return duration.has_value();
  });
}

// Reads a number that may be left out.
template <typename Number>
void ReadNumber(Section& section, const char* key, Number& out) {
  std::optional<Number> number;
  section.WholeNumber(key, number);
  out = number.value_or(out);
}

void ReadResources(Section& section, driver::TaskResources& resources) {
  section
      .Only({"memory", "memory_low", "cpu_weight", "cpu_quota_us",
             "cpu_period_us", "pids", "cpuset", "oom_kills_all"})
      .Text("cpuset", resources.cpuset)
      .Flag("oom_kills_all", resources.oom_kills_all);
  ReadNumber(section, "memory", resources.memory_max);
  ReadNumber(section, "memory_low", resources.memory_low);
  ReadNumber(section, "cpu_weight", resources.cpu_weight);
  ReadNumber(section, "cpu_quota_us", resources.cpu_quota_us);
  ReadNumber(section, "cpu_period_us", resources.cpu_period_us);
  ReadNumber(section, "pids", resources.pids_max);
  section.Check("cpu_weight", resources.cpu_weight <= 10'000,
                "must be 1 to 10000");
}

std::optional<driver::LogMode> ParseLogMode(std::string_view text) {
  if (text == "files") {
    return driver::LogMode::kFiles;
  }
  if (text == "journal") {
    return driver::LogMode::kJournal;
  }
  if (text == "off") {
    return driver::LogMode::kOff;
  }
  return std::nullopt;
}

void ReadLogs(Section& section, driver::LogConfig& logs) {
  section.Only({"mode", "files", "size"})
      .Choice("mode", "must be files, journal or off",
              [&](const std::string& text) {
                const auto mode = ParseLogMode(text);
                logs.mode = mode.value_or(logs.mode);
                return mode.has_value();
              });
  ReadNumber(section, "files", logs.max_files);
  ReadNumber(section, "size", logs.max_file_bytes);
  constexpr std::uint64_t kLeastFile = 4096;
  section.Check("files", logs.max_files > 0, "must be at least 1")
      .Check("size", logs.max_file_bytes >= kLeastFile,
             "must be at least 4096 bytes");
}

void ReadRestart(Section& section, RestartPolicy& restart) {
  section.Only({"attempts", "interval", "delay", "mode"})
      .Choice("mode", "must be fail or delay", [&](const std::string& text) {
        restart.mode =
            text == "delay" ? RestartMode::kDelay : RestartMode::kFail;
        return text == "delay" || text == "fail";
      });
  ReadNumber(section, "attempts", restart.attempts);
  ReadDuration(section, "interval", restart.interval);
  ReadDuration(section, "delay", restart.delay);
  // A shorter time would be a busy loop of starts.
  section
      .Check("interval", restart.interval >= std::chrono::seconds(1),
             "must be at least 1s")
      .Check("delay", restart.delay >= std::chrono::milliseconds(100),
             "must be at least 100ms");
}

bool IsSignal(std::string_view text) {
  if (text.starts_with("SIG")) {
    text.remove_prefix(3);
  } else if (const auto number = ParseNumber<int>(text)) {
    return *number >= 1 && *number <= SIGRTMAX;
  }
  // The driver parses the whole name, such as RTMIN+3.
  if (text.starts_with("RTMIN") || text.starts_with("RTMAX")) {
    return true;
  }
  for (int number = 1; number < SIGRTMIN; ++number) {
    const char* known = ::sigabbrev_np(number);
    if (known != nullptr && text == known) {
      return true;
    }
  }
  return false;
}

void ReadNetworkOf(Section& section, const Job& job,
                   driver::TaskConfig& config) {
  using driver::NetworkMode;
  config.network.mode = job.network ? NetworkMode::kGroup : NetworkMode::kNone;
  section.Choice("network", "must be group, none or host",
                 [&](const std::string& text) {
                   config.network.mode = text == "group"  ? NetworkMode::kGroup
                                         : text == "none" ? NetworkMode::kNone
                                                          : NetworkMode::kHost;
                   return text == "group" || text == "none" || text == "host";
                 });
  const bool in_group = config.network.mode == NetworkMode::kGroup;
  section.Check("network", !in_group || job.network.has_value(),
                "is group, and the job has no [network]");
  section.Each("ports",
               "must be labels of ports of a [network] that the task "
               "is in, and differ in letters and digits",
               [&](const std::string& label) {
                 if (!in_group || !job.network) {
                   return false;
                 }
                 const auto& ports = job.network->ports;
                 const auto port = std::find_if(
                     ports.begin(), ports.end(),
                     [&](const Port& one) { return one.label == label; });
                 if (port == ports.end()) {
                   return false;
                 }
                 return AddPort(*port, config);
               });
}

void ReadProgram(Section& section, driver::TaskConfig& config) {
  section.Require("name")
      .Require("image")
      .Text("name", config.name)
      .Text("image", config.image)
      .Text("entrypoint", config.entrypoint)
      .Texts("command", config.command)
      .Text("user", config.user)
      .Text("working_directory", config.working_directory)
      .Text("hostname", config.hostname)
      .Flag("read_only_root", config.read_only_root);
  std::map<std::string, std::string> environment;
  section.TextMap("env", environment);
  for (const auto& [name, value] : environment) {
    driver::SetEnvironment(name, value, config.environment);
  }
}

}  // namespace

void ReadTask(Section& section, Job& job) {
  TaskSpec task;
  section.Only({"name", "image", "entrypoint", "command", "user", "env",
                "working_directory", "hostname", "read_only_root", "resources",
                "network", "ports", "logs", "restart", "kill_signal",
                "kill_timeout"});
  ReadNetworkOf(section, job, task.config);
  ReadProgram(section, task.config);
  section.Text("kill_signal", task.kill_signal)
      .Inner(
          "resources",
          [&](Section& inner) { ReadResources(inner, task.config.resources); })
      .Inner("logs", [&](Section& inner) { ReadLogs(inner, task.config.logs); })
      .Inner("restart",
             [&](Section& inner) { ReadRestart(inner, task.restart); });
  ReadDuration(section, "kill_timeout", task.kill_timeout);
  section.Check("kill_signal",
                task.kill_signal.empty() || IsSignal(task.kill_signal),
                "must be a name such as SIGTERM or a number from 1 to 64");
  // The name is a part of paths.
  section.Check("name", IsValidName(task.config.name),
                "must be 1 to 128 characters of A-Z a-z 0-9 . _ - [ ]");
  section.Check("name",
                std::none_of(job.tasks.begin(), job.tasks.end(),
                             [&](const TaskSpec& other) {
                               return other.config.name == task.config.name;
                             }),
                "is another task's name, too");
  job.tasks.push_back(std::move(task));
}

void CheckMountsTask(Section& section, const Job& job) {
  const bool is_known =
      job.tasks.empty() ||
      std::any_of(job.tasks.begin(), job.tasks.end(),
                  [&](const TaskSpec& task) {
                    return task.config.name == job.mounts.back().task;
                  });
  section.Check("task", is_known, "is not the name of a [[task]]")
      .Check("path", job.tasks.empty() || !job.mounts.back().task_path.empty(),
             "is required for a mount of a [[task]]");
}

bool AddPort(const Port& port, driver::TaskConfig& config) {
  std::string label = port.label;
  for (char& letter : label) {
    if (std::isalnum(static_cast<unsigned char>(letter)) == 0) {
      letter = '_';
    }
  }
  const std::string variable = "MOUNTD_PORT_" + label;
  if (std::any_of(config.environment.begin(), config.environment.end(),
                  [&](const driver::EnvironmentEntry& entry) {
                    return entry.name == variable;
                  })) {
    return false;
  }
  const std::uint16_t inside = port.container == 0 ? port.host : port.container;
  driver::SetEnvironment(variable, std::to_string(inside), config.environment);
  driver::SetEnvironment("MOUNTD_HOST_PORT_" + label, std::to_string(port.host),
                         config.environment);
  return true;
}

std::optional<std::chrono::milliseconds> ParseDuration(std::string_view text) {
  struct Unit {
    std::string_view name;
    std::uint64_t milliseconds;
  };
  static constexpr std::array<Unit, 4> kUnits{
      {{"ms", 1}, {"s", 1'000}, {"m", 60'000}, {"h", 3'600'000}}};
  constexpr std::uint64_t kMost = std::uint64_t{30} * 24 * 3'600'000;
  const std::size_t digits = text.find_first_not_of("0123456789");
  if (digits == std::string_view::npos) {
    return std::nullopt;
  }
  const auto number = ParseNumber<std::uint64_t>(text.substr(0, digits));
  for (const Unit& unit : kUnits) {
    if (number && text.substr(digits) == unit.name &&
        *number <= kMost / unit.milliseconds) {
      return std::chrono::milliseconds(*number * unit.milliseconds);
    }
  }
  return std::nullopt;
}

}  // namespace mountd::agent
