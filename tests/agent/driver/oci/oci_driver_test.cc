// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Tasks of the driver in real containers of an ordinary user.
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>
#include <utility>

#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using std::chrono::milliseconds;
using std::chrono::seconds;

class OciDriverTest : public OciFixture {};

TEST_F(OciDriverTest, RunsATaskToItsEnd) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config =
        Shell("once", "id -u; hostname; echo wrong >&2; echo x >/new; exit 7");
    ASSERT_OK_AND_ASSIGN(const StartedTask started, driver->StartTask(config));
    EXPECT_EQ(started.handle.config, config);
    Result<ExitResult> other = Error{};
    std::thread waiter([&] { other = driver->WaitTask(config.id); });
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 7");
    waiter.join();
    EXPECT_EQ(TextOf(other), "code 7");
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 7");
    EXPECT_EQ(LogOf("once"), "0\nonce\nwrong\n");
    ASSERT_OK_AND_ASSIGN(const TaskStatus status,
                         driver->InspectTask(config.id));
    EXPECT_EQ(status.state, TaskState::kExited);
    EXPECT_EQ(status.result->exit_code, 7);
    EXPECT_FALSE(fs::exists(path("image/new")));
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
    EXPECT_THAT(driver->WaitTask(config.id), IsErr(Code::kNotFound));
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsErr(Code::kNotFound));
  });
}

TEST_F(OciDriverTest, StartsATaskOnce) {
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = Shell("twice", "echo begun; sleep 1000");
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_THAT(MakeDriver()->StartTask(config), IsOk());
    TaskConfig other = config;
    other.command.back() = "exit 0";
    EXPECT_THAT(driver->StartTask(other), IsErr(Code::kAlreadyExists));
    EXPECT_THAT(driver->DestroyTask(config.id, false),
                IsErr(Code::kFailedPrecondition));
    EXPECT_TRUE(Eventually([this] { return LogOf("twice") == "begun\n"; }));
    EXPECT_THAT(driver->SignalTask(config.id, "SIGKILL"), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "signal 9");
    // The task has run, so the same request does not run it again.
    ASSERT_OK_AND_ASSIGN(const StartedTask ended, driver->StartTask(config));
    EXPECT_EQ(ended.handle.state, TaskState::kExited);
    EXPECT_EQ(LogOf("twice"), "begun\n");
    EXPECT_THAT(driver->SignalTask(config.id, "SIGHUP"),
                IsErr(Code::kFailedPrecondition));
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciDriverTest, StopsBySignalAndThenByForce) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig good =
        Shell("good", "trap 'exit 3' TERM; echo up; while :; do read x; done");
    const TaskConfig deaf =
        Shell("deaf", "trap '' TERM; echo up; while :; do sleep 1000; done");
    for (const TaskConfig* config : {&good, &deaf}) {
      ASSERT_THAT(driver->StartTask(*config), IsOk());
      ASSERT_TRUE(Eventually([&] { return LogOf(config->name) == "up\n"; }));
    }
    EXPECT_THAT(driver->StopTask(good.id, seconds(1000), ""), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(good.id)), "code 3");
    EXPECT_THAT(driver->StopTask(deaf.id, milliseconds(1), "TERM"), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(deaf.id)), "signal 9");
    EXPECT_THAT(driver->StopTask(deaf.id, milliseconds(1), ""), IsOk());
    EXPECT_THAT(driver->DestroyTask(good.id, false), IsOk());
    EXPECT_THAT(driver->DestroyTask(deaf.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciDriverTest, LeavesNothingOfATaskThatCannotStart) {
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = Shell("wrong", "");
    config.entrypoint = "/no/such/program";
    const auto failed = driver->StartTask(config);
    EXPECT_THAT(failed, IsErrOf(Code::kFailedPrecondition, "/no/such/program"));
    EXPECT_EQ(Leftovers(), "");
    config = Shell("wrong", "exit 0");
    config.user = "nobody-knows";
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kNotFound));
    config.user = "";
    config.mounts.push_back(
        {"/data", "/var", false, false, MountPropagation::kBidirectional, ""});
    EXPECT_THAT(driver->StartTask(config),
                IsErrOf(Code::kNotSupported, "bidirectional"));
    config.mounts.pop_back();
    config.network.mode = NetworkMode::kTask;
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kNotSupported));
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciDriverTest, RunsInTheHostsNetworkAndWithoutACgroup) {
  AsUser([this] {
    OciDriverOptions options = Options();
    options.cgroup = "";
    const auto driver = MakeWith(options);
    TaskConfig config = Shell("host", "readlink /proc/self/ns/net; id -u");
    config.network.mode = NetworkMode::kHost;
    config.user = "web";
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
    EXPECT_EQ(LogOf("host"),
              fs::read_symlink("/proc/self/ns/net").string() + "\n1000\n");
    EXPECT_THAT(driver->UpdateTask(config.id, {}), IsErr(Code::kNotSupported));
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciDriverTest, RunsTasksByRunc) {
  OciDriverOptions runc = Options();
  runc.runtime = "/usr/sbin/runc";
  if (::access(runc.runtime.c_str(), X_OK) != 0) {
    GTEST_SKIP() << "runc is not installed";
  }
  AsUser([this, &runc] {
    runc.cgroup = Cgroup();
    const auto driver = MakeWith(runc);
    const TaskConfig config =
        Shell("runc", "trap 'exit 3' TERM; echo up; while :; do read x; done");
    ASSERT_THAT(driver->StartTask(config), IsOk());
    ASSERT_TRUE(Eventually([this] { return LogOf("runc") == "up\n"; }));
    const std::string cgroup = CgroupOf(config.id);
    std::ifstream procs(cgroup + "/cgroup.procs");
    pid_t init = 0;
    ASSERT_TRUE(procs >> init) << "the task's cgroup is empty";
    std::ifstream membership("/proc/" + std::to_string(init) + "/cgroup");
    const std::string lines{std::istreambuf_iterator<char>(membership), {}};
    EXPECT_NE(lines.find(fs::path(cgroup).filename()), std::string::npos)
        << lines;
    ASSERT_OK_AND_ASSIGN(
        const ExecOutput done,
        driver->ExecTask(config.id, {"/bin/sh", "-c", "id -u; exit 4"},
                         seconds(1000)));
    EXPECT_EQ(done.stdout_text, "0\n");
    EXPECT_EQ(TextOf(done.result), "code 4");
    EXPECT_THAT(driver->StopTask(config.id, seconds(1000), ""), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 3");
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

// A naive driver checks the text of the destination alone, and the runtime then
// follows the image's symlink.
TEST_F(OciDriverTest, NoSymlinkOfAnImageLeadsAMountOverProc) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        fs::create_directory(path("volume"));
        int number = 0;
        for (const auto& [target, destination] :
             {std::pair("proc", "/data"), std::pair("/proc", "/data"),
              std::pair("usr/../proc/sys", "/data"),
              std::pair("..", "/data/proc"), std::pair("/dev/shm", "/data/x"),
              std::pair("hop", "/data"), std::pair("data", "/data"),
              std::pair("no/../sys", "/data")}) {
          fs::remove(path("image/data"));
          fs::create_symlink(target, path("image/data"));
          TaskConfig config =
              Shell("link-" + std::to_string(++number), "exit 0");
          config.mounts.push_back({destination, path("volume"), false, false,
                                   MountPropagation::kPrivate, ""});
          EXPECT_THAT(driver->StartTask(config),
                      IsErrOf(Code::kInvalidArgument, "symlink"))
              << target;
        }
        // Other symlinks of an image lead a mount, as before.
        fs::remove(path("image/data"));
        fs::create_symlink("tmp", path("image/data"));
        TaskConfig config = Shell("link", "ls /tmp");
        std::ofstream(path("volume/seen")) << "x" << std::flush;
        config.mounts.push_back({"/data", path("volume"), false, false,
                                 MountPropagation::kPrivate, ""});
        ASSERT_THAT(driver->StartTask(config), IsOk());
        EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
        EXPECT_NE(LogOf("link").find("seen"), std::string::npos)
            << LogOf("link");
        EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
        EXPECT_EQ(Leftovers(), "");
      },
      [this] {
        fs::create_symlink("proc", path("image/hop"));
        fs::permissions(path("image"), fs::perms(0777));
      });
}

TEST_F(OciDriverTest, RefusesAStateWhoseParentOthersMayRename) {
  AsUser([this] {
    OciDriverOptions options = Options();
    const std::string shared = path("shared");
    ASSERT_EQ(::mkdir(shared.c_str(), 0700), 0);
    options.state = shared + "/own/state";
    ASSERT_EQ(::mkdir((shared + "/own").c_str(), 0700), 0);
    EXPECT_THAT(MakeOciDriver(options), IsOk());
    ASSERT_EQ(::chmod(shared.c_str(), 0770), 0);
    EXPECT_THAT(MakeOciDriver(options), IsErr(Code::kPermissionDenied));
    // The sticky bit keeps the entries of others, as in /tmp.
    ASSERT_EQ(::chmod(shared.c_str(), 01777), 0);
    EXPECT_THAT(MakeOciDriver(options), IsOk());
  });
}

TEST(OciDriverOfRoot, IsRefused) {
  if (::geteuid() != 0) {
    GTEST_SKIP() << "needs root";
  }
  EXPECT_THAT(MakeOciDriver({}), IsErr(Code::kPermissionDenied));
}

}  // namespace
}  // namespace mountd::driver::testing
