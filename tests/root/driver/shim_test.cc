// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-task-shim with real containers of an ordinary user.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <thread>
#include <vector>

#include "agent/driver/protocol/task_files.h"
#include "tests/root/driver/shim_fixture.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using shim::Kind;
using shim::Message;
using shim::State;
using shim::Tag;

class TaskShim : public ShimFixture {};

TEST_F(TaskShim, RunsATaskAndTellsItsExit) {
  const Task task = Run("web", "exit 43");
  EXPECT_EQ(WaitFor(task), "code 43");
  // A caller after the exit gets the same, and so does one after the shim.
  EXPECT_EQ(WaitFor(task), "code 43");
  const auto record = shim::ReadExit(task.directory_fd.get());
  ASSERT_TRUE(record) << record.error().Message();
  EXPECT_EQ(record->kind(), Kind::kExited);
  EXPECT_EQ(record->Number(Tag::kExitCode), 43U);
  EXPECT_EQ(Delete(task, false), "Ok");
  EXPECT_FALSE(fs::exists("/run/tasks/runtime/web"));
  EXPECT_FALSE(fs::exists(task.directory + "/" + shim::kSocketFile));
  EXPECT_TRUE(fs::exists(task.directory + "/" + shim::kExitFile));
  EXPECT_FALSE(IsPopulated("web"));
}

TEST_F(TaskShim, StartsNothingBeforeTheDriverSaysSo) {
  Task task = Create("web", "exit 7");
  auto status = Ask(task, Kind::kGetStatus);
  ASSERT_TRUE(status) << status.error().Message();
  EXPECT_EQ(status->message.Number(Tag::kState),
            static_cast<std::uint64_t>(State::kCreated));
  // The driver shows this pidfd to mountd's VerifyTask.
  ASSERT_EQ(status->fds.size(), 1U);
  EXPECT_TRUE(IsPopulated("web"));
  Start(task);
  // A driver that was killed before the answer calls again.
  EXPECT_EQ(WaitFor(task), "code 7");
}

TEST_F(TaskShim, TellsSeveralWaitersTheSameExit) {
  const Task task = Run("web", "exec sleep 1000");
  std::vector<std::string> exits(4);
  {
    std::vector<std::jthread> waiters;
    for (std::string& exit : exits) {
      waiters.emplace_back([&] { exit = WaitFor(task); });
    }
    EXPECT_EQ(ExitOf(Stop(task, SIGKILL, 0)), "signal 9");
  }
  EXPECT_EQ(exits, std::vector<std::string>(4, "signal 9"));
}

TEST_F(TaskShim, KillsATaskThatIgnoresItsStopSignal) {
  const Task task = Run("web", "exec sleep 1000");
  // The first process of a pid namespace has no default action for SIGTERM.
  EXPECT_EQ(ExitOf(Stop(task, SIGTERM, 200)), "signal 9");
  EXPECT_EQ(Delete(task, false), "Ok");
}

TEST_F(TaskShim, StopsATaskBySignal) {
  const Task task =
      Run("web", "trap 'exit 5' TERM; while :; do sleep 0.01; done");
  Message signal(Kind::kSignal);
  signal.Add(Tag::kSignalNumber, std::uint64_t{SIGTERM});
  // The shell may not have its handler yet.
  auto connection = Connect(task);
  EXPECT_TRUE(Eventually([&] {
    const auto sent = connection.Call(signal, {}, kSoon);
    const auto status = Ask(task, Kind::kGetStatus);
    return !sent || status->message.Number(Tag::kState) ==
                        static_cast<std::uint64_t>(State::kExited);
  }));
  EXPECT_EQ(WaitFor(task), "code 5");
  const auto again = connection.Call(signal, {}, kSoon);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().code, Code::kFailedPrecondition);
}

TEST_F(TaskShim, DeletesARunningTaskOnlyByForce) {
  const Task task = Run("web", "exec sleep 1000");
  EXPECT_EQ(Delete(task, false), "delete the task: is still there; stop it");
  EXPECT_EQ(Delete(task, true), "Ok");
  EXPECT_FALSE(IsPopulated("web"));
  EXPECT_FALSE(fs::exists("/run/tasks/runtime/web"));
}

TEST_F(TaskShim, SaysWhyAContainerCannotBeMade) {
  const Task task = MakeTask("web");
  auto launch = MakeLaunch(task, "exit 0");
  ASSERT_EQ(::unlink((task.directory + "/bundle/config.json").c_str()), 0);
  auto shim = shim::LaunchShim(std::move(launch));
  ASSERT_TRUE(shim) << shim.error().Message();
  const auto created = shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().Message(), ::testing::HasSubstr("config.json"));
  // A driver that has restarted meanwhile finds the same words.
  const auto record = shim::ReadExit(task.directory_fd.get());
  ASSERT_TRUE(record) << record.error().Message();
  EXPECT_EQ(record->kind(), Kind::kFailed);
  EXPECT_EQ(record->ToError().Message(), created.error().Message());
  EXPECT_TRUE(Eventually([&] { return !IsPopulated("web"); }));
}

TEST_F(TaskShim, OutlivesItsDriver) {
  const Task task = MakeTask("web");
  const auto launch = MakeLaunch(task, "sleep 0.3; exit 6");
  const pid_t driver = ::fork();
  if (driver == 0) {
    auto shim = shim::LaunchShim(launch);
    const bool is_started = shim && shim->Call(Message(Kind::kAwaitCreated)) &&
                            shim->Call(Message(Kind::kStart));
    if (is_started) {
      ::raise(SIGKILL);
    }
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(driver, &status, 0), driver);
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WaitFor(task), "code 6");
}

// A second thread would double the memory of each shim, and fork(2) would copy
// the locks that such a thread holds.
TEST_F(TaskShim, HasOneThreadWhateverItDoes) {
  Task task = MakeTask("web");
  auto launch = MakeLaunch(task, "while :; do echo out; echo err >&2; done");
  launch.create
      .Add(Tag::kStdoutSink, static_cast<std::uint64_t>(shim::Sink::kFiles))
      .Add(Tag::kStderrSink, static_cast<std::uint64_t>(shim::Sink::kFiles))
      .Add(Tag::kStdoutPath, task.directory + "/logs/out")
      .Add(Tag::kStderrPath, task.directory + "/logs/err")
      .Add(Tag::kLogFileBytes, std::uint64_t{4096})
      .Add(Tag::kLogFiles, std::uint64_t{2});
  auto launched = shim::LaunchShim(std::move(launch));
  ASSERT_TRUE(launched) << launched.error().Message();
  task.shim.emplace(*std::move(launched));
  ASSERT_TRUE(task.shim->Call(Message(Kind::kAwaitCreated), {}, kSoon));
  const std::string shim = std::to_string(ShimOf(task));
  const auto threads = [&shim] {
    return std::distance(fs::directory_iterator("/proc/" + shim + "/task"), {});
  };
  EXPECT_EQ(threads(), 1);
  Start(task);
  EXPECT_TRUE(Eventually([&] {
    EXPECT_EQ(threads(), 1);
    return fs::exists(task.directory + "/logs/out.20");
  }));
  EXPECT_EQ(ExitOf(Stop(task, SIGKILL, 0)), "signal 9");
  EXPECT_EQ(threads(), 1);
  EXPECT_EQ(Delete(task, false), "Ok");
}

TEST_F(TaskShim, LeavesTheTaskRunningIfItIsKilled) {
  const Task task = Run("web", "exec sleep 1000");
  const pid_t init = InitOf(task);
  ASSERT_EQ(::kill(ShimOf(task), SIGKILL), 0);
  EXPECT_TRUE(Eventually(
      [&] { return !shim::ShimConnection::Open(task.directory_fd.get()); }));
  // The task is found by its cgroup, and its exit is lost.
  EXPECT_EQ(::kill(init, 0), 0);
  EXPECT_TRUE(IsPopulated("web"));
  const auto record = shim::ReadExit(task.directory_fd.get());
  ASSERT_FALSE(record);
  EXPECT_EQ(record.error().code, Code::kNotFound);
  EXPECT_EQ(shim::ShimConnection::Open(task.directory_fd.get()).error().code,
            Code::kUnavailable);
}

}  // namespace
}  // namespace mountd::testing
