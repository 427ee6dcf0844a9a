// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/plugin_service.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "mountd/base/paths.h"

namespace mountd::propagation {
namespace {

using exec::Named;
using Command = std::vector<std::string>;

constexpr char kSystemctl[] = "/usr/bin/systemctl";
constexpr char kSystemdRun[] = "/usr/bin/systemd-run";
// sh(1) answers this status for a program that it cannot find.
constexpr int kNotExecuted = 127;

std::string UnitOf(const std::string& plugin) {
  return "mountd-plugin-" + plugin + ".service";
}

// Returns the program's exit status. The program gets an empty environment, and
// its output is discarded. The program has only a part of the plan's time,
// because the plan has other steps.
Result<int> Run(const Context& context, const Command& command,
                const std::string& object) {
  std::vector<char*> argv;
  argv.reserve(command.size() + 1);
  for (const std::string& argument : command) {
    argv.push_back(const_cast<char*>(argument.c_str()));  // execv(3) takes
                                                          // char*
  }
  argv.push_back(nullptr);
  const exec::Sys<std::uint8_t> status = context.kernel.RunChild(
      [&argv] {
        ::execv(argv.front(), argv.data());
        return kNotExecuted;
      },
      {}, context.config.timeouts.plan * 3 / 10);
  if (exec::FailedWith(status, ETIMEDOUT)) {
    return MakeError(Code::kDeadlineExceeded, "start", object,
                     "systemd does not answer");
  }
  MOUNTD_ASSIGN(const std::uint8_t code,
                exec::NamedOfChild(status, "fork", object));
  return code;
}

// NotSupported unless systemd runs (sd_booted(3)) and its programs exist.
Result<void> CheckSystemd(const Context& context, const std::string& object) {
  for (const char* path : {"/run/systemd/system", kSystemctl, kSystemdRun}) {
    if (!context.kernel.Open(AT_FDCWD, path, O_PATH, 0)) {
      return MakeError(
          Code::kNotSupported, "start", object,
          "systemd does not run here, but declared plugins need it");
    }
  }
  return Ok();
}

// Returns whether the plugin's unit is loaded: running, or waiting for a
// restart. systemd keeps a transient unit's file for that long.
bool IsLoaded(const Context& context, const std::string& plugin) {
  return context.kernel
      .Open(AT_FDCWD, "/run/systemd/transient/" + UnitOf(plugin), O_PATH, 0)
      .has_value();
}

// Escapes "$" as "$$", because systemd replaces variables in arguments.
std::string Escaped(const std::string& argument) {
  std::string text;
  for (const char c : argument) {
    text.append(c == '$' ? 2 : 1, c);
  }
  return text;
}

Command StartCommand(const std::string& plugin, const PluginConfig& config) {
  // systemd-run(1): --collect unloads the unit even after a failure, so that
  // its name is free for the next start.
  const std::string directory =
      std::string(paths::kBase) + "/" + paths::kPlugins + "/" + plugin;
  Command command = {
      kSystemdRun, "--quiet", "--collect", "--unit=" + UnitOf(plugin),
      "--description=CSI plugin " + plugin + " of mountd",
      "--slice=mountd-plugins.slice", "--property=Restart=" + config.restart,
      "--property=RestartSec=1s",
      // No limit of starts, because the plugin may fail until something that it
      // needs is there.
      "--property=StartLimitIntervalSec=0",
      "--setenv=CSI_ENDPOINT=unix://" + directory + "/" + paths::kCsiEndpoint,
      "--", config.command.front()};
  std::transform(config.command.begin() + 1, config.command.end(),
                 std::back_inserter(command), Escaped);
  return command;
}

}  // namespace

Result<void> StartPlugin(const Context& context, const exec::PluginPlan& plan) {
  const std::string name = Text(plan.plugin);
  const auto declared = context.config.plugins.find(name);
  if (declared == context.config.plugins.end()) {
    return MakeError(Code::kNotFound, "start", name,
                     "is not declared in mountd.toml");
  }
  MOUNTD_TRY(CheckSystemd(context, name));
  if (IsLoaded(context, name)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const int status,
                Run(context, StartCommand(name, declared->second), name));
  return status == 0
             ? Ok()
             : Result<void>(MakeError(
                   Code::kUnavailable, "start", name,
                   "systemd-run failed (" + std::to_string(status) + ")"));
}

Result<void> StopPlugin(const Context& context, const exec::PluginPlan& plan) {
  const std::string name = Text(plan.plugin);
  if (!CheckSystemd(context, name)) {
    return Ok();
  }
  // Without systemd there is no unit to stop.
  constexpr int kNotLoaded = 5;  // systemctl(1), LSB
  MOUNTD_ASSIGN(
      const int status,
      Run(context, {kSystemctl, "--quiet", "--no-block", "stop", UnitOf(name)},
          name));
  return status == 0 || status == kNotLoaded
             ? Ok()
             : Result<void>(MakeError(Code::kUnavailable, "stop", name,
                                      "systemctl failed; see journalctl"));
}

}  // namespace mountd::propagation
