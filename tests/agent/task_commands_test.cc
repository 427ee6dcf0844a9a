// SPDX-License-Identifier: LGPL-2.1-or-later
// The commands about tasks, with a fake Manager and a fake driver.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "agent/mountctl/commands/command_line.h"
#include "agent/mountctl/commands/commands.h"
#include "agent/mountctl/commands/exec_task.h"
#include "agent/mountctl/commands/one_task.h"
#include "agent/mountctl/tasks/job_tasks.h"
#include "tests/agent/fake_manager.h"
#include "tests/agent/fake_task_driver.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

using driver::test::FakeTaskDriver;
using driver::test::FakeTasks;
using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

class TextReader : public driver::LogReader {
 public:
  explicit TextReader(std::string text) : text_(std::move(text)) {}
  Result<std::optional<std::string>> Read(
      std::chrono::milliseconds /*wait*/) override {
    return text_.empty() ? std::optional<std::string>()
                         : std::optional(std::exchange(text_, ""));
  }

 private:
  std::string text_;
};

// The log of a task that writes all the time.
class BusyReader : public driver::LogReader {
 public:
  Result<std::optional<std::string>> Read(
      std::chrono::milliseconds /*wait*/) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return ended_ ? std::optional<std::string>()
                  : std::optional<std::string>("x\n");
  }
  void WriterHasEnded() override { ended_ = true; }

 private:
  std::atomic<bool> ended_{false};
};

class TaskCommandsTest : public testing::Test {
 protected:
  struct Outcome {
    int status = 0;
    std::string out;
    std::string err;
  };

  Outcome Run(std::vector<std::string> arguments) {
    Context context;
    context.options.address = server_.address();
    if (deadline_) {
      context.options.deadline = *deadline_;
    }
    context.state = state_;
    context.runtime = runtime_;
    // Commands that read both streams call these two on two threads.
    context.make_driver = [this](const DriverRequest& request) {
      const std::lock_guard lock(mutex_);
      driver_request_ = request;
      return Result<std::unique_ptr<driver::TaskDriver>>(
          std::make_unique<FakeTaskDriver>(tasks_));
    };
    context.open_log = [this](const driver::LogRequest& request) {
      const std::lock_guard lock(mutex_);
      if (open_log_) {
        return open_log_(request);
      }
      return Result<std::unique_ptr<driver::LogReader>>(
          std::make_unique<TextReader>(
              request.task + (request.standard_error ? " err" : " out") +
              std::to_string(request.tail_lines.value_or(0)) + "\n"));
    };
    context.find_tasks = [this](const std::string& allocation) {
      return Result<std::vector<std::string>>(
          allocation == "web" ? running_ : std::vector<std::string>());
    };
    CLI::App app;
    app.add_flag("--json", context.json);
    app.add_flag("--join,!--once", context.options.join);
    app.fallthrough();
    AddJobCommands(app, context);
    AddDrainCommand(app, context);
    AddReconcileCommand(app, context);
    AddPsCommand(app, context);
    AddTaskControlCommands(app, context);
    AddExecCommand(app, context);
    AddTaskCommand(app, context);
    testing::internal::CaptureStdout();
    testing::internal::CaptureStderr();
    Outcome outcome;
    try {
      ReadCommandLine(app, context, std::move(arguments));
      outcome.status = context.chosen();
    } catch (const CLI::ParseError&) {
      outcome.status = kExitUsage;
    }
    outcome.out = testing::internal::GetCapturedStdout();
    outcome.err = testing::internal::GetCapturedStderr();
    return outcome;
  }

  // A task that runs. Its policy needs no watcher, which would be this program.
  void Start(const std::string& allocation, const std::string& name) {
    FakeTaskDriver driver(tasks_);
    const auto directory = JobDirectory::Make(state_, allocation);
    ASSERT_TRUE(directory);
    TaskSpec spec;
    spec.config.allocation = allocation;
    spec.config.name = name;
    spec.config.image = "dir:/i";
    spec.restart.attempts = 0;
    ASSERT_TRUE(JobTasks(driver, *directory).Start(spec, 0));
  }

  // Sends the signal once the task has started.
  std::thread SignalAfterStart(const std::string& task, int number) {
    return std::thread([this, task, number] {
      tasks_.AwaitStarts(task, 1);
      ::kill(::getpid(), number);
    });
  }

  // The directories of tasks that run in the allocation "web".
  std::vector<std::string> running_;
  OpenTaskLog open_log_;  // null: a text
  std::string runtime_ = "crun";
  std::optional<std::chrono::milliseconds> deadline_;  // nothing: the usual
  std::mutex mutex_;
  DriverRequest driver_request_;  // the newest one  // mutex_
  TempDirectory temp_;
  const std::string state_ = temp_.File("state");
  FakeServer server_;
  FakeTasks tasks_;
};

TEST_F(TaskCommandsTest, PsTellsStateAndReason) {
  EXPECT_EQ(Run({"ps"}).out, "mountctl runs no task\n");
  Start("web", "server");
  Start("web", "other");
  tasks_.End("web/other", {.exit_code = 3});
  const Outcome text = Run({"ps"});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.out, HasSubstr("web/server  running"));
  EXPECT_THAT(text.out, HasSubstr("exit code 3"));
  const json jobs = json::parse(Run({"ps", "web", "--json"}).out);
  EXPECT_EQ(jobs[0]["watched"], false);
  EXPECT_EQ(jobs[0]["lacks_watcher"], false);
  EXPECT_EQ(jobs[0]["tasks"].size(), 2U);
  tasks_.Reboot();
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("web/server  lost"));
  EXPECT_EQ(Run({"ps", "nothing"}).status, 1);
}

TEST_F(TaskCommandsTest, PsLooksAtTasksOfCommandsThatWereKilled) {
  Start("web", "server");
  const auto directory = JobDirectory::Open(state_, "web");
  ASSERT_TRUE(directory);
  TaskRecord record = directory->Read("server").value().value();
  record.phase = TaskPhase::kStopped;
  ASSERT_TRUE(directory->Write(record));
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("running"));
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("its stop was cut off"));
  record.phase = TaskPhase::kStarting;
  ASSERT_TRUE(directory->Write(record));
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("its start was cut off"));
  const auto lock = directory->Lock();
  ASSERT_TRUE(lock);
  EXPECT_THAT(Run({"ps"}).out, testing::Not(HasSubstr("cut off")));
}

TEST_F(TaskCommandsTest, ABadFileHidesNoOtherTask) {
  Start("web", "server");
  Start("db", "one");
  std::ofstream(state_ + "/jobs/README") << "x";
  std::ofstream(state_ + "/jobs/db/bad.json") << "{}";
  ASSERT_EQ(::mkdir((state_ + "/jobs/open").c_str(), 0700), 0);
  ASSERT_EQ(::chmod((state_ + "/jobs/open").c_str(), 0777), 0);
  const Outcome text = Run({"ps"});
  EXPECT_EQ(text.status, 1);
  EXPECT_THAT(text.out, HasSubstr("web/server  running"));
  EXPECT_THAT(text.out, HasSubstr("db/one"));
  EXPECT_THAT(text.out, HasSubstr("/jobs/db/bad.json"));
  EXPECT_THAT(text.out, HasSubstr("/jobs/open"));
  EXPECT_THAT(text.err, HasSubstr("/jobs/db/bad.json"));
  EXPECT_EQ(Run({"exec", "server", "--", "say"}).status, 0);
  EXPECT_THAT(Run({"task", "stats"}).out, HasSubstr("web/server"));
  // Nobody knows whether the task of the bad record runs.
  EXPECT_EQ(Run({"stop", "db"}).status, 1);
  EXPECT_EQ(tasks_.running("db/one"), 0U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 0U);
}

TEST_F(TaskCommandsTest, PsSaysThatNobodyRestartsTasks) {
  Start("web", "server");
  const auto directory = JobDirectory::Open(state_, "web");
  ASSERT_TRUE(directory);
  TaskRecord record = directory->Read("server").value().value();
  record.spec.restart.attempts = 1;
  ASSERT_TRUE(directory->Write(record));
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("web: nobody restarts these tasks"));
  const auto watch = directory->TakeWatch();
  ASSERT_TRUE(watch && *watch);
  EXPECT_THAT(Run({"ps"}).out, testing::Not(HasSubstr("nobody")));
}

TEST_F(TaskCommandsTest, ATaskIsNamedInFullOrByAUniqueName) {
  Start("web", "server");
  Start("db", "server");
  Start("db", "one");
  EXPECT_EQ(Run({"signal", "one", "SIGHUP"}).status, 0);
  EXPECT_EQ(Run({"signal", "web/server", "SIGHUP"}).status, 0);
  const Outcome both = Run({"signal", "server", "SIGHUP"});
  EXPECT_EQ(both.status, 1);
  EXPECT_THAT(both.err, HasSubstr("name it as ALLOCATION/NAME"));
  EXPECT_THAT(Run({"signal", "none", "SIGHUP"}).err, HasSubstr("NotFound"));
  EXPECT_THAT(Run({"signal", "../x/y", "SIGHUP"}).err,
              HasSubstr("InvalidArgument"));
  tasks_.End("db/one", {});
  EXPECT_THAT(Run({"signal", "one", "SIGHUP"}).err,
              HasSubstr("FailedPrecondition"));
}

TEST_F(TaskCommandsTest, ExecPassesTheStatusOn) {
  Start("web", "server");
  EXPECT_EQ(Run({"exec", "server", "--", "exit", "43"}).status, 43);
  EXPECT_EQ(Run({"exec", "server", "--", "kill", "9"}).status, 137);
  EXPECT_EQ(Run({"exec", "server", "--", "fail"}).status, 125);
  EXPECT_EQ(Run({"exec", "none", "--", "exit"}).status, 125);
  EXPECT_EQ(Run({"exec", "server", "--", "missing"}).status, 127);
  EXPECT_EQ(Run({"exec", "server", "--", "denied"}).status, 126);
  EXPECT_EQ(Run({"exec", "server"}).status, 2);
  EXPECT_EQ(Run({"exec", "web/server", "--", "say"}).out, "say \n");
}

TEST_F(TaskCommandsTest, ExecChangesNoWordOfTheCommand) {
  Start("web", "server");
  EXPECT_EQ(Run({"exec", "server", "--", "say", "[a,b]", "[ -e /x ]", "[]", "",
                 "--", "-t", "exec"})
                .out,
            "say [a,b] [ -e /x ] []  -- -t exec \n");
  EXPECT_EQ(Run({"exec", "server", "say", "--", "[a]"}).out, "say [a] \n");
  EXPECT_EQ(Run({"exec", "server", "--"}).status, 2);
  EXPECT_EQ(Run({"task", "run", "-i", "--image", "dir:/i", "--name", "exec",
                 "--", "say", "[b]"})
                .out,
            "say [b] \n");
  // Other commands read their words as ever.
  EXPECT_EQ(Run({"stop", "--", "exec"}).status, 0);
}

TEST_F(TaskCommandsTest, ExecToAClosedPipeEndsAsBySigpipe) {
  Start("web", "server");
  const Outcome outcome = Run({"exec", "server", "--", "epipe"});
  EXPECT_EQ(outcome.status, 128 + SIGPIPE);
  EXPECT_EQ(outcome.err, "");
}

TEST_F(TaskCommandsTest, LogsPrintsBothStreamsUnlessOneIsAskedFor) {
  Start("web", "server");
  const Outcome both = Run({"logs", "server"});
  EXPECT_EQ(both.out, "server out0\n");
  EXPECT_EQ(both.err, "server err0\n");
  const Outcome one = Run({"logs", "--stderr", "--tail", "3", "server"});
  EXPECT_EQ(one.out, "server err3\n");
  EXPECT_EQ(one.err, "");
  EXPECT_EQ(Run({"logs", "--stdout", "server"}).err, "");
}

TEST_F(TaskCommandsTest, RestartEndsTheTaskAndStartsItOnce) {
  Start("web", "server");
  const Outcome outcome = Run({"restart", "server"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(tasks_.calls(),
              ElementsAre("start web/server", "stop web/server  5000",
                          "destroy web/server", "start web/server"));
}

TEST_F(TaskCommandsTest, StopEndsTasksBeforeItReleases) {
  Start("web", "server");
  const Outcome outcome = Run({"stop", "web"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(tasks_.running("web/server"), 0U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
  EXPECT_EQ(Run({"ps"}).out, "mountctl runs no task\n");
  // An allocation without tasks is released as ever.
  EXPECT_EQ(Run({"stop", "web"}).status, 0);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 2U);
}

TEST_F(TaskCommandsTest, StopKeepsAnAllocationWhoseTaskAnotherStateRuns) {
  Start("web", "server");
  running_ = {state_ + "/tasks/tasks/0", temp_.File("other/tasks/tasks/1")};
  for (const std::string& directory : running_) {
    std::filesystem::create_directories(directory);
  }
  const Outcome refused = Run({"stop", "web"});
  EXPECT_EQ(refused.status, 1);
  EXPECT_THAT(refused.err, HasSubstr("mountctl --state " + temp_.File("other") +
                                     " stop web"));
  EXPECT_EQ(tasks_.running("web/server"), 1U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 0U);
  running_.pop_back();
  EXPECT_EQ(Run({"stop", "web"}).status, 0);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
  // A state without a job of the allocation is no exception.
  running_ = {temp_.File("other/tasks/tasks/1")};
  EXPECT_EQ(Run({"stop", "web"}).status, 1);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
}

TEST_F(TaskCommandsTest, ErrorsNameTheStateThatHasNoSuchJob) {
  EXPECT_THAT(Run({"ps", "nothing"}).err, HasSubstr(state_));
  EXPECT_THAT(Run({"logs", "nothing"}).err, HasSubstr(state_));
  EXPECT_THAT(Run({"exec", "nothing/x", "--", "true"}).err, HasSubstr(state_));
  server_.script().Fail("ReleaseAllocation",
                        {"org.mountd1.Error.NotFound", "no such allocation"});
  EXPECT_THAT(Run({"stop", "nothing"}).err, HasSubstr(state_));
}

TEST_F(TaskCommandsTest, StopTellsThatItWaits) {
  Start("web", "server");
  const auto directory = JobDirectory::Open(state_, "web");
  ASSERT_TRUE(directory);
  auto lock = directory->Lock();
  ASSERT_TRUE(lock);
  const Outcome at_once = Run({"--once", "stop", "web"});
  EXPECT_EQ(at_once.status, 1);
  EXPECT_THAT(at_once.err, HasSubstr("Unavailable"));
  deadline_ = std::chrono::seconds(2);
  const Outcome waited = Run({"stop", "web"});
  EXPECT_EQ(waited.status, 1);
  EXPECT_THAT(waited.err, HasSubstr("waits for another mountctl"));
  EXPECT_THAT(waited.err, HasSubstr("Unavailable"));
  deadline_.reset();
  lock->reset();
  const Outcome later = Run({"stop", "web"});
  EXPECT_EQ(later.status, 0) << later.err;
}

TEST_F(TaskCommandsTest, StopEndsTasksWithoutMountd) {
  Start("web", "server");
  server_.Stop();
  const Outcome outcome = Run({"stop", "web"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("the tasks have ended"));
  EXPECT_EQ(tasks_.running("web/server"), 0U);
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("stopped"));
  server_.Start();
  EXPECT_EQ(Run({"stop", "web"}).status, 0);
}

TEST_F(TaskCommandsTest, DrainEndsTasksBeforeItReleases) {
  Start("web", "server");
  Run({"--once", "drain"});
  EXPECT_EQ(tasks_.running("web/server"), 0U);
  EXPECT_GE(server_.script().count("ReleaseAllocation"), 1U);
  EXPECT_EQ(Run({"ps"}).out, "mountctl runs no task\n");
}

TEST_F(TaskCommandsTest, ReconcileKeepsAllocationsWhoseTasksRun) {
  Start("web", "server");
  Start("db", "ended");
  tasks_.End("db/ended", {.exit_code = 1});
  const auto db = JobDirectory::Open(state_, "db");
  ASSERT_TRUE(db);
  TaskRecord record = db->Read("ended").value().value();
  record.phase = TaskPhase::kFailed;
  ASSERT_TRUE(db->Write(record));
  const Outcome outcome = Run({"reconcile", "mine", "--epoch", "5"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(server_.script().last_call(), HasSubstr("[] 5 mine web "));
}

TEST_F(TaskCommandsTest, BracketsOfAListStay) {
  const Outcome outcome = Run({"reconcile", "[web]", "[a,b]", "\x01[c]",
                               "--scope", "[s]", "--epoch", "5"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(server_.script().last_call(),
              HasSubstr("[[s]] 5 [web] [a,b] \x01[c] "));
}

TEST_F(TaskCommandsTest, AReleaseThatFailsKeepsTheJob) {
  Start("web", "server");
  server_.script().Fail("ReleaseAllocation",
                        {"org.mountd1.Error.Busy", "held"});
  EXPECT_EQ(Run({"stop", "web"}).status, 1);
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("stopped"));
  EXPECT_EQ(Run({"stop", "web"}).status, 0);
}

TEST_F(TaskCommandsTest, PathsHoldInEveryDirectory) {
  std::ofstream(temp_.File("job.toml"))
      << "[allocation]\nid = 'web'\n[[task]]\nname = 'server'\n"
         "image = 'dir:/i'\nrestart = { attempts = 0 }\n";
  ASSERT_EQ(::mkdir(temp_.File("group").c_str(), 0700), 0);
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(temp_.File(""));
  runtime_ = "./crun";
  const Outcome outcome = Run({"run", "job.toml", "--cgroup", "group"});
  std::filesystem::current_path(before);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(driver_request_.cgroup, testing::StartsWith("/"));
  EXPECT_THAT(driver_request_.cgroup, testing::EndsWith("/group"));
  EXPECT_THAT(driver_request_.runtime, testing::StartsWith("/"));
}

TEST_F(TaskCommandsTest, RunTellsLimitsThatItLeavesOut) {
  const std::string file = temp_.File("job.toml");
  std::ofstream(file) << "[allocation]\nid = 'web'\n[[task]]\nname = 'server'\n"
                         "image = 'dir:/i'\nrestart = { attempts = 0 }\n"
                         "resources = { memory = 4096, pids = 3 }\n";
  tasks_.SetControllers("cpu memory");
  const Outcome text = Run({"run", file});
  EXPECT_EQ(text.status, 0) << text.err;
  EXPECT_THAT(text.err, HasSubstr("server: pids is not limited"));
  EXPECT_THAT(text.err, testing::Not(HasSubstr("memory")));
  tasks_.SetControllers(std::nullopt);
  const json out = json::parse(Run({"run", file, "--json"}).out);
  EXPECT_EQ(out["warnings"].size(), 2U);
  const Outcome unusable = Run({"run", file, "--cgroup", temp_.File("")});
  EXPECT_EQ(unusable.status, 1);
  EXPECT_THAT(unusable.err, HasSubstr("not delegated"));
}

TEST_F(TaskCommandsTest, TaskRunStartsOneTaskInAnAllocation) {
  const Outcome outcome = Run({"task", "run", "--image", "dir:/i", "--name",
                               "one", "-d", "--", "sleep", "1"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "one/one\n");
  EXPECT_EQ(tasks_.running("one/one"), 1U);
  EXPECT_THAT(Run({"task", "stats"}).out, HasSubstr("3 MiB"));
  const json stats = json::parse(Run({"task", "stats", "one", "--json"}).out);
  EXPECT_EQ(stats[0]["pids"], 2);
  EXPECT_FALSE(stats[0].contains("memory_swap"));
}

TEST_F(TaskCommandsTest, ATaskHasDirectoriesUntilItsStop) {
  server_.script().Fail("BindMount",
                        {"org.mountd1.Error.NotSupported", "no noswap"});
  ASSERT_EQ(
      Run({"task", "run", "--image", "dir:/i", "--name", "one", "-d"}).status,
      0);
  const auto config = tasks_.config("one/one");
  ASSERT_TRUE(config);
  const driver::TaskDirectories& directories = config->directories;
  EXPECT_TRUE(std::filesystem::is_directory(directories.alloc));
  EXPECT_TRUE(std::filesystem::is_directory(directories.local));
  EXPECT_EQ(directories.secrets, "/run/mountd/base/a/web/server/data");
  EXPECT_EQ(server_.script().count("BindMount"), 2U);
  EXPECT_THAT(server_.script().calls(),
              testing::Contains(HasSubstr("noswap=true")).Times(1));
  EXPECT_THAT(
      server_.script().calls(),
      testing::Contains(HasSubstr("one mountd.secrets tmpfs")).Times(2));
  ASSERT_EQ(Run({"stop", "one"}).status, 0);
  EXPECT_FALSE(std::filesystem::exists(directories.alloc));
  EXPECT_TRUE(std::filesystem::is_empty(state_ + "/jobs"));
}

TEST_F(TaskCommandsTest, AMountOfTheJobTakesTheTasksDirectory) {
  ASSERT_EQ(Run({"task", "run", "--image", "dir:/i", "--name", "one", "-d",
                 "--volume", "a:/alloc", "--volume", "b:/secrets"})
                .status,
            0);
  const auto config = tasks_.config("one/one");
  ASSERT_TRUE(config);
  EXPECT_EQ(config->directories.alloc, "");
  EXPECT_NE(config->directories.local, "");
  EXPECT_EQ(config->directories.secrets, "");
  EXPECT_EQ(server_.script().count("BindMount"), 2U);
}

TEST_F(TaskCommandsTest, TaskRunLooksForATerminalFirst) {
  const UniqueFd before(::dup(STDIN_FILENO));
  const UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::dup2(null.get(), STDIN_FILENO), STDIN_FILENO);
  const Outcome outcome =
      Run({"task", "run", "-it", "--image", "dir:/i", "--", "sh"});
  ::dup2(before.get(), STDIN_FILENO);
  EXPECT_EQ(outcome.status, 125);
  EXPECT_THAT(outcome.err, HasSubstr("no terminal"));
  EXPECT_TRUE(tasks_.calls().empty());
}

TEST_F(TaskCommandsTest, TaskRunTouchesNoOtherJob) {
  Start("web", "server");
  const Outcome outcome = Run({"task", "run", "--rm", "--name", "web",
                               "--image", "dir:/srv", "--", "true"});
  EXPECT_EQ(outcome.status, 125);
  EXPECT_THAT(outcome.err, HasSubstr("AlreadyExists"));
  EXPECT_EQ(tasks_.running("web/server"), 1U);
  EXPECT_THAT(tasks_.calls(), ElementsAre("start web/server"));
}

TEST_F(TaskCommandsTest, TaskRunOfACommandByExecReleasesAtTheEnd) {
  EXPECT_EQ(Run({"task", "run", "--image", "dir:/i", "--name", "one", "--rm",
                 "-i", "--", "exit", "5"})
                .status,
            5);
  EXPECT_EQ(tasks_.running("one/one"), 0U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
}

TEST_F(TaskCommandsTest, ARemovalOfAKilledRunIsFinishedLater) {
  Start("web", "server");
  const auto directory = JobDirectory::Open(state_, "web");
  ASSERT_TRUE(directory);
  TaskRecord record = directory->Read("server").value().value();
  record.spec.remove = true;
  ASSERT_TRUE(directory->Write(record));
  // The task runs, and then its mountctl lives.
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("web/server  running"));
  auto looks_after = directory->TakeWatch();
  ASSERT_TRUE(looks_after && *looks_after);
  tasks_.End("web/server", {.exit_code = 3});
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("web/server  exited"));
  // Somebody has killed mountctl, and mountd is away at first.
  looks_after = std::optional<UniqueFd>();
  server_.Stop();
  const Outcome away = Run({"ps"});
  EXPECT_EQ(away.status, 0);
  EXPECT_THAT(away.out, HasSubstr("web/server  exited"));
  EXPECT_THAT(away.err, HasSubstr("web is not yet released"));
  server_.Start();
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 0U);
  EXPECT_EQ(Run({"ps"}).out, "mountctl runs no task\n");
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
}

TEST_F(TaskCommandsTest, StopAndRunFinishTheRemovalsOfKilledRuns) {
  for (const std::string verb : {"stop", "run"}) {
    Start("web", "server");
    const auto directory = JobDirectory::Open(state_, "web");
    ASSERT_TRUE(directory);
    TaskRecord record = directory->Read("server").value().value();
    record.spec.remove = true;
    // As if mountctl had been killed before it knew of the start.
    record.phase = TaskPhase::kStarting;
    record.handle.config.id = "web/server/0";
    ASSERT_TRUE(directory->Write(record));
    if (verb == "stop") {
      EXPECT_EQ(Run({"stop", "other"}).status, 0);
    } else {
      EXPECT_EQ(Run({"task", "run", "--image", "dir:/i", "-d"}).status, 0);
    }
    EXPECT_FALSE(JobDirectory::Open(state_, "web")) << verb;
  }
}

// The record has the mark from the start on, so no moment of a kill loses it.
TEST_F(TaskCommandsTest, TaskRunMarksTheRemovalAndLooksAfterTheTask) {
  open_log_ = [this](const driver::LogRequest&) {
    const std::string job = ListJobs(state_)->at(0);
    const auto directory = JobDirectory::Open(state_, job);
    EXPECT_TRUE(directory);
    EXPECT_TRUE(directory->Read("main").value().value().spec.remove);
    EXPECT_TRUE(directory->IsWatched().value());
    tasks_.End(job + "/main", {});
    return Result<std::unique_ptr<driver::LogReader>>(
        std::make_unique<TextReader>(""));
  };
  EXPECT_EQ(Run({"task", "run", "--image", "dir:/i", "--rm"}).status, 0);
  EXPECT_TRUE(ListJobs(state_)->empty());
}

// Another agent of the user may have an allocation of that name by then.
TEST_F(TaskCommandsTest, NobodyFinishesTheRemovalOfAChosenName) {
  open_log_ = [this](const driver::LogRequest&) {
    const auto directory = JobDirectory::Open(state_, "one");
    EXPECT_TRUE(directory);
    EXPECT_FALSE(directory->Read("one").value().value().spec.remove);
    tasks_.End("one/one", {});
    return Result<std::unique_ptr<driver::LogReader>>(
        std::make_unique<TextReader>(""));
  };
  EXPECT_EQ(
      Run({"task", "run", "--image", "dir:/i", "--name", "one", "--rm"}).status,
      0);
}

TEST_F(TaskCommandsTest, ARunThatWasKilledBeforeItsRecordIsFinishedLater) {
  ASSERT_TRUE(JobDirectory::Make(state_, "task-0123abcd"));
  ASSERT_TRUE(JobDirectory::Make(state_, "task-web"));
  EXPECT_EQ(Run({"ps"}).status, 0);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
  EXPECT_EQ(*ListJobs(state_), std::vector<std::string>{"task-web"});
}

// The task of an exec has no end of its own.
TEST_F(TaskCommandsTest, AKilledRunOfAnExecIsFinishedWhileItsTaskRuns) {
  Start("web", "server");
  const auto directory = JobDirectory::Open(state_, "web");
  ASSERT_TRUE(directory);
  TaskRecord record = directory->Read("server").value().value();
  record.spec.remove = true;
  record.spec.holds_exec = true;
  ASSERT_TRUE(directory->Write(record));
  EXPECT_EQ(tasks_.running("web/server"), 1U);
  EXPECT_EQ(Run({"ps"}).out, "mountctl runs no task\n");
  EXPECT_EQ(tasks_.running("web/server"), 0U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
}

TEST_F(TaskCommandsTest, FollowingEndsWithATaskThatNobodyWatches) {
  open_log_ = [](const driver::LogRequest&) {
    return Result<std::unique_ptr<driver::LogReader>>(
        std::make_unique<BusyReader>());
  };
  Start("web", "server");
  tasks_.End("web/server", {});
  const Outcome outcome = Run({"logs", "-f", "server"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, testing::StartsWith("x\n"));
}

TEST_F(TaskCommandsTest, FollowingTheJournalGoesOnWithTheNextStart) {
  Start("web", "server");
  const auto directory = JobDirectory::Open(state_, "web");
  ASSERT_TRUE(directory);
  TaskRecord record = directory->Read("server").value().value();
  record.handle.config.logs.mode = driver::LogMode::kJournal;
  const std::string first = record.handle.config.id;
  ASSERT_TRUE(directory->Write(record));
  std::vector<std::string> opened;
  open_log_ = [&](const driver::LogRequest& request) {
    opened.push_back(request.task_id);
    if (opened.size() == 1) {
      // The task starts again, and has ended after that.
      record.handle.config.id = "web/server/2";
      EXPECT_TRUE(directory->Write(record));
    }
    return Result<std::unique_ptr<driver::LogReader>>(
        std::make_unique<BusyReader>());
  };
  EXPECT_EQ(Run({"logs", "-f", "--stdout", "server"}).status, 0);
  EXPECT_THAT(opened, ElementsAre(first, "web/server/2"));
}

class EndedTaskRunTest : public TaskCommandsTest,
                         public testing::WithParamInterface<int> {};

TEST_P(EndedTaskRunTest, EndsTheTaskThatWrites) {
  open_log_ = [](const driver::LogRequest&) {
    return Result<std::unique_ptr<driver::LogReader>>(
        std::make_unique<BusyReader>());
  };
  std::thread ending = SignalAfterStart("one/one", GetParam());
  const Outcome outcome =
      Run({"task", "run", "--image", "dir:/i", "--name", "one", "--rm"});
  ending.join();
  EXPECT_EQ(outcome.status, 128 + SIGTERM) << outcome.err;
  EXPECT_THAT(tasks_.calls(), testing::Contains("stop one/one  5000"));
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
}

TEST_P(EndedTaskRunTest, EndsTheExec) {
  std::thread ending = SignalAfterStart("one/one", GetParam());
  const Outcome outcome = Run({"task", "run", "--image", "dir:/i", "--name",
                               "one", "--rm", "-i", "--", "wait"});
  ending.join();
  EXPECT_EQ(outcome.status, 128 + GetParam()) << outcome.err;
  EXPECT_EQ(tasks_.running("one/one"), 0U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
}

INSTANTIATE_TEST_SUITE_P(By, EndedTaskRunTest,
                         testing::Values(SIGINT, SIGTERM, SIGHUP, SIGQUIT));

TEST_F(TaskCommandsTest, ATaskWhoseOutputCannotBePrintedEnds) {
  open_log_ = [](const driver::LogRequest&) {
    return Result<std::unique_ptr<driver::LogReader>>(
        ErrnoError(EPIPE, "write", "the output"));
  };
  EXPECT_EQ(
      Run({"task", "run", "--image", "dir:/i", "--name", "one", "--rm"}).status,
      128 + SIGPIPE);
  EXPECT_EQ(tasks_.running("one/one"), 0U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
}

TEST_F(TaskCommandsTest, AFailedStartIsUndone) {
  server_.script().Fail("GetAllocation",
                        {"org.mountd1.Error.NotFound", "not prepared"});
  tasks_.FailStart(MakeError(Code::kUnavailable, "start", "x", "no room"),
                   true);
  const Outcome outcome =
      Run({"task", "run", "--image", "dir:/i", "--name", "one", "-d"});
  EXPECT_EQ(outcome.status, 125);
  EXPECT_THAT(outcome.err, HasSubstr("no room"));
  EXPECT_EQ(tasks_.running("one/one"), 0U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
  EXPECT_EQ(Run({"ps"}).out, "mountctl runs no task\n");
}

TEST_F(TaskCommandsTest, AnAllocationWhoseTaskCannotBeEndedIsKept) {
  server_.script().Fail("GetAllocation",
                        {"org.mountd1.Error.NotFound", "not prepared"});
  tasks_.FailStart(MakeError(Code::kUnavailable, "start", "x", "no room"),
                   true);
  tasks_.RefuseStop(MakeError(Code::kInternal, "stop", "x"));
  tasks_.FailDestroy(MakeError(Code::kInternal, "destroy", "x"), 2);
  EXPECT_EQ(
      Run({"task", "run", "--image", "dir:/i", "--name", "one", "-d"}).status,
      125);
  EXPECT_EQ(tasks_.running("one/one"), 1U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 0U);
  EXPECT_THAT(Run({"ps"}).out, HasSubstr("one/one"));
  // The error of StopTask is no obstacle now that DestroyTask kills.
  EXPECT_EQ(Run({"stop", "one"}).status, 0);
  EXPECT_EQ(tasks_.running("one/one"), 0U);
  EXPECT_EQ(server_.script().count("ReleaseAllocation"), 1U);
}

TEST(OneTaskTest, BecomesAJob) {
  OneTask one;
  one.image = "oci:/i";
  one.name = "web";
  one.ports = {"8080:80", "dns=53/udp"};
  one.volumes = {"shared:/data:ro", "/srv/x:/y", "filesystem:homes:/h"};
  one.environment = {"A=b=c"};
  const Result<Job> job = JobOf(one, "0");
  ASSERT_TRUE(job) << job.error().Message();
  EXPECT_EQ(job->allocation, "web");
  ASSERT_TRUE(job->network);
  EXPECT_EQ(job->network->ports[0].container, 80);
  EXPECT_EQ(job->network->ports[1].label, "dns");
  ASSERT_EQ(job->mounts.size(), 3U);
  EXPECT_EQ(job->mounts[0].source, "shared");
  EXPECT_EQ(job->mounts[0].source_type, SourceType::kHostVolume);
  EXPECT_TRUE(job->mounts[0].read_only);
  EXPECT_EQ(job->mounts[0].task_path, "/data");
  EXPECT_EQ(job->mounts[1].source_type, SourceType::kDirectory);
  EXPECT_EQ(job->mounts[1].source, "/srv/x");
  EXPECT_EQ(job->mounts[2].source_type, SourceType::kFilesystem);
  EXPECT_FALSE(job->tasks.at(0).restart.Restarts());
  one.name = "";
  EXPECT_EQ(JobOf(one, "0")->allocation, "task-0");
  one.command = {"sh"};
  one.interactive = true;
  EXPECT_EQ(JobOf(one, "0")->tasks.at(0).kill_signal, "SIGKILL");
}

TEST(OneTaskTest, RefusesWhatItCannotDo) {
  const auto refused = [](OneTask one) { return !JobOf(one, "0"); };
  EXPECT_TRUE(refused({.volumes = {"data"}}));
  EXPECT_TRUE(refused({.volumes = {"volume:x:/d"}}));
  EXPECT_TRUE(refused({.volumes = {":/d"}}));
  EXPECT_TRUE(refused({.environment = {"=x"}}));
  EXPECT_TRUE(refused({.name = "a/b"}));
  EXPECT_TRUE(refused({.ports = {"80"}, .network = "host"}));
  EXPECT_TRUE(refused({.interactive = true}));
  EXPECT_TRUE(refused({.ports = {"a-b=1", "a_b=2"}}));
}

}  // namespace
}  // namespace mountd::agent::test
