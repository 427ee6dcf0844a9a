// SPDX-License-Identifier: LGPL-2.1-or-later
//
// `mountctl watch`, the process that restarts the tasks of one job.
#include <poll.h>

#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <utility>

#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/tasks/watcher.h"
#include "mountd/base/boot_clock.h"

namespace mountd::agent {
namespace {

BootTime NowSinceBoot() {
  return std::chrono::duration_cast<BootTime>(
      std::chrono::microseconds(BootMicroseconds()));
}

// Waits for mountd without a limit, because mountd may be restarting, and the
// tasks run meanwhile.
Client AwaitMountd(const ClientOptions& options) {
  constexpr int kPauseMs = 2000;
  for (;;) {
    Result<Client> client = Client::Connect(options);
    if (client) {
      return *std::move(client);
    }
    (void)::poll(nullptr, 0, kPauseMs);
  }
}

Result<void> WatchJob(const Context& context, const std::string& allocation,
                      UniqueFd watch) {
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  MOUNTD_ASSIGN(JobDirectory directory, JobDirectory::Open(state, allocation));
  if (!watch.valid()) {
    MOUNTD_ASSIGN(std::optional<UniqueFd> taken, directory.TakeWatch());
    if (!taken) {
      return Ok();
    }
    watch = *std::move(taken);
  }
  Client client = AwaitMountd(context.options);
  MOUNTD_ASSIGN(const auto driver, DriverOf(context, directory, &client));
  return Watcher(*driver, std::move(directory), &NowSinceBoot)
      .Run(std::move(watch));
}

}  // namespace

void AddWatchCommand(CLI::App& app, Context& context) {
  struct Options {
    std::string allocation;
    int lock = -1;
  };
  auto* command = app.add_subcommand(
      "watch", "Restart the tasks of an allocation, as `run` makes it do");
  command->group("");  // hidden: `run` starts it
  auto options = std::make_shared<Options>();
  command->add_option("ALLOC", options->allocation, "The allocation's id")
      ->required();
  command->add_option("--lock", options->lock, "The fd of the watcher's lock");
  command->callback([&context, options] {
    context.chosen = [&context, options] {
      const auto done =
          WatchJob(context, options->allocation, UniqueFd(options->lock));
      return done ? kExitOk : Fail(done.error());
    };
  });
}

}  // namespace mountd::agent
