// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Processes that callers add to running tasks.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <utility>

#include "agent/driver/last_size.h"
#include "mountd/base/unique_fd.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

using mountd::testing::Eventually;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kLong{1000};

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class OciExec : public OciFixture {
 protected:
  // Starts a task that waits, as the user `web` of the image.
  TaskConfig StartWaiting(TaskDriver& driver) const {
    TaskConfig config = Shell("wait", "exec sleep 10000");
    config.user = "web";
    SetEnvironment("COLOUR", "blue", config.environment);
    EXPECT_THAT(driver.StartTask(config), IsOk());
    return config;
  }
  UniqueFd NewFile(const std::string& name) const {
    return UniqueFd(::open(path(name).c_str(),
                           O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  }
};

TEST_F(OciExec, DoesNotWaitForAWriterThatItLeftBehind) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    ASSERT_OK_AND_ASSIGN(
        const ExecOutput done,
        driver->ExecTask(config.id, {"/bin/sh", "-c", "yes & exit 6"}, kLong));
    EXPECT_EQ(TextOf(done.result), "code 6");
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciExec, RunsACommandToItsEnd) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    ASSERT_OK_AND_ASSIGN(
        const ExecOutput done,
        driver->ExecTask(config.id,
                         {"/bin/sh", "-c",
                          "id -u; echo $COLOUR $HOME; grep NoNewPrivs "
                          "/proc/self/status; echo no >&2; cat; exit 5"},
                         kLong));
    EXPECT_EQ(done.stdout_text, "1000\nblue /home/web\nNoNewPrivs:\t1\n");
    EXPECT_EQ(done.stderr_text, "no\n");
    EXPECT_EQ(TextOf(done.result), "code 5");
    ASSERT_OK_AND_ASSIGN(
        const ExecOutput long_one,
        driver->ExecTask(
            config.id, {"/bin/sh", "-c", "head -c 3000000 /dev/zero"}, kLong));
    EXPECT_EQ(long_one.stdout_text.size(), std::size_t{1} << 20U);
    EXPECT_THAT(driver->ExecTask(config.id, {"/no/such"}, kLong),
                IsErr(Code::kFailedPrecondition));
    EXPECT_THAT(driver->ExecTask("web/other/1", {"true"}, kLong),
                IsErr(Code::kNotFound));
    EXPECT_THAT(
        driver->ExecTask(config.id, {"/bin/sleep", "4321"}, milliseconds(1)),
        IsErr(Code::kDeadlineExceeded));
    EXPECT_TRUE(Eventually([] { return ProcessesWith("4321").empty(); }));
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, kLong),
                IsErr(Code::kNotFound));
    EXPECT_EQ(Leftovers(), "");
  });
}

// The second command's child has lost its parent, and the third one's is a
// child of such a session's leader.
TEST_F(OciExec, EndsAlsoProcessesWithSessionsOfTheirOwn) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    const std::string sleeps = std::string("sleep") + '\0' + "4323";
    for (const std::pair<const char*, std::size_t>& one :
         {std::pair<const char*, std::size_t>(
              "setsid sleep 4323 & exec sleep 4323", 2),
          {"(sleep 4323 &); exec sleep 4323", 2},
          {"setsid sh -c '(sleep 4323 &); exec sleep 4323' & "
           "exec sleep 4323",
           3}}) {
      std::array<int, 2> caller{};
      ASSERT_EQ(::pipe2(caller.data(), O_CLOEXEC), 0);
      const UniqueFd caller_read(caller[0]);
      UniqueFd caller_write(caller[1]);
      std::thread ends([&] {
        EXPECT_TRUE(Eventually(
            [&] { return ProcessesWith(sleeps).size() == one.second; }));
        caller_write.reset();
      });
      ExecOptions options;
      options.command = {"/bin/sh", "-c", one.first};
      options.caller_fd = caller_read.get();
      EXPECT_THAT(
          driver->streaming_exec()->ExecTaskStreaming(config.id, options),
          IsErr(Code::kAborted));
      ends.join();
      EXPECT_TRUE(Eventually([] { return ProcessesWith("4323").empty(); }))
          << one.first;
    }
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciExec, MovesTheCallersStreams) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    const std::string text(3'000'000, 'x');
    std::ofstream(path("in")) << text << std::flush;
    const UniqueFd in(::open(path("in").c_str(), O_RDONLY | O_CLOEXEC));
    const UniqueFd out = NewFile("out");
    const UniqueFd error = NewFile("error");
    ExecOptions options;
    // The process that is left behind has the streams, too.
    options.command = {"/bin/sh", "-c",
                       "sleep 10000 & cat; echo end >&2; kill -9 $$"};
    options.stdin_fd = in.get();
    options.stdout_fd = out.get();
    options.stderr_fd = error.get();
    EXPECT_EQ(
        TextOf(driver->streaming_exec()->ExecTaskStreaming(config.id, options)),
        "signal 9");
    EXPECT_EQ(ContentOf(path("out")), text);
    EXPECT_EQ(ContentOf(path("error")), "end\n");
    // The runtime has given no file of the caller's to the task's user.
    struct stat found = {};
    ASSERT_EQ(::fstat(out.get(), &found), 0);
    EXPECT_EQ(found.st_uid, ::geteuid());
    // A command that reads nothing, and a caller that wants nothing.
    options = {};
    options.command = {"/bin/sh", "-c", "exec 0<&-; echo dropped; exit 6"};
    options.stdin_fd = in.get();
    ASSERT_EQ(::lseek(in.get(), 0, SEEK_SET), 0);
    EXPECT_EQ(TextOf(ExecTaskStreaming(*driver, config.id, options)), "code 6");
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

// A naive pump takes EAGAIN for the end of the output, and says success.
TEST_F(OciExec, TellsOnceWhyTheRuntimeFailed) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    const UniqueFd error = NewFile("error");
    ExecOptions options;
    options.command = {"/no/such"};
    options.stderr_fd = error.get();
    EXPECT_THAT(driver->streaming_exec()->ExecTaskStreaming(config.id, options),
                IsErr(Code::kFailedPrecondition));
    EXPECT_EQ(ContentOf(path("error")), "");
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
  });
}

TEST_F(OciExec, WritesAllBytesToANonBlockingPipe) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK), 0);
    const UniqueFd read_end(ends[0]);
    UniqueFd write_end(ends[1]);
    ASSERT_EQ(::fcntl(read_end.get(), F_SETFL, 0), 0);
    std::size_t total = 0;
    std::thread reader([&] {
      std::array<char, 8192> part{};
      for (ssize_t got = 0;
           (got = ::read(read_end.get(), part.data(), part.size())) > 0;) {
        total += static_cast<std::size_t>(got);
        ::usleep(500);
      }
    });
    ExecOptions options;
    options.command = {"/bin/sh", "-c", "head -c 1288895 /dev/zero"};
    options.stdout_fd = write_end.get();
    EXPECT_EQ(
        TextOf(driver->streaming_exec()->ExecTaskStreaming(config.id, options)),
        "code 0");
    write_end.reset();
    reader.join();
    EXPECT_EQ(total, 1288895U);
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciExec, SaysThatTheCallersFileIsFull) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(full.valid());
    ExecOptions options;
    options.command = {"/bin/sh", "-c", "echo lost; exit 0"};
    options.stdout_fd = full.get();
    EXPECT_THAT(driver->streaming_exec()->ExecTaskStreaming(config.id, options),
                IsErr(Code::kResourceExhausted));
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciExec, EndsACommandWhoseOutputNobodyReads) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    for (const bool terminal : {false, true}) {
      std::array<int, 2> ends{};
      ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
      const UniqueFd out(ends[1]);
      ::close(ends[0]);
      ExecOptions options;
      options.command = {"/bin/sh", "-c", "while echo y; do :; done"};
      options.terminal = terminal;
      options.stdout_fd = out.get();
      const auto result = ExecTaskStreaming(*driver, config.id, options);
      ASSERT_FALSE(result);
      EXPECT_EQ(result.error().sys_errno, EPIPE);
    }
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciExec, HasATerminal) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    std::array<int, 2> ends{};
    ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    const UniqueFd in(ends[0]);
    const UniqueFd typed(ends[1]);
    const UniqueFd out = NewFile("out");
    LastSize sizes;
    sizes.Put({31, 97});
    ExecOptions options;
    options.command = {"/bin/sh", "-c",
                       "stty -echo; stty size; "
                       "while [ \"$(stty size)\" = '31 97' ]; do sleep 0.01; "
                       "done; stty size; read a; test -t 2 && echo $a $TERM; "
                       "exit 4"};
    options.terminal = true;
    options.stdin_fd = in.get();
    options.stdout_fd = out.get();
    options.sizes = &sizes;
    Result<ExitResult> result = Error{};
    std::thread caller([&] {
      result = driver->streaming_exec()->ExecTaskStreaming(config.id, options);
    });
    EXPECT_TRUE(Eventually([&] {
      return ContentOf(path("out")) == "31 97\r\n";
    })) << ContentOf(path("out"));
    sizes.Put({5, 6});
    EXPECT_EQ(::write(typed.get(), "hello\n", 6), 6);
    caller.join();
    EXPECT_EQ(TextOf(result), "code 4");
    EXPECT_EQ(ContentOf(path("out")), "31 97\r\n5 6\r\nhello xterm\r\n");
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

// The runtime here goes on after it has made the process. A naive driver moves
// no byte until the runtime has ended.
TEST_F(OciExec, MovesOutputWhileTheRuntimeRuns) {
  AsUser([this] {
    OciDriverOptions options = Options();
    options.runtime = path("lingering-runtime");
    std::ofstream(options.runtime)
        << "#!/bin/sh\n"
           "case \"$*\" in *' exec '*) crun \"$@\"; exec sleep 4323;; esac\n"
           "exec crun \"$@\"\n"
        << std::flush;
    ASSERT_EQ(::chmod(options.runtime.c_str(), 0755), 0);
    const auto driver = MakeWith(options);
    const TaskConfig config = StartWaiting(*driver);
    const UniqueFd output = NewFile("output");
    ExecOptions exec;
    exec.command = {"/bin/echo", "told"};
    exec.stdout_fd = output.get();
    Result<ExitResult> ended = Error{};
    std::thread caller([&] {
      ended = driver->streaming_exec()->ExecTaskStreaming(config.id, exec);
    });
    EXPECT_TRUE(
        Eventually([&] { return ContentOf(path("output")) == "told\n"; }));
    driver->Shutdown();
    caller.join();
    EXPECT_THAT(ended, IsErr(Code::kAborted));
    EXPECT_TRUE(Eventually([] { return ProcessesWith("4323").empty(); }));
    EXPECT_THAT(MakeDriver()->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciExec, EndsWithTheDriver) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = StartWaiting(*driver);
    ASSERT_OK_AND_ASSIGN(const auto events, driver->Events());
    Result<ExecOutput> exec = Error{};
    Result<ExitResult> wait = Error{};
    std::thread one([&] {
      exec = driver->ExecTask(config.id, {"/bin/sleep", "4322"}, kLong);
    });
    std::thread two([&] { wait = driver->WaitTask(config.id); });
    EXPECT_TRUE(Eventually([] { return !ProcessesWith("4322").empty(); }));
    driver->Shutdown();
    one.join();
    two.join();
    EXPECT_THAT(exec, IsErr(Code::kAborted));
    EXPECT_THAT(wait, IsErr(Code::kAborted));
    ASSERT_OK_AND_ASSIGN(const auto event, events->Next());
    EXPECT_FALSE(event);
    EXPECT_TRUE(Eventually([] { return ProcessesWith("4322").empty(); }));
    // The task goes on, and another driver has it.
    const auto next = MakeDriver();
    TaskHandle handle;
    handle.config = config;
    EXPECT_THAT(next->RecoverTask(handle), IsOk());
    EXPECT_EQ(next->InspectTask(config.id)->state, TaskState::kRunning);
    EXPECT_THAT(next->DestroyTask(config.id, true), IsOk());
    EXPECT_THAT(next->RecoverTask(handle), IsErr(Code::kNotFound));
    EXPECT_EQ(Leftovers(), "");
  });
}

}  // namespace
}  // namespace mountd::driver::testing
