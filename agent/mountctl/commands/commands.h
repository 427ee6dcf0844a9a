// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "agent/client.h"
#include "agent/driver/logs/log_reader.h"
#include "agent/driver/task_driver.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// The exit statuses, as `--help` explains them.
inline constexpr int kExitOk = 0;
inline constexpr int kExitError = 1;
inline constexpr int kExitUsage = 2;

// Groups of the help that contain commands of more than one file.
inline constexpr char kJobsGroup[] = "Jobs";
inline constexpr char kNodeGroup[] = "The node";
inline constexpr char kPartsGroup[] = "Networks, volumes and mounts";
inline constexpr char kTasksGroup[] = "Running tasks";

// A driver of the caller's tasks. `state` is the directory of the driver.
// `client` may be null, and outlives the driver.
struct DriverRequest {
  std::string state;
  std::string runtime;
  std::string cgroup;  // of version 2, delegated to the caller; "": none
  Client* client = nullptr;
};
using MakeDriver =
    std::function<Result<std::unique_ptr<driver::TaskDriver>>(DriverRequest)>;
using OpenTaskLog = std::function<Result<std::unique_ptr<driver::LogReader>>(
    const driver::LogRequest&)>;
// Returns the directories of the tasks that run in the allocation, whatever
// state directory their driver has.
using FindTasks = std::function<Result<std::vector<std::string>>(
    const std::string& allocation)>;

// Shared by all commands: the global flags, and the command that the command
// line chose. The program runs that command after parsing.
struct Context {
  ClientOptions options;
  bool json = false;
  std::string state;  // of tasks; "": StatePath's default
  std::string runtime = "crun";
  MakeDriver make_driver;
  OpenTaskLog open_log;
  FindTasks find_tasks;  // null: no driver but --state's has tasks
  std::vector<std::string> command{};  // the words after "--"
  std::function<int()> chosen;
};

// Each adds its commands to the application. `context` must outlive the
// application.
void AddJobCommands(CLI::App& app, Context& context);
void AddAllocationCommands(CLI::App& app, Context& context);
void AddVolumeCommands(CLI::App& app, Context& context);
void AddTreeCommand(CLI::App& app, Context& context);
void AddReconcileCommand(CLI::App& app, Context& context);
void AddDrainCommand(CLI::App& app, Context& context);
void AddTaskCommands(CLI::App& app, Context& context);
void AddPsCommand(CLI::App& app, Context& context);
void AddTaskControlCommands(CLI::App& app, Context& context);
void AddExecCommand(CLI::App& app, Context& context);
void AddWatchCommand(CLI::App& app, Context& context);
// Adds `task` with its commands.
void AddTaskCommand(CLI::App& app, Context& context);
void AddLeaseCommands(CLI::App& app, Context& context);
void AddPluginCommands(CLI::App& app, Context& context);
void AddNetworkCommands(CLI::App& app, Context& context);
void AddNodeCommands(CLI::App& app, Context& context);
void AddGrantsCommand(CLI::App& app, Context& context);
void AddDoctorCommand(CLI::App& app, Context& context);
void AddMetricsCommand(CLI::App& app, Context& context);
void AddFileTreeCommands(CLI::App& app, Context& context);
void AddToolCommands(CLI::App& app, Context& context);

// Each adds its commands to the command `volume`.
void AddVolumeControlCommands(CLI::App& volume, Context& context);
void AddSnapshotCommands(CLI::App& volume, Context& context);

// Connects and runs `body`. Prints an error of either to stderr and returns the
// exit status.
int WithClient(const Context& context,
               const std::function<Result<void>(Client&)>& body);

Result<UniqueFd> OpenPidfd(pid_t pid);

// Prints the error to stderr and returns its exit status.
int Fail(const Error& error);

}  // namespace mountd::agent
