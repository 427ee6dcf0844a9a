// SPDX-License-Identifier: LGPL-2.1-or-later
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "agent/driver/logs/log_reader.h"
#include "agent/driver/oci/oci_driver.h"
#include "agent/mountctl/commands/call_names.h"
#include "agent/mountctl/commands/command_line.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/commands/task_access.h"

namespace mountd::agent {
namespace {

constexpr char kFooter[] = R"(
Examples:
  mountctl run agent/examples/web.toml     set up an allocation
  mountctl status                          show what this node has
  mountctl status web --json               show an allocation as JSON
  mountctl mount web server logs --source host:logs --propagation host-to-task
  mountctl volume create csi-local data --capacity 10GiB
  mountctl volume snapshot create csi-local VOLUME nightly
  mountctl stop web                        release it; prints the receipt
  mountctl run agent/examples/task.toml    set up an allocation with a task
  mountctl exec -it web/server -- sh       run a shell in a task
  mountctl task run --image oci:/srv/images/web --port 8080:80 --rm
  mountctl call PrepareAllocation '["web", {"scope": "test"}]'

Exit status:
  0  the command succeeded
  1  mountd refused or failed; stderr has org.mountd1.Error.<Name>: <reason>
  2  the command line or a file given on it is wrong; mountd got no call
exec and task run have the status of their command instead, or 125 to 127.)";

void AddGlobalFlags(CLI::App& app, Context& context, unsigned& patience_ms,
                    unsigned& timeout_s) {
  app.add_flag("--json", context.json, "Print JSON instead of tables")
      ->group("Global options");
  app.add_option("--address", context.options.address,
                 "Connect to mountd at this address (default "
                 "unix:path=/run/mountd/bus)")
      ->envname("MOUNTD_ADDRESS")
      ->type_name("ADDR")
      ->group("Global options");
  app.add_flag("--bus", context.options.system_bus,
               "Connect over the system bus instead of --address")
      ->group("Global options");
  app.add_flag("--interactive", context.options.interactive,
               "Connect over the system bus, and let polkit ask for a password "
               "where a call needs an administrator")
      ->group("Global options");
  app.add_flag("--all-users", context.options.all_users,
               "List and retry what all users have; fail unless you are an "
               "administrator")
      ->group("Global options");
  AddNameOptions(app, context);
  app.add_option("--patience", patience_ms,
                 "Let mountd work so many milliseconds on a call before it "
                 "answers InProgress (default 0: as configured)")
      ->check(CLI::Range(0U, 20'000U).description(""))
      ->type_name("MS")
      ->group("Global options");
  app.add_option("--timeout", timeout_s,
                 "Wait so many seconds for calls in progress (default 300; 0: "
                 "return InProgress at once)")
      ->check(CLI::Range(0U, 86'400U).description(""))
      ->type_name("SECONDS")
      ->group("Global options");
}

void AddTaskOptions(CLI::App& app, Context& context) {
  app.add_option("--state", context.state,
                 "Keep what tasks need in this directory (default "
                 "$XDG_STATE_HOME/mountd, or ~/.local/state/mountd)")
      ->type_name("DIR")
      ->group("Global options");
  app.add_option("--runtime", context.runtime,
                 "Run tasks by this OCI runtime: crun, runc or a path (default "
                 "crun)")
      ->envname("MOUNTCTL_RUNTIME")
      ->type_name("PROGRAM")
      ->group("Global options");
}

Result<std::unique_ptr<driver::TaskDriver>> MakeTaskDriver(
    DriverRequest request) {
  driver::OciDriverOptions options;
  options.state = std::move(request.state);
  options.runtime = std::move(request.runtime);
  options.cgroup = std::move(request.cgroup);
  options.client = request.client;
  // MOUNTCTL_SHIM names the shim of a build that is not installed.
  if (const char* shim = ::secure_getenv("MOUNTCTL_SHIM"); shim != nullptr) {
    options.shim = shim;
  }
  return driver::MakeOciDriver(std::move(options));
}

// Adds the commands in the order in which the help lists them.
void AddCommands(CLI::App& app, Context& context) {
  AddJobCommands(app, context);
  AddReconcileCommand(app, context);
  AddDrainCommand(app, context);
  AddAllocationCommands(app, context);
  AddFileTreeCommands(app, context);
  AddPsCommand(app, context);
  AddTaskControlCommands(app, context);
  AddExecCommand(app, context);
  AddTaskCommand(app, context);
  AddWatchCommand(app, context);
  AddTaskCommands(app, context);
  AddLeaseCommands(app, context);
  AddPluginCommands(app, context);
  AddNetworkCommands(app, context);
  AddNodeCommands(app, context);
  AddGrantsCommand(app, context);
  AddDoctorCommand(app, context);
  AddMetricsCommand(app, context);
  AddToolCommands(app, context);
}

int Main(int argc, char** argv) {
  Context context;
  context.make_driver = &MakeTaskDriver;
  context.open_log = &driver::OpenLog;
  context.find_tasks = &driver::DirectoriesOfRunningTasks;
  unsigned patience_ms = 0;
  unsigned timeout_s = 300;
  CLI::App app(
      "mountctl: ask mountd for volumes, mounts and networks of allocations",
      "mountctl");
  app.require_subcommand(1);
  app.fallthrough();
  app.set_help_all_flag("--help-all", "Show the help of every command");
  AddGlobalFlags(app, context, patience_ms, timeout_s);
  AddTaskOptions(app, context);
  AddCommands(app, context);
  app.footer(kFooter);  // now, so that the commands do not inherit it
  try {
    ReadCommandLine(app, context, {argv + std::min(argc, 1), argv + argc});
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kExitOk : kExitUsage;
  }
  TakeTraceOfEnvironment(context);
  context.options.patience = std::chrono::milliseconds(patience_ms);
  context.options.deadline = std::chrono::seconds(timeout_s);
  context.options.join = timeout_s > 0;
  context.options.system_bus |= context.options.interactive;
  // A watcher inherits the variable and runs in "/", so the path must be
  // absolute.
  if (const char* shim = ::secure_getenv("MOUNTCTL_SHIM"); shim != nullptr) {
    if (const auto path = AbsolutePath(shim)) {
      ::setenv("MOUNTCTL_SHIM", path->c_str(), 1);
    }
  }
  return context.chosen ? context.chosen() : kExitUsage;
}

}  // namespace
}  // namespace mountd::agent

int main(int argc, char** argv) { return mountd::agent::Main(argc, argv); }
