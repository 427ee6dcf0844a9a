// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Processes that callers add to a container of mountd-task-shim.
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <termios.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <thread>

#include "mountd/base/fd_message.h"
#include "mountd/base/memory_file.h"
#include "mountd/base/unix_socket.h"
#include "tests/root/driver/shim_fixture.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using shim::Kind;
using shim::Message;
using shim::Tag;

// A process of exec with three pipes or a console.
struct Process {
  shim::ShimConnection connection{UniqueFd()};
  Result<shim::Answer> started = Error{};
  UniqueFd in{};  // the test's ends
  UniqueFd out{};
  UniqueFd err{};
  std::string Exit() { return ShimExitOf(connection.Next(kSoon)); }
};

std::string AllOf(int fd) {
  std::string text;
  std::array<char, 4096> buffer{};
  for (;;) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    // A pty without another end gives EIO.
    if (got <= 0) {
      return text;
    }
    text.append(buffer.data(), static_cast<std::size_t>(got));
  }
}

// Reads until the terminal has said the text.
bool Says(int fd, const std::string& text) {
  std::string all;
  std::array<char, 64> buffer{};
  while (all.find(text) == std::string::npos) {
    const ssize_t got = ::read(fd, buffer.data(), buffer.size());
    if (got <= 0) {
      return false;
    }
    all.append(buffer.data(), static_cast<std::size_t>(got));
  }
  return true;
}

class TaskShimExec : public ShimFixture {
 protected:
  void SetUp() override {
    ShimFixture::SetUp();
    if (!IsSkipped() && !HasFatalFailure()) {
      task_ = Run("web", "exec sleep 1000");
    }
  }

  static UniqueFd ProcessJson(const std::string& script, bool terminal) {
    auto file = MemoryWith("process.json",
                           std::string(R"({"terminal": )") +
                               (terminal ? "true" : "false") +
                               R"(, "user": {"uid": 0, "gid": 0}, "cwd": "/",
                "consoleSize": {"height": 30, "width": 90},
                "noNewPrivileges": true,
                "env": ["PATH=/bin"], "args": ["/bin/sh", "-c", ")" +
                               script + R"("]})");
    EXPECT_TRUE(file);
    return *std::move(file);
  }

  Process Exec(const std::string& script) const {
    Process process;
    process.connection = Connect(task_);
    std::array<std::array<int, 2>, 3> pipes{};
    for (auto& pipe : pipes) {
      EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    }
    const UniqueFd in(pipes[0][0]);
    const UniqueFd out(pipes[1][1]);
    const UniqueFd err(pipes[2][1]);
    process.in.reset(pipes[0][1]);
    process.out.reset(pipes[1][0]);
    process.err.reset(pipes[2][0]);
    const UniqueFd json = ProcessJson(script, false);
    process.started = process.connection.Call(
        Message(Kind::kExec),
        std::array{json.get(), in.get(), out.get(), err.get()}, kSoon);
    return process;
  }

  Process ExecOnConsole(const std::string& script) const {
    Process process;
    process.connection = Connect(task_);
    const UniqueFd json = ProcessJson(script, true);
    process.started = process.connection.Call(
        Message(Kind::kExec).Add(Tag::kConsole, std::uint64_t{1}),
        std::array{json.get()}, kSoon);
    if (process.started && process.started->fds.size() == 2) {
      process.out = std::move(process.started->fds[1]);
    }
    return process;
  }

  // Sends the fds to the console socket of the exec that waits.
  static void SendToConsole(const Task& task, const std::vector<int>& fds) {
    std::string path;
    for (const auto& entry : fs::directory_iterator(task.directory)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("exec-") && name.ends_with(".sock")) {
        path = entry.path();
      }
    }
    const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(ConnectUnix(socket.get(), path), 0) << path;
    ASSERT_TRUE(
        SendWithFds(socket.get(), std::as_bytes(std::span("x", 1)), fds));
  }

  // Returns how many files of exec are left in the task's directory.
  int LeftFiles() const {
    int left = 0;
    for (const auto& entry : fs::directory_iterator(task_.directory)) {
      left += entry.path().filename().string().starts_with("exec-") ? 1 : 0;
    }
    return left;
  }

  Task task_;
};

TEST_F(TaskShimExec, KeepsTheStreamsApartAndTellsTheCode) {
  Process process = Exec("read line; echo out $line; echo err >&2; exit 43");
  ASSERT_TRUE(process.started) << process.started.error().Message();
  ASSERT_EQ(::write(process.in.get(), "hello\n", 6), 6);
  EXPECT_EQ(process.Exit(), "code 43");
  EXPECT_EQ(AllOf(process.out.get()), "out hello\n");
  EXPECT_EQ(AllOf(process.err.get()), "err\n");
  EXPECT_EQ(LeftFiles(), 0);
}

TEST_F(TaskShimExec, RunsInTheContainerWithoutNewPrivileges) {
  Process process = Exec(
      "grep NoNewPrivs /proc/self/status; echo $(readlink /proc/1/ns/net "
      "/proc/self/ns/net | uniq | wc -l); cat /proc/1/comm");
  ASSERT_TRUE(process.started) << process.started.error().Message();
  EXPECT_EQ(AllOf(process.out.get()), "NoNewPrivs:\t1\n1\nsleep\n");
  // The process is in the container's cgroup, beside the task.
  Process other = Exec("exec sleep 1000");
  ASSERT_TRUE(other.started) << other.started.error().Message();
  std::ifstream procs(CgroupOf("web") + "/cgroup.procs");
  int count = 0;
  for (std::string pid; std::getline(procs, pid);) {
    ++count;
  }
  EXPECT_EQ(count, 2);
}

TEST_F(TaskShimExec, TellsTheSignalThatTheCallerSends) {
  Process process = Exec("exec sleep 1000");
  ASSERT_TRUE(process.started) << process.started.error().Message();
  ASSERT_EQ(process.started->fds.size(), 1U);
  ASSERT_EQ(::syscall(SYS_pidfd_send_signal, process.started->fds[0].get(),
                      SIGTERM, nullptr, 0),
            0);
  EXPECT_EQ(process.Exit(), "signal 15");
}

TEST_F(TaskShimExec, GivesTheCallerAConsole) {
  // crun sets the first size before it ends, so the process asks after that.
  Process process =
      ExecOnConsole("read a; stty size; read b; stty size; exit 3");
  ASSERT_TRUE(process.started) << process.started.error().Message();
  ASSERT_TRUE(process.out.valid());
  ASSERT_EQ(::write(process.out.get(), "\n", 1), 1);
  EXPECT_TRUE(Says(process.out.get(), "30 90"));
  const winsize size = {50, 100, 0, 0};
  ASSERT_EQ(::ioctl(process.out.get(), TIOCSWINSZ, &size), 0);
  ASSERT_EQ(::write(process.out.get(), "\n", 1), 1);
  EXPECT_THAT(AllOf(process.out.get()), ::testing::HasSubstr("50 100"));
  EXPECT_EQ(process.Exit(), "code 3");
  EXPECT_EQ(LeftFiles(), 0);
}

TEST_F(TaskShimExec, SendsControlCThroughTheConsole) {
  Process process = ExecOnConsole("echo ready; exec sleep 1000");
  ASSERT_TRUE(process.started) << process.started.error().Message();
  std::array<char, 64> text{};
  ASSERT_GT(::read(process.out.get(), text.data(), text.size()), 0);
  ASSERT_EQ(::write(process.out.get(), "\x03", 1), 1);
  EXPECT_EQ(process.Exit(), "signal 2");
}

TEST_F(TaskShimExec, AFailedExecLeavesTheOthersAlone) {
  Process other = Exec("echo here; read line; exit 7");
  ASSERT_TRUE(other.started);
  EXPECT_TRUE(Says(other.out.get(), "here"));
  auto wrong = MemoryWith("process.json",
                          R"({"user": {"uid": 0, "gid": 0}, "cwd": "/",
                             "args": ["/no/such/program"]})");
  ASSERT_TRUE(wrong);
  auto connection = Connect(task_);
  std::array<int, 2> null{};
  ASSERT_EQ(::pipe2(null.data(), O_CLOEXEC), 0);
  const UniqueFd read(null[0]);
  const UniqueFd write(null[1]);
  EXPECT_FALSE(connection.Call(
      Message(Kind::kExec),
      std::array{wrong->get(), read.get(), write.get(), write.get()}, kSoon));
  EXPECT_EQ(::write(other.in.get(), "\n", 1), 1);
  EXPECT_EQ(other.Exit(), "code 7");
}

TEST_F(TaskShimExec, SaysThatThereIsNoSuchProgram) {
  Process process;
  process.connection = Connect(task_);
  auto json = MemoryWith("process.json", R"({"user": {"uid": 0, "gid": 0},
      "cwd": "/", "args": ["/no/such/program"]})");
  ASSERT_TRUE(json);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  process.started = process.connection.Call(
      Message(Kind::kExec),
      std::array{json->get(), null.get(), null.get(), null.get()}, kSoon);
  ASSERT_FALSE(process.started);
  EXPECT_THAT(process.started.error().Message(),
              ::testing::HasSubstr("/no/such/program"));
  EXPECT_EQ(process.started.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(LeftFiles(), 0);
}

// A naive shim leaves the process of a driver that was killed.
TEST_F(TaskShimExec, EndsTheProcessWithItsCaller) {
  Process process = Exec("exec sleep 1000");
  ASSERT_TRUE(process.started) << process.started.error().Message();
  process.connection = shim::ShimConnection(UniqueFd());
  pollfd ended = {process.started->fds[0].get(), POLLIN, 0};
  EXPECT_EQ(::poll(&ended, 1, 60'000), 1);
  EXPECT_TRUE(IsPopulated("web"));
}

// A container can stop each process that enters it. A naive shim keeps such a
// runtime until the task's end.
TEST_F(TaskShimExec, ARuntimeThatHangsEndsWithItsCaller) {
  runtime_ = "/run/hanging-runtime";
  std::ofstream(runtime_) << "#!/bin/sh\n"
                             "case \"$*\" in *' exec '*) sleep 1000;; esac\n"
                             "exec crun \"$@\"\n"
                          << std::flush;
  ASSERT_EQ(::chmod(runtime_.c_str(), 0755), 0);
  const Task task = Run("hangs", "exec sleep 1000");
  ASSERT_FALSE(HasFailure());
  const std::string shim = std::to_string(ShimOf(task));
  const auto children = [&shim] {
    std::ifstream file("/proc/" + shim + "/task/" + shim + "/children");
    return std::distance(std::istream_iterator<pid_t>(file), {});
  };
  const UniqueFd json = ProcessJson("exit 0", false);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  {
    auto connection = Connect(task);
    const auto started = connection.Call(
        Message(Kind::kExec),
        std::array{json.get(), null.get(), null.get(), null.get()},
        std::chrono::milliseconds(300));
    ASSERT_FALSE(started);
    EXPECT_EQ(started.error().code, Code::kDeadlineExceeded);
    EXPECT_EQ(children(), 2);
  }
  EXPECT_TRUE(Eventually([&] { return children() == 1; }));
  EXPECT_EQ(Delete(task, true), "Ok");
}

// A naive shim kills the process that such a runtime has made, and leaves what
// that process has begun.
TEST_F(TaskShimExec, ARuntimeThatHangsAfterItsWorkLeavesNothing) {
  runtime_ = "/run/lingering-runtime";
  std::ofstream(runtime_)
      << "#!/bin/sh\n"
         "case \"$*\" in *' exec '*) crun \"$@\"; exec sleep 1000;; esac\n"
         "exec crun \"$@\"\n"
      << std::flush;
  ASSERT_EQ(::chmod(runtime_.c_str(), 0755), 0);
  const Task task = Run("lingers", "exec sleep 1000");
  ASSERT_FALSE(HasFailure());
  const auto processes = [this] {
    std::ifstream procs(CgroupOf("lingers") + "/cgroup.procs");
    return std::distance(std::istream_iterator<pid_t>(procs), {});
  };
  const UniqueFd json =
      ProcessJson("sleep 1001 & (sleep 1002; true); true", false);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  {
    auto connection = Connect(task);
    ASSERT_TRUE(connection.Post(
        Message(Kind::kExec),
        std::array{json.get(), null.get(), null.get(), null.get()}));
    // The task's, the runtime that hangs, two shells and two sleeps.
    ASSERT_TRUE(Eventually([&] { return processes() == 6; })) << processes();
  }
  EXPECT_TRUE(Eventually([&] { return processes() == 1; }));
  EXPECT_EQ(Delete(task, true), "Ok");
}

// The shim takes the first connection to its console socket, so the test is
// there before the runtime.
TEST_F(TaskShimExec, AConsoleSocketTakesOneTerminalAlone) {
  runtime_ = "/run/waiting-runtime";
  std::ofstream(runtime_)
      << "#!/bin/sh\ncase \"$*\" in *' exec '*) touch /run/tasks/waits; "
         "while test -e /run/tasks/waits; do sleep 0.01; done;; esac\n"
         "exec crun \"$@\"\n"
      << std::flush;
  ASSERT_EQ(::chmod(runtime_.c_str(), 0755), 0);
  const Task task = Run("console", "exec sleep 1000");
  ASSERT_FALSE(HasFailure());
  const UniqueFd terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  const UniqueFd json = ProcessJson("exec sleep 1000", true);
  const std::vector<std::vector<int>> sent = {{},
                                              {null.get()},
                                              {terminal.get(), null.get()},
                                              {null.get(), terminal.get()},
                                              {terminal.get(), terminal.get()}};
  for (const std::vector<int>& fds : sent) {
    auto connection = Connect(task);
    ASSERT_TRUE(connection.Post(
        Message(Kind::kExec).Add(Tag::kConsole, std::uint64_t{1}),
        std::array{json.get()}));
    ASSERT_TRUE(Eventually([] { return fs::exists("/run/tasks/waits"); }));
    SendToConsole(task, fds);
    fs::remove("/run/tasks/waits");
    const auto started = connection.Next(kSoon);
    EXPECT_FALSE(started) << fds.size();
    EXPECT_TRUE(Eventually([&] {
      std::ifstream procs(CgroupOf("console") + "/cgroup.procs");
      return std::distance(std::istream_iterator<pid_t>(procs), {}) == 1;
    })) << fds.size();
  }
  EXPECT_EQ(Delete(task, true), "Ok");
}

TEST_F(TaskShimExec, EndsWithTheTask) {
  Process process = Exec("exec sleep 1000");
  ASSERT_TRUE(process.started) << process.started.error().Message();
  EXPECT_EQ(ExitOf(Stop(task_, SIGKILL, 0)), "signal 9");
  EXPECT_EQ(process.Exit(), "signal 9");
  EXPECT_FALSE(Exec("exit 0").started);
  EXPECT_EQ(Delete(task_, false), "Ok");
}

TEST_F(TaskShimExec, RefusesAnotherNumberOfFds) {
  auto connection = Connect(task_);
  const auto refused = connection.Call(Message(Kind::kExec), {}, kSoon);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kInvalidArgument);
}

TEST_F(TaskShimExec, ServesManyCallersAtOnce) {
  std::array<std::string, 8> exits;
  {
    std::vector<std::jthread> callers;
    for (std::size_t i = 0; i < exits.size(); ++i) {
      callers.emplace_back([&, i] {
        Process process = Exec("exit " + std::to_string(i));
        exits.at(i) = process.started ? process.Exit()
                                      : process.started.error().Message();
      });
    }
  }
  for (std::size_t i = 0; i < exits.size(); ++i) {
    EXPECT_EQ(exits.at(i), "code " + std::to_string(i));
  }
}

}  // namespace
}  // namespace mountd::testing
