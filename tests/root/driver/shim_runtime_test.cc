// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-task-shim with other ways to make a container, and with hostile
// callers.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>

#include "agent/driver/protocol/message_socket.h"
#include "mountd/base/memory_file.h"
#include "tests/root/driver/shim_fixture.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using shim::Kind;
using shim::Message;
using shim::Tag;

class TaskShimRuntime : public ShimFixture {};

TEST_F(TaskShimRuntime, MountsAnOverlayAsTheRoot) {
  Task task = MakeTask("web");
  for (const char* name : {"/upper", "/work"}) {
    const std::string path = task.directory + name;
    ASSERT_TRUE(fs::create_directory(path));
    ASSERT_EQ(::chown(path.c_str(), kTaskUser, kTaskUser), 0);
  }
  const auto launch = MakeOverlayLaunch(task, "echo written > /file; exit 7");
  auto shim = shim::LaunchShim(launch);
  ASSERT_TRUE(shim) << shim.error().Message();
  task.shim.emplace(*std::move(shim));
  const auto created = task.shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
  ASSERT_TRUE(created) << created.error().Message();
  Start(task);
  EXPECT_EQ(WaitFor(task), "code 7");
  EXPECT_TRUE(fs::exists(task.directory + "/upper/file"));
  // No mount of the shim's is on the host.
  std::ifstream mounts("/proc/self/mountinfo");
  const std::string text{std::istreambuf_iterator<char>(mounts), {}};
  EXPECT_EQ(text.find("overlay /run/tasks"), std::string::npos);
  EXPECT_EQ(text.find("bundle/rootfs"), std::string::npos);
  EXPECT_EQ(Delete(task, false), "Ok");
}

// A capability that the agent has in its ambient set, as by systemd's
// AmbientCapabilities=, is no shim's.
TEST_F(TaskShimRuntime, HasNoAmbientCapability) {
  const Task task = MakeTask("web");
  shim::Launch launch = MakeLaunch(task, "exit 0");
  launch.program = "/run/says-its-capabilities";
  std::ofstream(launch.program)
      << "#!/bin/sh\ngrep CapAmb /proc/self/status >/run/said.new\n"
         "mv /run/said.new /run/said\n";
  ASSERT_EQ(::chmod(launch.program.c_str(), 0755), 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  std::array<__user_cap_data_struct, 2> sets{};
  ASSERT_EQ(::syscall(SYS_capget, &header, sets.data()), 0);
  const std::uint32_t before = sets[0].inheritable;
  sets[0].inheritable |= 1U << CAP_NET_RAW;
  ASSERT_EQ(::syscall(SYS_capset, &header, sets.data()), 0);
  ASSERT_EQ(
      ::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_NET_RAW, 0UL, 0UL), 0);
  EXPECT_TRUE(shim::LaunchShim(std::move(launch)));
  sets[0].inheritable = before;  // takes it from the ambient set, too
  ASSERT_EQ(::syscall(SYS_capset, &header, sets.data()), 0);
  ASSERT_TRUE(Eventually([] { return fs::exists("/run/said"); }));
  std::string said;
  std::getline(std::ifstream("/run/said"), said);
  EXPECT_EQ(said, "CapAmb:\t0000000000000000");
}

TEST_F(TaskShimRuntime, SaysWhyItCannotMountTheRoot) {
  const Task task = MakeTask("web");
  // There are no directories for the overlay.
  auto shim = shim::LaunchShim(MakeOverlayLaunch(task, "exit 0"));
  ASSERT_TRUE(shim) << shim.error().Message();
  const auto created = shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().Message(),
              ::testing::HasSubstr("cannot mount the root file system"));
  EXPECT_FALSE(IsPopulated("web"));
}

TEST_F(TaskShimRuntime, SaysWhyItCannotRunTheRuntime) {
  runtime_ = "/no/such/runtime";
  const Task task = MakeTask("web");
  auto shim = shim::LaunchShim(MakeLaunch(task, "exit 0"));
  ASSERT_TRUE(shim) << shim.error().Message();
  const auto created = shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
  ASSERT_FALSE(created);
  EXPECT_THAT(created.error().Message(),
              ::testing::HasSubstr("cannot run the runtime: No such file"));
}

TEST_F(TaskShimRuntime, DeletesATaskWhoseRuntimeHangs) {
  runtime_ = "/run/hanging-runtime";
  std::ofstream(runtime_) << "#!/bin/sh\n"
                             "case \"$*\" in *create*) exec sleep 1000;; esac\n"
                             "exec crun \"$@\"\n";
  ASSERT_EQ(::chmod(runtime_.c_str(), 0755), 0);
  const Task task = MakeTask("web");
  auto shim = shim::LaunchShim(MakeLaunch(task, "exit 0"));
  ASSERT_TRUE(shim) << shim.error().Message();
  const auto early = shim->Call(Message(Kind::kStart), {}, kSoon);
  ASSERT_FALSE(early);
  EXPECT_EQ(early.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(Delete(task, true), "Ok");
  EXPECT_FALSE(IsPopulated("web"));
  const auto record = shim::ReadExit(task.directory_fd.get());
  ASSERT_TRUE(record) << record.error().Message();
  EXPECT_EQ(record->kind(), Kind::kFailed);
}

// A naive shim waits for the runtime for ever, and nobody ever deletes the
// task.
TEST_F(TaskShimRuntime, DeletesATaskWhoseDeleteHangs) {
  runtime_ = "/run/hanging-delete";
  std::ofstream(runtime_) << "#!/bin/sh\n"
                             "case \"$*\" in *delete*) exec sleep 1000;; esac\n"
                             "exec crun \"$@\"\n";
  ASSERT_EQ(::chmod(runtime_.c_str(), 0755), 0);
  const Task task = Run("web", "exec sleep 10000");
  EXPECT_EQ(Delete(task, true), "Ok");
  EXPECT_FALSE(IsPopulated("web"));
}

TEST_F(TaskShimRuntime, TellsThatTheKernelHadNoMemory) {
  const Task task = MakeTask("web");
  if (!LimitMemory("web", "33554432")) {
    GTEST_SKIP() << "the memory controller cannot be delegated here";
  }
  auto shim = shim::LaunchShim(
      MakeLaunch(task, "exec head -c 200000000 /dev/zero | tail"));
  ASSERT_TRUE(shim) << shim.error().Message();
  const auto created = shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
  ASSERT_TRUE(created) << created.error().Message();
  const auto started = shim->Call(Message(Kind::kStart), {}, kSoon);
  ASSERT_TRUE(started) << started.error().Message();
  EXPECT_THAT(WaitFor(task), ::testing::EndsWith(" oom"));
}

TEST_F(TaskShimRuntime, RefusesASecondShimOfATask) {
  const Task task = Run("web", "exec sleep 1000");
  auto second = shim::LaunchShim(MakeLaunch(task, "exit 0"));
  ASSERT_TRUE(second) << second.error().Message();
  const auto created = second->Call(Message(Kind::kAwaitCreated), {}, kSoon);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().code, Code::kAlreadyExists)
      << created.error().Message();
  // The first shim still has its task.
  EXPECT_FALSE(shim::ReadExit(task.directory_fd.get()));
  EXPECT_EQ(ExitOf(Stop(task, SIGKILL, 0)), "signal 9");
  EXPECT_TRUE(shim::ReadExit(task.directory_fd.get()));
  EXPECT_EQ(Delete(task, false), "Ok");
  // The record stays, and nobody starts the task again in this directory.
  auto third = shim::LaunchShim(MakeLaunch(task, "exit 0"));
  ASSERT_TRUE(third) << third.error().Message();
  EXPECT_FALSE(third->Call(Message(Kind::kAwaitCreated), {}, kSoon));
  EXPECT_EQ(shim::ReadExit(task.directory_fd.get())->Number(Tag::kExitSignal),
            9U);
}

class TaskShimCallers : public ShimFixture {};

TEST_F(TaskShimCallers, AnswersThatItDoesNotKnowARequestOfANewerDriver) {
  const Task task = Run("web", "exec sleep 1000");
  auto connection = Connect(task);
  const auto answer =
      connection.Call(Message(static_cast<Kind>(63)), {}, kSoon);
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::kNotSupported);
  // The connection goes on.
  EXPECT_TRUE(connection.Call(Message(Kind::kGetStatus), {}, kSoon));
}

TEST_F(TaskShimCallers, ServesOthersBesideACallerThatDoesNotRead) {
  const Task task = Run("web", "exec sleep 1000");
  const auto connection = Connect(task);
  for (int i = 0; i < 10'000; ++i) {
    if (!shim::Send(connection.fd(), Message(Kind::kGetStatus))) {
      // The shim reads no faster, or has dropped the caller.
      ::usleep(100);
    }
  }
  EXPECT_TRUE(Ask(task, Kind::kGetStatus));
}

TEST_F(TaskShimCallers, ServesOthersBesideACallerWithoutAMessage) {
  const Task task = Run("web", "exec sleep 1000");
  const auto silent = Connect(task);
  const auto hostile = Connect(task);
  ASSERT_EQ(::send(hostile.fd(), "garbage", 7, 0), 7);
  EXPECT_TRUE(Ask(task, Kind::kGetStatus));
}

TEST_F(TaskShimCallers, GoesOnWithoutMoreConnectionsThanItMayHave) {
  const Task task = Run("web", "exec sleep 1000");
  {
    std::list<shim::ShimConnection> many;
    for (int i = 0; i < 400; ++i) {
      auto connection = shim::ShimConnection::Open(task.directory_fd.get());
      if (connection) {
        many.push_back(*std::move(connection));
      }
    }
  }
  EXPECT_TRUE(Eventually([&] {
    auto connection = shim::ShimConnection::Open(task.directory_fd.get());
    return connection && connection->Call(Message(Kind::kGetStatus), {}, kSoon);
  }));
}

TEST_F(TaskShimCallers, RefusesAnotherUser) {
  const Task task = Run("web", "exec sleep 1000");
  // Even if the directory were open for all.
  ASSERT_EQ(::chmod(task.directory.c_str(), 0777), 0);
  ASSERT_EQ(::chmod((task.directory + "/shim.sock").c_str(), 0777), 0);
  const pid_t other = ::fork();
  if (other == 0) {
    constexpr uid_t kOther = 60003;
    const bool is_other = ::setresgid(kOther, kOther, kOther) == 0 &&
                          ::setresuid(kOther, kOther, kOther) == 0;
    auto connection = shim::ShimConnection::Open(task.directory_fd.get());
    const bool is_refused =
        is_other && connection &&
        !connection->Call(Message(Kind::kGetStatus), {}, kSoon);
    ::_exit(is_refused ? 0 : 1);
  }
  int status = 1;
  ASSERT_EQ(::waitpid(other, &status, 0), other);
  EXPECT_EQ(status, 0);
}

// The same tests with runc, if it is there.
class TaskShimRunc : public ShimFixture {
 protected:
  void SetUp() override {
    ShimFixture::SetUp();
    if (!IsSkipped() && !IsInstalled("runc")) {
      GTEST_SKIP() << "runc is not installed";
    }
    runtime_ = "runc";
  }
};

TEST_F(TaskShimRunc, RunsATaskAndExecAndTellsTheExits) {
  const Task task =
      Run("web", "trap 'exit 5' TERM; while :; do sleep 0.01; done");
  ASSERT_FALSE(HasFailure());
  EXPECT_TRUE(IsPopulated("web"));
  auto json = MemoryWith("process.json", R"({"user": {"uid": 0, "gid": 0},
      "cwd": "/", "env": ["PATH=/bin"], "args": ["/bin/sh", "-c", "exit 3"]})");
  ASSERT_TRUE(json);
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto connection = Connect(task);
  const auto started = connection.Call(
      Message(Kind::kExec),
      std::array{json->get(), null.get(), null.get(), null.get()}, kSoon);
  ASSERT_TRUE(started) << started.error().Message();
  EXPECT_EQ(ExitOf(connection.Next(kSoon)), "code 3");
  EXPECT_THAT(ExitOf(Stop(task, SIGTERM, 5000)),
              ::testing::AnyOf("code 5", "signal 9"));
  EXPECT_EQ(Delete(task, false), "Ok");
}

// A runc that was killed after its read from exec.fifo, and before. A naive
// shim says that the program has not begun, and the driver begins it a second
// time.
TEST_F(TaskShimRunc, StartsATaskOnceAfterAKilledStart) {
  for (const std::string name : {"after", "before"}) {
    const std::string fifo = "/run/tasks/runtime/" + name + "/exec.fifo";
    const std::string read =
        name == "after" ? "head -c 1 " + fifo + " >/dev/null; " : "";
    runtime_ = "/run/killed-runc-" + name;
    std::ofstream(runtime_) << "#!/bin/sh\ncase \"$*\" in *' start '*) " << read
                            << "kill -9 $$;; esac\nexec runc \"$@\"\n"
                            << std::flush;
    ASSERT_EQ(::chmod(runtime_.c_str(), 0755), 0);
    Task task = MakeTask(name);
    auto launch = MakeLaunch(task, "echo begun; exec sleep 1000");
    const std::string log = task.directory + "/logs/out";
    launch.create
        .Add(Tag::kStdoutSink, static_cast<std::uint64_t>(shim::Sink::kFiles))
        .Add(Tag::kStdoutPath, log)
        .Add(Tag::kLogFileBytes, std::uint64_t{4096})
        .Add(Tag::kLogFiles, std::uint64_t{2});
    auto shim = shim::LaunchShim(std::move(launch));
    ASSERT_TRUE(shim) << shim.error().Message();
    task.shim.emplace(*std::move(shim));
    const auto created =
        task.shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
    ASSERT_TRUE(created) << created.error().Message();
    Start(task);
    Start(task);
    const auto text = [&log] {
      std::ifstream file(log + ".0");
      return std::string(std::istreambuf_iterator<char>(file), {});
    };
    EXPECT_TRUE(Eventually([&] { return text() == "begun\n"; })) << text();
    const auto status = Ask(task, Kind::kGetStatus);
    ASSERT_TRUE(status) << status.error().Message();
    EXPECT_EQ(status->message.Number(Tag::kState),
              static_cast<std::uint64_t>(shim::State::kRunning));
    EXPECT_EQ(ExitOf(Stop(task, SIGKILL, 0)), "signal 9");
    EXPECT_EQ(text(), "begun\n");
    EXPECT_EQ(Delete(task, false), "Ok");
  }
}

// A naive driver names no cgroup to runc, which then makes one of its own.
TEST_F(TaskShimRunc, RefusesAContainerOutsideOfItsCgroup) {
  names_cgroup_ = false;
  const Task task = MakeTask("web");
  auto launch = MakeLaunch(task, "echo >>/begun");
  auto shim = shim::LaunchShim(std::move(launch));
  ASSERT_TRUE(shim) << shim.error().Message();
  const auto created = shim->Call(Message(Kind::kAwaitCreated), {}, kSoon);
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().Message().find("outside of the task's cgroup"),
            std::string::npos)
      << created.error().Message();
  EXPECT_FALSE(IsPopulated("web"));
  EXPECT_FALSE(std::filesystem::exists("/run/tasks/runtime/web"));
}

}  // namespace
}  // namespace mountd::testing
