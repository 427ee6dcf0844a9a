// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Hostile tasks and root file systems, each in a real container of crun. Each
// test has the name of its attack; tests/agent/driver/README.md lists them.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "mountd/base/unique_fd.h"
#include "tests/agent/driver/as_user.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using mountd::testing::kDriverUser;
using std::chrono::milliseconds;
using std::chrono::seconds;

class HostileTask : public OciFixture {
 protected:
  void ExpectEndsByForce(TaskDriver& driver, const TaskConfig& config) const {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_THAT(driver.DestroyTask(config.id, true), IsOk());
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(30));
    EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); })) << Leftovers();
  }
};

TEST_F(HostileTask, ADeviceNodeInTheRootOpensNothing) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        const std::string text =
            OutputOf(*driver, Shell("node",
                                    "test -c /zero && echo there; "
                                    "head -c 1 /zero && echo opened"));
        EXPECT_NE(text.find("there"), std::string::npos) << text;
        EXPECT_NE(text.find("Permission denied"), std::string::npos) << text;
        EXPECT_EQ(text.find("opened"), std::string::npos) << text;
        EXPECT_EQ(Leftovers(), "");
      },
      [this] {
        ASSERT_EQ(
            ::mknod(path("image/zero").c_str(), S_IFCHR | 0666, makedev(1, 5)),
            0);
        ASSERT_EQ(::chmod(path("image/zero").c_str(), 0666), 0);
      });
}

TEST_F(HostileTask, ATaskMakesNoDeviceNode) {
  AsUser([this] {
    const auto driver = MakeDriver();
    EXPECT_EQ(OutputOf(*driver, Shell("mknod",
                                      "mknod /sda b 8 0 2>&- || echo no block; "
                                      "mknod /dev/mem c 1 1 2>&- || echo no "
                                      "memory; exit 0")),
              "no block\nno memory\ncode 0");
    EXPECT_EQ(Leftovers(), "");
  });
}

// The file's owner is the container's root, so a naive container makes another
// user root.
TEST_F(HostileTask, ASetuidFileInTheRootGivesNobodyAnotherUser) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        TaskConfig config = Shell("setuid", "stat -c '%a %u' /id; /id -u");
        config.user = "web";
        EXPECT_EQ(OutputOf(*driver, config), "4755 0\n1000\ncode 0");
        EXPECT_EQ(Leftovers(), "");
      },
      [this] {
        fs::copy_file("/usr/bin/id", path("image/id"));
        ASSERT_EQ(::chown(path("image/id").c_str(), kDriverUser, kDriverUser),
                  0);
        ASSERT_EQ(::chmod(path("image/id").c_str(), 04755), 0);
      });
}

// A runtime that has a directory of the host open as N gives the task that
// directory (CVE-2024-21626).
TEST_F(HostileTask, AWorkingDirectoryThatIsAnFdOfTheRuntimeLeadsNowhere) {
  AsUser([this] {
    std::ofstream(path("canary")) << "the host's file\n" << std::flush;
    const auto driver = MakeDriver();
    for (int fd = 3; fd < 13; ++fd) {
      TaskConfig config =
          Shell("cwd-" + std::to_string(fd),
                "up=.; for n in 1 2 3 4 5 6 7 8; do cat $up" + path("canary") +
                    " $up/canary 2>&-; up=$up/..; done; exit 0");
      config.working_directory = "/proc/self/fd/" + std::to_string(fd);
      const std::string text = OutputOf(*driver, config);
      EXPECT_EQ(text.find("the host's file"), std::string::npos)
          << fd << " " << text;
    }
    EXPECT_EQ(Leftovers(), "");
  });
}

// A program that is a link to its own process runs the runtime
// (CVE-2019-5736).
TEST_F(HostileTask, AProgramThatIsALinkToTheRuntimeIsNoWayToIt) {
  AsUser([this] {
    const auto size = fs::file_size("/usr/bin/crun");
    const auto driver = MakeDriver();
    TaskConfig config = Shell("self", "");
    config.entrypoint = "/proc/self/exe";
    config.command = {"--version"};
    const std::string text = OutputOf(*driver, config);
    EXPECT_NE(text, "");
    EXPECT_EQ(fs::file_size("/usr/bin/crun"), size);
    EXPECT_EQ(OutputOf(*driver, Shell("after", "exit 3")), "code 3");
    EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); })) << Leftovers();
  });
}

TEST_F(HostileTask, ASymlinkOutOfTheRootLeadsNoMountToTheHost) {
  AsUser(
      [this] {
        fs::create_directory(path("outside"));
        fs::create_directory(path("volume"));
        const auto driver = MakeDriver();
        TaskConfig config = Shell("out", "echo seen; exit 0");
        config.mounts.push_back({"/data/new", path("volume"), false, false,
                                 MountPropagation::kPrivate, ""});
        OutputOf(*driver, config);
        EXPECT_TRUE(fs::is_empty(path("outside")));
        EXPECT_EQ(Leftovers(), "");
      },
      [this] {
        fs::create_symlink(path("outside"), path("image/data"));
        fs::permissions(path("image"), fs::perms(0777));
      });
}

TEST_F(HostileTask, AKernelFileOfProcIsNotWritten) {
  AsUser([this] {
    const auto driver = MakeDriver();
    EXPECT_EQ(
        OutputOf(*driver,
                 Shell("proc",
                       "for f in /proc/sysrq-trigger "
                       "/proc/sys/kernel/core_pattern "
                       "/proc/sys/vm/drop_caches /proc/irq/default_smp_affinity"
                       "; do (echo x >$f) 2>&- && echo $f; done; "
                       "head -c 1 /proc/kcore /proc/kmsg 2>&-; "
                       "mount -o remount,rw /proc/sys 2>&- && echo mounted; "
                       "umount /proc/sys 2>&- && echo uncovered; exit 0")),
        "code 0");
    EXPECT_EQ(Leftovers(), "");
  });
}

// The task could rename a directory above its log, and the shim would write the
// log elsewhere.
TEST_F(HostileTask, ALogWhereTheTaskWritesIsRefused) {
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = Shell("moved", "exit 0");
    config.directories.alloc = path("alloc");
    config.directories.logs = path("alloc/logs");
    fs::create_directories(config.directories.logs);
    fs::create_directory_symlink(path("alloc/logs"), path("elsewhere"));
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kInvalidArgument));
    config.directories.logs = path("elsewhere");
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kInvalidArgument));
    // The shim follows no link to a FIFO, so a FIFO may be there.
    config.logs.mode = LogMode::kFifos;
    config.logs.stdout_path = path("elsewhere/out");
    config.logs.stderr_path = path("alloc/logs/err");
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kInvalidArgument));
    config.logs.mode = LogMode::kFiles;
    config.directories.logs = path("alloc-logs");
    fs::create_directory(config.directories.logs);
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

// An orchestrator writes there with its user's rights (CVE-2026-6959).
TEST_F(HostileTask, ALinkInTheDirectoryOfLogsCannotBePlaced) {
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = Shell(
        "links",
        "ln -s /etc/passwd /alloc/logs/web.stdout.1 && exit 1; "
        "mv /alloc/logs /alloc/other && exit 2; rm -r /alloc/logs && exit 3; "
        "touch /alloc/data && exit 0; exit 4");
    config.directories.alloc = path("alloc");
    fs::create_directories(path("alloc/logs"));
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_TRUE(fs::is_empty(path("alloc/logs")));
    fs::remove(path("alloc/logs"));
    fs::create_directory_symlink("/etc", path("alloc/logs"));
    EXPECT_THAT(driver->StartTask(config), IsErr(Code::kInvalidArgument));
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(HostileTask, AnExecIntoATaskThatHasEndedIsRefused) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Shell("ended", "exit 0");
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, seconds(1000)),
                IsErr(Code::kFailedPrecondition));
    EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, seconds(1000)),
                IsErr(Code::kNotFound));
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(HostileTask, AnExecIntoATaskThatHasStoppedItselfEnds) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Shell("stopped", ": marked-task; sleep 10000");
    ASSERT_THAT(driver->StartTask(config), IsOk());
    ASSERT_THAT(driver->SignalTask(config.id, "SIGSTOP"), IsOk());
    const auto done = driver->ExecTask(config.id, {"true"}, seconds(1000));
    ASSERT_THAT(done, IsOk());
    EXPECT_EQ(TextOf(done->result), "code 0");
    EXPECT_THAT(driver->StopTask(config.id, milliseconds(1), ""), IsOk());
    ExpectEndsByForce(*driver, config);
  });
}

TEST_F(HostileTask, ALogFloodFillsNoMoreThanItsFiles) {
  constexpr std::uint64_t kBytes = 1U << 16U;
  constexpr std::uint32_t kFiles = 2;
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config =
        Shell("flood", "yes marked-task & exec yes marked-task >&2");
    config.logs.max_file_bytes = kBytes;
    config.logs.max_files = kFiles;
    ASSERT_THAT(driver->StartTask(config), IsOk());
    for (int look = 0; look < 20; ++look) {
      EXPECT_TRUE(Eventually([&] {
        return fs::exists(path("logs/flood.stdout.") +
                          std::to_string(10 + look)) ||
               !fs::exists(path("logs/flood.stdout.0"));
      }));
      std::uint64_t bytes = 0;
      std::error_code ignored;
      for (const auto& entry : fs::directory_iterator(path("logs"))) {
        const auto size = fs::file_size(entry.path(), ignored);
        bytes += ignored ? 0 : size;
      }
      // A look can come between a new file and the removal of the oldest one.
      EXPECT_LE(bytes, 2 * (kFiles + 1) * kBytes);
    }
    EXPECT_THAT(driver->StopTask(config.id, milliseconds(1), ""), IsOk());
    ExpectEndsByForce(*driver, config);
  });
}

// Each process has a successor before anybody has seen it, so a naive end that
// kills the processes one by one never gets them all.
TEST_F(HostileTask, AForkBombEndsWithItsTask) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Shell(
        "bomb",
        ": marked-task; next() { trap '' TERM HUP; next & exit 0; }; "
        "for n in 1 2 3 4 5 6 7 8; do (next) & done; echo up; sleep 10000");
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_TRUE(Eventually([this] { return LogOf("bomb") == "up\n"; }));
    ExpectEndsByForce(*driver, config);
  });
}

// The runtime opens /dev/ptmx in the container and sends what it gets over the
// console socket.
TEST_F(HostileTask, APtmxOfTheTasksOwnSendsTheCallerNoFd) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const char* made : {"mkfifo /dev/ptmx", "echo secret >/dev/ptmx",
                             "ln -s /proc/1/fd/0 "
                             "/dev/ptmx",
                             "ln -s /dev/zero /dev/ptmx"}) {
      const TaskConfig config = Shell(
          "ptmx", std::string(": marked-task; rm -f /dev/ptmx && ") + made +
                      " && rm -f /dev/pts/ptmx; echo up; sleep "
                      "10000");
      std::error_code ignored;
      fs::remove_all(path("logs"), ignored);
      fs::create_directory(path("logs"));
      ASSERT_THAT(driver->StartTask(config), IsOk());
      EXPECT_TRUE(Eventually(
          [this] { return LogOf("ptmx").find("up\n") != std::string::npos; }));
      const UniqueFd out(::open(path("out").c_str(),
                                O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
      ExecOptions options;
      options.command = {"/bin/sh", "-c", "test -t 1 && echo a terminal"};
      options.terminal = true;
      options.stdout_fd = out.get();
      const auto done =
          driver->streaming_exec()->ExecTaskStreaming(config.id, options);
      std::ifstream file(path("out"));
      const std::string text{std::istreambuf_iterator<char>(file), {}};
      // A real terminal of the container's devpts is no attack.
      EXPECT_TRUE(!done || text == "a terminal\r\n") << made << ": " << text;
      EXPECT_EQ(text.find("secret"), std::string::npos) << made;
      ExpectEndsByForce(*driver, config);
    }
  });
}

TEST_F(HostileTask, AnExecHasNoFdOfTheRuntimeOrTheShim) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Shell("fds", ": marked-task; sleep 10000");
    ASSERT_THAT(driver->StartTask(config), IsOk());
    const auto done = driver->ExecTask(
        config.id, {"/bin/sh", "-c", "ls /proc/$$/fd; ls /proc/1/fd"},
        seconds(1000));
    ASSERT_THAT(done, IsOk());
    EXPECT_EQ(done->stdout_text, "0\n1\n2\n0\n1\n2\n");
    ExpectEndsByForce(*driver, config);
  });
}

}  // namespace
}  // namespace mountd::driver::testing
