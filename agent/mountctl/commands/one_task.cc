// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/one_task.h"

#include <string_view>
#include <utility>

#include "agent/mountctl/commands/port_text.h"
#include "agent/mountctl/job/directory.h"
#include "agent/mountctl/job/task.h"
#include "mountd/base/names.h"

namespace mountd::agent {
namespace {

constexpr std::string_view kUnnamed = "task-";
constexpr std::size_t kRandomDigits = 8;  // those of RandomHex

Error Wrong(const char* option, const std::string& detail) {
  return MakeError(Code::kInvalidArgument, "task run", option, detail);
}

// SRC may have colons, so the last ":/" begins DST.
Result<BindMountSpec> MountOf(std::string_view text, std::string name) {
  constexpr std::string_view kReadOnly = ":ro";
  const std::string whole(text);
  BindMountSpec mount;
  if (text.ends_with(kReadOnly)) {
    mount.read_only = true;
    text.remove_suffix(kReadOnly.size());
  }
  const std::size_t colon = text.rfind(":/");
  if (colon == std::string_view::npos || colon == 0) {
    return Wrong("--volume", whole +
                                 ": must be SRC:DST or SRC:DST:ro, with "
                                 "an absolute path as DST");
  }
  const std::string source(text.substr(0, colon));
  mount.task_path = text.substr(colon + 1);
  mount.name = std::move(name);
  const bool known = source.starts_with('/')
                         ? ParseMountSource("directory:" + source, mount)
                     : source.find(':') == std::string::npos
                         ? ParseMountSource("host:" + source, mount)
                         : ParseMountSource(source, mount);
  if (!known || mount.source_type == SourceType::kVolume ||
      mount.source_type == SourceType::kTmpfs) {
    return Wrong("--volume",
                 whole +
                     ": SRC must be NAME or host:NAME of a host volume, "
                     "filesystem:NAME, or the path of a directory; a job "
                     "file has the other sources");
  }
  return mount;
}

Result<void> AddNetwork(const OneTask& one, Job& job,
                        driver::TaskConfig& config) {
  const std::string mode = !one.network.empty() ? one.network
                           : one.ports.empty()  ? "none"
                                                : "bridge";
  if (mode != "bridge") {
    if (!one.ports.empty()) {
      return Wrong("--port", "needs --network bridge");
    }
    config.network.mode = mode == "host" ? driver::NetworkMode::kHost
                                         : driver::NetworkMode::kNone;
    return Ok();
  }
  config.network.mode = driver::NetworkMode::kGroup;
  NetworkSpec& network = job.network.emplace();
  for (const std::string& text : one.ports) {
    MOUNTD_ASSIGN(Port port, ParsePort(text));
    if (port.label.empty()) {
      port.label = std::to_string(port.host);
    }
    if (!AddPort(port, config)) {
      return Wrong("--port", text + ": another port has such a label");
    }
    network.ports.push_back(std::move(port));
  }
  return Ok();
}

Result<void> AddEnvironment(const OneTask& one, driver::TaskConfig& config) {
  for (const std::string& entry : one.environment) {
    const std::size_t equals = entry.find('=');
    if (equals == std::string::npos || equals == 0) {
      return Wrong("--env", entry + ": must be NAME=VALUE");
    }
    driver::SetEnvironment(entry.substr(0, equals), entry.substr(equals + 1),
                           config.environment);
  }
  return Ok();
}

}  // namespace

bool IsUnnamed(const std::string& allocation) {
  return allocation.starts_with(kUnnamed) &&
         allocation.size() == kUnnamed.size() + kRandomDigits &&
         allocation.find_first_not_of("0123456789abcdef", kUnnamed.size()) ==
             std::string::npos;
}

Result<Job> JobOf(const OneTask& one, const std::string& random) {
  Job job;
  job.allocation = one.name.empty() ? std::string(kUnnamed) + random : one.name;
  if (!IsValidName(job.allocation)) {
    return Wrong("--name", one.name +
                               ": must be 1 to 128 characters of A-Z "
                               "a-z 0-9 . _ - [ ]");
  }
  TaskSpec task;
  task.config.name = one.name.empty() ? "main" : one.name;
  task.config.image = one.image;
  task.config.user = one.user;
  task.config.command = one.command;
  task.restart.attempts = 0;
  task.remove = one.remove && one.name.empty();
  task.holds_exec = one.ByExec();
  if (one.ByExec()) {
    if (one.command.empty()) {
      return Wrong("COMMAND", "is required with -i or -t");
    }
    // Every version of sleep(1) takes a number, but not every version takes
    // "infinity".
    task.config.entrypoint = "/bin/sh";
    task.config.command = {"-c", "exec sleep 2147483647"};
    // SIGTERM does not end the first process of a pid namespace without a
    // handler.
    task.kill_signal = "SIGKILL";
  }
  MOUNTD_TRY(AddNetwork(one, job, task.config));
  MOUNTD_TRY(AddEnvironment(one, task.config));
  for (const std::string& text : one.volumes) {
    MOUNTD_ASSIGN(BindMountSpec mount,
                  MountOf(text, "v" + std::to_string(job.mounts.size())));
    mount.task = task.config.name;
    job.mounts.push_back(std::move(mount));
  }
  job.tasks.push_back(std::move(task));
  return job;
}

}  // namespace mountd::agent
