// SPDX-License-Identifier: LGPL-2.1-or-later
// The tasks of a job: the policy of restarts, the records on the disk, starts
// that are cut off at any step, and the watcher.
#include "agent/mountctl/tasks/job_tasks.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <thread>
#include <utility>

#include "agent/mountctl/tasks/detached_process.h"
#include "agent/mountctl/tasks/directory_changes.h"
#include "agent/mountctl/tasks/watcher.h"
#include "tests/agent/fake_task_driver.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

namespace fs = std::filesystem;
using driver::ExitResult;
using driver::test::FakeTaskDriver;
using driver::test::FakeTasks;
using std::chrono::milliseconds;
using testing::ElementsAre;
using What = RestartDecision::What;

TEST(RestartPolicyTest, OnlySuccessCompletesATask) {
  RestartCount count;
  EXPECT_EQ(DecideRestart({}, true, BootTime(5), count).what, What::kComplete);
  EXPECT_EQ(count, RestartCount());
}

TEST(RestartPolicyTest, FailsAfterTheAttemptsOfAnInterval) {
  const RestartPolicy policy{2, milliseconds(100), milliseconds(7),
                             RestartMode::kFail};
  RestartCount count;
  const auto first = DecideRestart(policy, false, BootTime(10), count);
  EXPECT_EQ(first.what, What::kRestart);
  EXPECT_EQ(first.delay, milliseconds(7));
  EXPECT_EQ(DecideRestart(policy, false, BootTime(109), count).what,
            What::kRestart);
  RestartCount late = count;
  const auto last = DecideRestart(policy, false, BootTime(109), count);
  EXPECT_EQ(last.what, What::kFailed);
  EXPECT_EQ(last.reason, "the attempts of the interval are used up");
  // The interval has ended at 110.
  EXPECT_EQ(DecideRestart(policy, false, BootTime(110), late).what,
            What::kRestart);
  EXPECT_EQ(late.in_interval, 1U);
  EXPECT_EQ(late.total, 3U);
}

TEST(RestartPolicyTest, DelaysUntilTheIntervalEnds) {
  const RestartPolicy policy{1, milliseconds(100), milliseconds(7),
                             RestartMode::kDelay};
  RestartCount count;
  EXPECT_EQ(DecideRestart(policy, false, BootTime(0), count).delay,
            milliseconds(7));
  const auto later = DecideRestart(policy, false, BootTime(30), count);
  EXPECT_EQ(later.what, What::kRestart);
  EXPECT_EQ(later.delay, milliseconds(70));
  // That restart is the only one of the interval from 100 on.
  EXPECT_EQ(DecideRestart(policy, false, BootTime(120), count).delay,
            milliseconds(80));
  const RestartPolicy none{0, milliseconds(100), milliseconds(7),
                           RestartMode::kDelay};
  RestartCount other;
  EXPECT_EQ(DecideRestart(none, false, BootTime(0), other).delay,
            milliseconds(100));
}

TEST(RestartPolicyTest, ATimeOfAnotherBootBeginsAnotherInterval) {
  const RestartPolicy policy{1, milliseconds(100), milliseconds(7),
                             RestartMode::kFail};
  RestartCount count{.in_interval = 1, .interval_began = BootTime(1'000'000)};
  EXPECT_EQ(DecideRestart(policy, false, BootTime(5), count).what,
            What::kRestart);
}

TaskSpec Spec(const std::string& name) {
  TaskSpec spec;
  spec.config.allocation = "web";
  spec.config.name = name;
  spec.config.image = "dir:/i";
  spec.config.network.mode = driver::NetworkMode::kGroup;
  spec.restart.delay = milliseconds(0);
  spec.kill_signal = "SIGINT";
  spec.kill_timeout = milliseconds(9);
  return spec;
}

class JobTasksTest : public testing::Test {
 protected:
  JobDirectory Directory() {
    return std::move(JobDirectory::Make(state_, "web")).value();
  }
  TaskRecord Record(const std::string& task) {
    return directory_.Read(task).value().value();
  }

  TempDirectory temp_;
  const std::string state_ = temp_.File("state");
  FakeTasks fake_;
  FakeTaskDriver driver_{fake_};
  const JobDirectory directory_ = Directory();
  JobTasks tasks_{driver_, directory_};
};

TEST_F(JobTasksTest, ARecordIsReadAsItWasWritten) {
  TaskRecord record;
  record.order = 3;
  record.spec = Spec("a");
  record.spec.config.command = {"x", "ü"};
  record.spec.config.environment = {{"A", "1"}};
  record.spec.config.mounts.push_back(
      {.task_path = "/d",
       .host_path = "/h",
       .read_only = true,
       .propagation = driver::MountPropagation::kHostToTask});
  record.spec.config.dns.emplace().servers = {"10.0.0.1"};
  record.spec.config.logs.mode = driver::LogMode::kJournal;
  record.spec.config.resources.cpuset = "0-1";
  record.spec.restart.mode = RestartMode::kDelay;
  record.spec.remove = true;
  record.phase = TaskPhase::kWaiting;
  record.handle.config = record.spec.config;
  record.handle.driver_state = std::string("\0\xff\n", 3);
  record.restarts = {1, BootTime(2), 3};
  record.restart_at = BootTime(4);
  record.reason = "exit code 1";
  ASSERT_TRUE(directory_.Write(record));
  const TaskRecord read = Record("a");
  EXPECT_EQ(read.order, 3U);
  EXPECT_EQ(read.spec, record.spec);
  EXPECT_EQ(read.phase, record.phase);
  EXPECT_EQ(read.handle, record.handle);
  EXPECT_EQ(read.restarts, record.restarts);
  EXPECT_EQ(read.restart_at, record.restart_at);
  EXPECT_EQ(read.reason, record.reason);
}

TEST_F(JobTasksTest, RecordsAreTheOwnersAlone) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  struct stat status {};
  ASSERT_EQ(::stat((directory_.path() + "/a.json").c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0600U);
  ASSERT_EQ(::stat(directory_.path().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777U, 0700U);
  ASSERT_EQ(::chmod(directory_.path().c_str(), 0770), 0);
  EXPECT_EQ(JobDirectory::Open(state_, "web").error().code,
            Code::kFailedPrecondition);
  EXPECT_EQ(JobDirectory::Open(state_, "../web").error().code,
            Code::kInvalidArgument);
}

// HOME may be another user's, as after setpriv(1). mountctl stop releases an
// allocation all the same.
TEST_F(JobTasksTest, NoTasksAreWhereTheUserMayNotEnter) {
  ASSERT_EQ(::chmod(state_.c_str(), 0700), 0);
  const auto looks_as_another = [this] {
    constexpr uid_t kOther = 30001;
    if (::setresuid(kOther, kOther, kOther) != 0) {
      return 2;
    }
    const auto jobs = ListJobs(state_);
    return JobDirectory::Open(state_, "web").error().code == Code::kNotFound &&
                   jobs && jobs->empty()
               ? 0
               : 1;
  };
  EXPECT_EXIT(::_exit(looks_as_another()), testing::ExitedWithCode(0), "");
}

TEST_F(JobTasksTest, ATextThatIsNotUtf8IsRefusedBeforeTheStart) {
  TaskSpec spec = Spec("a");
  spec.config.command = {"\xff"};
  EXPECT_EQ(tasks_.Start(spec, 0).error().code, Code::kInvalidArgument);
  EXPECT_TRUE(fake_.calls().empty());
}

TEST_F(JobTasksTest, ARecordOfAnotherReleaseIsNotOverwritten) {
  std::ofstream(directory_.path() + "/a.json") << "{\"version\": 99}";
  EXPECT_EQ(tasks_.Start(Spec("a"), 0).error().code, Code::kFailedPrecondition);
  EXPECT_TRUE(fake_.calls().empty());
}

TEST_F(JobTasksTest, AValueOfAnotherReleaseIsNoOther) {
  TaskRecord record;
  record.spec = Spec("a");
  record.spec.config.mounts.emplace_back();
  const std::string text = ToText(record).value();
  ASSERT_TRUE(RecordFromText(text, "a.json"));
  for (const char* known :
       {"\"files\"", "\"private\"", "\"group\"", "\"unknown\"", "\"fail\""}) {
    std::string other = text;
    const std::size_t at = other.find(known);
    ASSERT_NE(at, std::string::npos) << known;
    other.replace(at, std::string_view(known).size(), "\"later\"");
    EXPECT_EQ(RecordFromText(other, "a.json").error().code,
              Code::kFailedPrecondition)
        << known;
  }
}

TEST_F(JobTasksTest, TheSameAgainStartsNothing) {
  EXPECT_TRUE(*tasks_.Start(Spec("a"), 0));
  FakeTaskDriver other(fake_);
  EXPECT_FALSE(*JobTasks(other, directory_).Start(Spec("a"), 0));
  EXPECT_THAT(fake_.calls(), ElementsAre("start web/a"));
  TaskSpec changed = Spec("a");
  changed.config.command = {"x"};
  EXPECT_EQ(tasks_.Start(changed, 0).error().code, Code::kAlreadyExists);
  fake_.End("web/a", {});
  EXPECT_TRUE(*tasks_.Start(changed, 0));
  EXPECT_EQ(fake_.running("web/a"), 1U);
}

TEST_F(JobTasksTest, ATaskThatIsCompleteDoesNotRunAgain) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  fake_.End("web/a", {});
  // Nobody has recorded the end.
  EXPECT_FALSE(*tasks_.Start(Spec("a"), 0));
  EXPECT_EQ(Record("a").phase, TaskPhase::kComplete);
  EXPECT_FALSE(*tasks_.Start(Spec("a"), 0));
  EXPECT_THAT(fake_.calls(), ElementsAre("start web/a"));
  TaskSpec changed = Spec("a");
  changed.config.command = {"x"};
  EXPECT_TRUE(*tasks_.Start(changed, 0));
  fake_.End("web/a", {.exit_code = 1});
  EXPECT_TRUE(*tasks_.Start(changed, 0));
}

TEST_F(JobTasksTest, AStartThatWasCutOffIsFinishedAndNotRepeated) {
  // The driver has started the task, and mountctl was killed then.
  TaskRecord record;
  record.spec = Spec("a");
  record.handle.config = record.spec.config;
  record.handle.config.id = "web/a/1";
  ASSERT_TRUE(directory_.Write(record));
  ASSERT_TRUE(driver_.StartTask(record.handle.config));
  FakeTaskDriver other(fake_);
  EXPECT_TRUE(*JobTasks(other, directory_).Start(Spec("a"), 0));
  EXPECT_THAT(fake_.calls(), ElementsAre("start web/a"));
  EXPECT_EQ(Record("a").phase, TaskPhase::kRunning);
  EXPECT_EQ(Record("a").handle.config.id, "web/a/1");
}

TEST_F(JobTasksTest, ACutOffStartOfAnotherConfigurationIsUndone) {
  TaskRecord record;
  record.spec = Spec("a");
  record.handle.config = record.spec.config;
  record.handle.config.id = "web/a/1";
  ASSERT_TRUE(directory_.Write(record));
  ASSERT_TRUE(driver_.StartTask(record.handle.config));
  TaskSpec changed = Spec("a");
  changed.config.command = {"x"};
  FakeTaskDriver other(fake_);
  EXPECT_TRUE(*JobTasks(other, directory_).Start(changed, 0));
  EXPECT_EQ(fake_.running("web/a"), 1U);
}

TEST_F(JobTasksTest, AFailedStartLeavesNothingAndSaysWhy) {
  fake_.FailStart(MakeError(Code::kUnavailable, "start", "a", "no room"), true);
  EXPECT_EQ(tasks_.Start(Spec("a"), 0).error().code, Code::kUnavailable);
  EXPECT_EQ(fake_.running("web/a"), 0U);
  EXPECT_EQ(Record("a").phase, TaskPhase::kFailed);
  EXPECT_THAT(Record("a").reason, testing::HasSubstr("no room"));
  EXPECT_TRUE(*tasks_.Start(Spec("a"), 0));
}

TEST_F(JobTasksTest, StopEndsTheLastTaskFirstAndThenTheNetwork) {
  ASSERT_TRUE(tasks_.Start(Spec("b"), 0));
  ASSERT_TRUE(tasks_.Start(Spec("a"), 1));
  FakeTaskDriver other(fake_);
  JobTasks stopping(other, directory_);
  ASSERT_TRUE(stopping.StopAll());
  EXPECT_THAT(fake_.calls(),
              ElementsAre("start web/b", "start web/a", "stop web/a SIGINT 9",
                          "destroy web/a", "stop web/b SIGINT 9",
                          "destroy web/b", "destroy-network web"));
  ASSERT_TRUE(stopping.StopAll());
  EXPECT_EQ(Record("a").phase, TaskPhase::kStopped);
}

TEST_F(JobTasksTest, ATaskThatRefusesItsSignalIsKilled) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  fake_.RefuseStop(MakeError(Code::kUnavailable, "stop", "a"));
  EXPECT_TRUE(tasks_.Stop(Record("a")));
  EXPECT_EQ(fake_.running("web/a"), 0U);
  EXPECT_EQ(Record("a").phase, TaskPhase::kStopped);
  EXPECT_EQ(Record("a").handle.config.id, "");
}

TEST_F(JobTasksTest, ATaskThatCannotBeEndedKeepsItsId) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  const std::string id = Record("a").handle.config.id;
  fake_.FailDestroy(MakeError(Code::kInternal, "destroy", "a"), 1);
  EXPECT_EQ(tasks_.StopAll().error().code, Code::kInternal);
  EXPECT_EQ(Record("a").handle.config.id, id);
  EXPECT_TRUE(tasks_.StopAll());
  EXPECT_EQ(Record("a").handle.config.id, "");
}

// Lets no file of this process grow, as a full disk does.
class FullDisk {
 public:
  FullDisk() : handler_(std::signal(SIGXFSZ, SIG_IGN)) {
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit none = before_;
    none.rlim_cur = 0;
    ::setrlimit(RLIMIT_FSIZE, &none);
  }
  ~FullDisk() {
    ::setrlimit(RLIMIT_FSIZE, &before_);
    (void)std::signal(SIGXFSZ, handler_);
  }
  FullDisk(const FullDisk&) = delete;
  FullDisk& operator=(const FullDisk&) = delete;

 private:
  void (*handler_)(int);
  rlimit before_{};
};

TEST_F(JobTasksTest, AFullDiskKeepsNoTask) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  ASSERT_TRUE(tasks_.Start(Spec("b"), 1));
  Result<void> stopped;
  {
    const FullDisk full;
    EXPECT_FALSE(directory_.SetCgroup("/x"));
    stopped = tasks_.StopAll();
  }
  EXPECT_TRUE(stopped) << stopped.error().Message();
  EXPECT_EQ(fake_.running("web/a"), 0U);
  EXPECT_EQ(fake_.running("web/b"), 0U);
  // No record is left that a watcher would take for a task that runs.
  EXPECT_TRUE(directory_.Records()->empty());
}

TEST_F(JobTasksTest, ALostTaskIsNoObstacle) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  fake_.Reboot();
  EXPECT_TRUE(*tasks_.Start(Spec("a"), 0));
  fake_.Reboot();
  EXPECT_TRUE(tasks_.StopAll());
  EXPECT_TRUE(directory_.Remove());
  EXPECT_EQ(directory_.Lock().error().code, Code::kAborted);
  EXPECT_TRUE(ListJobs(state_)->empty());
}

TEST_F(JobTasksTest, AnEndIsOfOneStartOnly) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  ExitResult failed;
  failed.exit_code = 3;
  ASSERT_TRUE(tasks_.RecordEnd("a", "web/a/0", failed, BootTime(0)));
  EXPECT_EQ(Record("a").phase, TaskPhase::kRunning);
  const std::string id = Record("a").handle.config.id;
  ASSERT_TRUE(tasks_.RecordEnd("a", id, failed, BootTime(0)));
  EXPECT_EQ(Record("a").phase, TaskPhase::kWaiting);
  EXPECT_EQ(Record("a").reason, "exit code 3");
}

TEST_F(JobTasksTest, ARemovalTakesNoRecordOfALaterRun) {
  constexpr int kRounds = 200;
  std::atomic<bool> done{false};
  std::thread removing([&] {
    while (!done) {
      const auto directory = JobDirectory::Open(state_, "web");
      if (directory) {
        const auto lock = directory->Lock();
        EXPECT_TRUE(!lock || directory->Remove());
      }
    }
  });
  TaskRecord record;
  record.spec = Spec("a");
  int lost = 0;
  for (int i = 0; i < kRounds; ++i) {
    const auto locked = JobDirectory::MakeLocked(state_, "web");
    ASSERT_TRUE(locked) << locked.error().Message();
    ASSERT_TRUE(locked->directory.Write(record));
    const auto directory = JobDirectory::Open(state_, "web");
    lost += directory && directory->Read("a").value() ? 0 : 1;
  }
  done = true;
  removing.join();
  EXPECT_EQ(lost, 0);
  EXPECT_TRUE(ListJobs(state_)->size() <= 1);
}

// Root may remove every file, so the test is another user meanwhile.
class OtherUser {
 public:
  OtherUser() { EXPECT_EQ(::seteuid(kNobody), 0); }
  ~OtherUser() { EXPECT_EQ(::seteuid(0), 0); }
  OtherUser(const OtherUser&) = delete;
  OtherUser& operator=(const OtherUser&) = delete;

  static constexpr uid_t kNobody = 65534;
};

TEST_F(JobTasksTest, ARemovalLeavesTheFilesOfTheTasksUsersToTheDriver) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "only root is another user";
  }
  const std::string state = temp_.File("nobody");
  ASSERT_EQ(::mkdir(state.c_str(), 0700), 0);
  ASSERT_EQ(::chown(state.c_str(), OtherUser::kNobody, 0), 0);
  ASSERT_EQ(::chmod(temp_.File("").c_str(), 0755), 0);
  std::optional<JobDirectory> directory;
  driver::TaskDirectories made;
  {
    const OtherUser nobody;
    directory = JobDirectory::Make(state, "web").value();
    made = directory->MakeTaskDirectories("a").value();
    EXPECT_EQ(directory->MakeTaskDirectories("a").value(), made);
  }
  EXPECT_EQ(fs::status(made.alloc).permissions(), fs::perms(01777));
  EXPECT_EQ(fs::status(made.local).permissions(), fs::perms(01777));
  // A task's root may give the directory to another user of the task.
  ASSERT_EQ(::chown(made.alloc.c_str(), 0, 0), 0);
  {
    const OtherUser nobody;
    EXPECT_TRUE(directory->MakeTaskDirectories("a"));
  }
  // A task's user is root here, and a subordinate id elsewhere.
  ASSERT_EQ(::mkdir((made.local + "/own").c_str(), 0700), 0);
  std::ofstream(made.local + "/own/file") << "x";
  std::vector<std::string> removed;
  {
    const OtherUser nobody;
    EXPECT_TRUE(directory->Remove([&](const std::string& path) -> Result<void> {
      removed.push_back(path);
      return Ok();
    }));
  }
  ASSERT_EQ(removed.size(), 1U);
  EXPECT_THAT(removed[0], testing::StartsWith(state + "/removed-"));
  EXPECT_TRUE(fs::exists(removed[0] + "/local/a/own/file"));
}

TEST(EndText, NamesTheReason) {
  EXPECT_EQ(EndText({.exit_code = 3}), "exit code 3");
  EXPECT_EQ(EndText({.signal = 9}), "signal 9");
  EXPECT_EQ(EndText({.signal = 9, .oom_killed = true}),
            "out of memory, signal 9");
  EXPECT_EQ(EndText({.error = "lost"}), "lost");
}

// The test below starts itself to do this.
void TellOwnFds() {
  std::string found = "fds";
  for (int fd = 0; fd < 100; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0) {
      found += " " + std::to_string(fd);
    }
  }
  struct sigaction hangup {};
  ::sigaction(SIGHUP, nullptr, &hangup);
  found += hangup.sa_handler == SIG_DFL ? " end\n" : " ignored end\n";
  EXPECT_EQ(::write(1, found.data(), found.size()),
            static_cast<ssize_t>(found.size()));
}

TEST(DetachedProcess, HasNoFdOfTheCallersButOne) {
  constexpr char kIsDetached[] = "MOUNTD_TEST_IS_DETACHED";
  if (std::getenv(kIsDetached) != nullptr) {
    return TellOwnFds();
  }
  const TempDirectory temp;
  const UniqueFd kept(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  // Without O_CLOEXEC, as that of `flock FILE mountctl run`.
  const UniqueFd inherited(::fcntl(kept.get(), F_DUPFD, 50));
  auto* const before = std::signal(SIGHUP, SIG_IGN);
  ::setenv(kIsDetached, "1", 1);
  const auto started = StartDetached(
      {"test", "--gtest_filter=DetachedProcess.HasNoFdOfTheCallersButOne"},
      kept.get(), temp.File("log"));
  ::unsetenv(kIsDetached);
  (void)std::signal(SIGHUP, before);
  ASSERT_TRUE(started) << started.error().Message();
  std::string text;
  while (text.find(" end\n") == std::string::npos) {
    std::ifstream file(temp.File("log"));
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  EXPECT_THAT(text, testing::HasSubstr("fds 0 1 2 " +
                                       std::to_string(kept.get()) + " end\n"));
}

// ---- The watcher ------------------------------------------------------------

class WatcherTest : public JobTasksTest {
 protected:
  // Runs a watcher until no task is active.
  void Begin() {
    auto watch = std::move(directory_.TakeWatch()).value();
    ASSERT_TRUE(watch);
    thread_ = std::thread([this, watch = std::move(*watch)]() mutable {
      FakeTaskDriver driver(fake_);
      Watcher watcher(driver, Directory(), [this] { return now_.load(); });
      EXPECT_TRUE(watcher.Run(std::move(watch)));
    });
  }
  void End() {
    if (thread_.joinable()) {
      thread_.join();
    }
  }
  // Writes the record as it is, so that a watcher looks at its clock again.
  void Nudge(const std::string& task) {
    const auto lock = directory_.Lock();
    ASSERT_TRUE(lock);
    ASSERT_TRUE(directory_.Write(Record(task)));
  }
  void TearDown() override { End(); }

  std::atomic<BootTime> now_{BootTime(1000)};
  std::thread thread_;
};

TEST_F(WatcherTest, RestartsATaskUntilItsAttemptsAreUsedUp) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  Begin();
  EXPECT_TRUE(*directory_.IsWatched());
  EXPECT_FALSE(directory_.TakeWatch().value().has_value());
  for (std::size_t starts = 2; starts <= 3; ++starts) {
    fake_.End("web/a", {.exit_code = 1});
    fake_.AwaitStarts("web/a", starts);
  }
  fake_.End("web/a", {.exit_code = 1});
  End();
  EXPECT_FALSE(*directory_.IsWatched());
  EXPECT_EQ(Record("a").phase, TaskPhase::kFailed);
  EXPECT_EQ(Record("a").restarts.total, 2U);
  EXPECT_EQ(Record("a").reason,
            "exit code 1; the attempts of the interval are used up");
}

TEST(DirectoryChangesTest, AWaitWithoutInotifyEnds) {
  const auto began = std::chrono::steady_clock::now();
  // No directory, so there is nothing to watch.
  DirectoryChanges::Of(-1).Wait(std::nullopt, -1);
  DirectoryChanges::Of(-1).Wait(std::chrono::hours(1), -1);
  EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::minutes(1));
}

TEST_F(WatcherTest, ABadRecordEndsNoWatcher) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  std::ofstream(directory_.path() + "/x.json") << "{}";
  Begin();
  fake_.End("web/a", {.exit_code = 1});
  fake_.AwaitStarts("web/a", 2);
  fake_.End("web/a", {});
  End();
}

TEST_F(WatcherTest, EndsWithTheLastTask) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  ASSERT_TRUE(tasks_.Start(Spec("b"), 1));
  Begin();
  fake_.End("web/a", {});
  EXPECT_TRUE(*directory_.IsWatched());
  {
    const auto lock = directory_.Lock();
    ASSERT_TRUE(lock);
    ASSERT_TRUE(tasks_.StopAll());
  }
  End();
  EXPECT_EQ(fake_.running("web/b"), 0U);
  EXPECT_FALSE(*directory_.IsWatched());
}

TEST_F(WatcherTest, WaitsForTheDelayByItsClock) {
  TaskSpec spec = Spec("a");
  spec.restart.delay = std::chrono::hours(2);
  ASSERT_TRUE(tasks_.Start(spec, 0));
  TaskRecord record = Record("a");
  record.phase = TaskPhase::kWaiting;
  record.restart_at = BootTime(5000);
  fake_.End("web/a", {.exit_code = 1});
  ASSERT_TRUE(directory_.Write(record));
  Begin();
  EXPECT_EQ(Record("a").phase, TaskPhase::kWaiting);
  now_ = BootTime(5000);
  Nudge("a");
  fake_.AwaitStarts("web/a", 2);
  {
    const auto lock = directory_.Lock();
    ASSERT_TRUE(lock);
    ASSERT_TRUE(tasks_.StopAll());
  }
  End();
}

TEST_F(WatcherTest, DoesNotWaitForTheClockOfAnEarlierBoot) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  TaskRecord record = Record("a");
  record.phase = TaskPhase::kWaiting;
  record.restart_at = std::chrono::hours(24 * 365);
  fake_.End("web/a", {.exit_code = 1});
  ASSERT_TRUE(directory_.Write(record));
  Begin();
  fake_.AwaitStarts("web/a", 2);
  fake_.End("web/a", {});
  End();
}

TEST_F(WatcherTest, FollowsATaskThatARunStartsMeanwhile) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  Begin();
  {
    const auto lock = directory_.Lock();
    ASSERT_TRUE(lock);
    ASSERT_TRUE(tasks_.Start(Spec("b"), 1));
  }
  fake_.End("web/b", {.signal = 9});
  fake_.AwaitStarts("web/b", 2);
  fake_.End("web/a", {});
  fake_.End("web/b", {});
  End();
  EXPECT_EQ(Record("b").phase, TaskPhase::kComplete);
}

TEST_F(WatcherTest, FinishesAStartThatWasCutOffAndCountsOneThatFails) {
  TaskRecord record;
  record.spec = Spec("a");
  record.handle.config = record.spec.config;
  record.handle.config.id = "web/a/1";
  ASSERT_TRUE(directory_.Write(record));
  fake_.FailStart(MakeError(Code::kInternal, "start", "a"), false);
  Begin();
  fake_.AwaitStarts("web/a", 1);
  fake_.End("web/a", {});
  End();
  EXPECT_EQ(Record("a").restarts.total, 1U);
}

TEST_F(WatcherTest, TheAbsenceOfMountdUsesUpNoAttempt) {
  TaskSpec spec = Spec("a");
  spec.restart.attempts = 1;
  ASSERT_TRUE(tasks_.Start(spec, 0));
  for (int i = 0; i < 3; ++i) {
    fake_.FailStart(MakeError(Code::kUnavailable, "connect", "mountd"), false);
  }
  Begin();
  fake_.End("web/a", {.exit_code = 1});
  while (fake_.running("web/a") == 0 &&
         Record("a").phase != TaskPhase::kFailed) {
    now_ = now_.load() + std::chrono::minutes(1);
    Nudge("a");
  }
  EXPECT_EQ(fake_.running("web/a"), 1U);
  EXPECT_EQ(Record("a").restarts.total, 1U);
  fake_.End("web/a", {});
  End();
}

TEST_F(WatcherTest, ALostTaskIsStartedAgain) {
  ASSERT_TRUE(tasks_.Start(Spec("a"), 0));
  fake_.Reboot();
  Begin();
  fake_.AwaitStarts("web/a", 2);
  fake_.End("web/a", {});
  End();
}

TEST_F(WatcherTest, ARemovedJobEndsIt) {
  TaskSpec spec = Spec("a");
  ASSERT_TRUE(tasks_.Start(spec, 0));
  Begin();
  {
    const auto lock = directory_.Lock();
    ASSERT_TRUE(lock);
    ASSERT_TRUE(tasks_.StopAll());
    ASSERT_TRUE(directory_.Remove());
  }
  End();
  EXPECT_TRUE(ListJobs(state_)->empty());
}

}  // namespace
}  // namespace mountd::agent::test
