// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-start [--quick] [--json FILE]: measures how long the first
// caller of a mountd that does not run waits for an answer, beside a program
// that does nothing.
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench_main.h"
#include "tests/support/node/node.h"

namespace mountd::bench {
namespace {

// Runs the program to its end, and fails unless it succeeds.
Result<void> RunToEnd(std::vector<std::string> words) {
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  pid_t child = -1;
  const int failed = ::posix_spawn(&child, pointers.front(), &actions, nullptr,
                                   pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    return ErrnoError(failed, "posix_spawn", words.front());
  }
  int status = 0;
  if (::waitpid(child, &status, 0) < 0 || status != 0) {
    return MakeError(Code::kInternal, "run", words.front());
  }
  return Ok();
}

bool NoneRuns() {
  return testing::Node::Processes("mountd").empty() &&
         testing::Node::Processes("mountd-exec").empty();
}

// Stops mountd as it stops for want of work, or as systemctl(1) stops it. This
// is a clean end, so nothing starts mountd again until somebody calls.
Result<void> Stop() {
  for (const UniqueFd& process : testing::Node::Processes("mountd")) {
    ::syscall(SYS_pidfd_send_signal, process.get(), SIGTERM, nullptr, 0);
    pollfd entry = {process.get(), POLLIN, 0};
    ::poll(&entry, 1, -1);
  }
  for (int tries = 0; tries < 500 && !NoneRuns(); ++tries) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  // Waits longer than the launcher does before it starts a failed daemon again.
  // A daemon that runs after this runs without a call, and that is an error.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  return NoneRuns() ? Ok()
                    : Result<void>(MakeError(Code::kInternal, "stop", "mountd",
                                             "it runs without a call"));
}

struct Times {
  Samples nothing;
  Samples version;
  Samples check;
  Samples executor;
  Samples first;
  Samples connected;
};

Result<void> ConnectAndCall(const World& world) {
  MOUNTD_ASSIGN(agent::Client client, world.Connect());
  return EmptyCall(client);
}

Result<void> Round(const World& world, Times& times) {
  MOUNTD_TRY(Stop());
  MOUNTD_TRY(Time(times.nothing, [] { return RunToEnd({"/bin/true"}); }));
  MOUNTD_TRY(Time(times.version, [] {
    return RunToEnd({DAEMON, "--version"});
  }));
  MOUNTD_TRY(Time(times.check, [] { return RunToEnd({DAEMON, "--check"}); }));
  MOUNTD_TRY(Time(times.executor, [] { return World::FirstPlan(); }));
  MOUNTD_TRY(Time(times.first, [&] { return ConnectAndCall(world); }));
  return Time(times.connected, [&] { return ConnectAndCall(world); });
}

Result<void> MeasureStart(const World& world, Report& report, int rounds) {
  // The first round only warms up.
  Times unused;
  MOUNTD_TRY(Round(world, unused));
  Times times;
  for (int i = 0; i < rounds; ++i) {
    MOUNTD_TRY(Round(world, times));
  }
  report.Row("/bin/true", "program", {{"whole", times.nothing}});
  report.Row("mountd --version", "program", {{"whole", times.version}});
  report.Row("mountd --check", "program", {{"whole", times.check}});
  report.Row("an executor's first plan", "activated",
             {{"whole", times.executor}});
  report.Row("mountd's first answer", "activated", {{"whole", times.first}});
  report.Row("the same once it runs", "mountd", {{"whole", times.connected}});
  std::printf("\n");
  const double nothing = times.nothing.Median();
  report.Ratio("start.first_answer_vs_exec_true",
               times.first.Median() / nothing, 15, false);
  report.Ratio("start.version_vs_exec_true", times.version.Median() / nothing,
               0, false);
  report.Ratio("start.executor_vs_exec_true", times.executor.Median() / nothing,
               0, false);
  return Ok();
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  return mountd::bench::RunBench(
      argc, argv, [](auto& world, auto& /*client*/, auto& report, bool quick) {
        return mountd::bench::MeasureStart(world, report, quick ? 20 : 100);
      });
}
