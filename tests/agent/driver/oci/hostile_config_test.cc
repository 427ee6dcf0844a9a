// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Hostile configurations of tasks, and tasks that hide from the driver. Each
// test has the name of its attack; tests/agent/driver/README.md lists them.
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "agent/driver/logs/log_reader.h"
#include "tests/agent/driver/as_user.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/naive.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using mountd::testing::kDriverUser;
using std::chrono::milliseconds;
using std::chrono::seconds;

class HostileConfig : public OciFixture {
 protected:
  void ExpectGone(TaskDriver& driver, const TaskConfig& config) const {
    EXPECT_THAT(driver.DestroyTask(config.id, true), IsOk());
    EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); })) << Leftovers();
  }
  std::string TextIn(const TaskConfig& config, const char* file) const {
    std::ifstream in(CgroupOf(config.id) + "/" + file);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  void WriteTo(const TaskConfig& config, const char* file,
               const char* text) const {
    std::ofstream out(CgroupOf(config.id) + "/" + file);
    out << text << std::flush;
    EXPECT_TRUE(out) << file;
  }
  // The pids of the shims that the driver has started.
  static std::vector<pid_t> Shims() { return ProcessesWith(MOUNTD_TASK_SHIM); }
  // A task that has the name and the command line of a shim.
  TaskConfig Masked(const std::string& name) const {
    TaskConfig config =
        Shell(name,
              "cp /usr/bin/sleep /tmp/mountd-task-shim && echo up && "
              "exec -a marked-task /tmp/mountd-task-shim 10000");
    config.entrypoint = "/bin/bash";
    return config;
  }
  void StartMasked(TaskDriver& driver, const TaskConfig& config) const {
    ASSERT_THAT(driver.StartTask(config), IsOk());
    ASSERT_TRUE(Eventually([&] {
      std::string name;
      for (const pid_t pid : ProcessesWith("marked-task")) {
        std::ifstream file("/proc/" + std::to_string(pid) + "/comm");
        std::getline(file, name);
      }
      return name == "mountd-task-shi";
    })) << LogOf(config.name);
  }
};

TEST_F(HostileConfig, AWorkingDirectoryThatLeadsOutStaysInTheRoot) {
  const std::string up = "../../../../../../../..";
  AsUser(
      [&] {
        std::ofstream(path("outside/canary")) << "the host's" << std::flush;
        EXPECT_NAIVE(fs::exists(path("image/out/canary")));
        const auto driver = MakeDriver();
        for (const char* directory :
             {"/out", "/absolute", "/out/new", "/absolute/new", "/dangling",
              "/loop", "/zero"}) {
          TaskConfig config =
              Shell("cwd", "cat canary; echo evil >written; exit 0");
          config.working_directory = directory;
          const std::string text = OutputOf(*driver, config);
          EXPECT_EQ(text.find("the host's"), std::string::npos) << text;
          fs::remove_all(path("logs"));
          fs::create_directory(path("logs"));
          EXPECT_EQ(Leftovers(), "") << directory;
        }
        EXPECT_FALSE(fs::exists(path("evil")));
        EXPECT_EQ(std::distance(fs::directory_iterator(path("outside")), {}),
                  1);
      },
      [&] {
        fs::create_directory(path("outside"));
        fs::permissions(path("outside"), fs::perms(0777));
        const std::string image = path("image/");
        fs::create_symlink(up + path("outside"), image + "out");
        fs::create_symlink(path("outside"), image + "absolute");
        fs::create_symlink(up + path("evil"), image + "dangling");
        fs::create_symlink("loop", image + "loop");
        std::ofstream(image + "zero") << std::flush;
      });
}

// A naive driver waits for a FIFO, and reads a device without an end.
TEST_F(HostileConfig, AUsersFileThatIsADeviceGivesNoUser) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        TaskConfig config = Shell("user", "id -u; id -g");
        for (const char* image : {"zero", "fifo", "directory"}) {
          config.image = "dir:" + path(image);
          config.user = "web";
          EXPECT_THAT(driver->StartTask(config),
                      IsErrOf(Code::kInvalidArgument, "regular file"))
              << image;
          EXPECT_EQ(Leftovers(), "") << image;
        }
      },
      [this] {
        for (const char* image : {"zero", "fifo", "directory"}) {
          fs::copy(
              path("image"), path(image),
              fs::copy_options::recursive | fs::copy_options::copy_symlinks);
          fs::remove(path(image) + "/etc/passwd");
        }
        ASSERT_EQ(::mknod(path("zero/etc/passwd").c_str(), S_IFCHR | 0666,
                          makedev(1, 5)),
                  0);
        ASSERT_EQ(::mkfifo(path("fifo/etc/passwd").c_str(), 0666), 0);
        fs::create_directory(path("directory/etc/passwd"));
      });
}

// The kernel takes the id 4294967295 for "no change", so the process would stay
// root. A number that wraps around would be root, too.
TEST_F(HostileConfig, AnAbsurdLineOfTheUsersFileMakesNobodyRoot) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        for (const char* user : {"none", "wraps", "minus", "blank", "hex",
                                 "broken", "long", "mapped"}) {
          TaskConfig config = Shell("absurd", "id -u; id -g");
          config.user = user;
          const std::string text = OutputOf(*driver, config);
          EXPECT_TRUE(text.starts_with("not started: ")) << user << text;
          EXPECT_EQ(Leftovers(), "") << user;
        }
        TaskConfig config = Shell("after", "id -u; id -g");
        config.user = "after";
        EXPECT_EQ(OutputOf(*driver, config), "7\n8\ncode 0");
      },
      [this] {
        std::ofstream(path("image/etc/passwd"))
            << "none:x:4294967295:4294967295::/:/bin/sh\n"
            << "wraps:x:4294967296:4294967296::/:/bin/sh\n"
            << "minus:x:-1:-1::/:/bin/sh\n"
            << "blank:x:::::/bin/sh\n"
            << "hex:x:0x0:0x0::/:/bin/sh\n"
            << "broken\n\n::::::\n"
            << std::string(900'000, ':') << "\n"
            << "long" << std::string(100'000, 'x') << ":x:0:0::/:/bin/sh\n"
            << "mapped:x:2000000000:0::/:/bin/sh\n"
            << "after:x:7:8::/:/bin/sh\n"
            << std::flush;
      });
}

// A naive runtime waits for the writer of a FIFO.
TEST_F(HostileConfig, AnEntrypointThatIsNoProgramEndsTheStart) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        for (const char* program :
             {"/etc", "/fifo", "/zero", "/loop", "/text", "/", "/proc/1/mem",
              "etc", "../../bin/sh", "/out"}) {
          TaskConfig config = Shell("entry", "exit 7");
          config.entrypoint = program;
          const std::string text = OutputOf(*driver, config);
          EXPECT_TRUE(text.starts_with("not started: ") ||
                      text.find("the host's") == std::string::npos)
              << program << ": " << text;
          EXPECT_EQ(text.find("code 0"), std::string::npos) << program;
          EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); }))
              << program << Leftovers();
        }
        EXPECT_FALSE(fs::exists(path("ran")));
      },
      [this] {
        const std::string image = path("image/");
        ASSERT_EQ(::mkfifo((image + "fifo").c_str(), 0777), 0);
        ASSERT_EQ(
            ::mknod((image + "zero").c_str(), S_IFCHR | 0777, makedev(1, 5)),
            0);
        fs::create_symlink("loop", image + "loop");
        std::ofstream(image + "text") << "no program" << std::flush;
        std::ofstream(path("out")) << "#!/bin/sh\ntouch " << path("ran") << "\n"
                                   << std::flush;
        fs::create_symlink("../../../../../../../.." + path("out"),
                           image + "out");
        for (const std::string& file :
             {image + "fifo", image + "zero", image + "text", path("out")}) {
          fs::permissions(file, fs::perms(0777));
        }
      });
}

// The runtime's process of an exec freezes as soon as it is in the cgroup, so a
// naive driver waits for that process for ever.
TEST_F(HostileConfig, AnExecIntoAFrozenTaskEndsAtItsDeadline) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Shell("frozen", ": marked-task; sleep 10000");
    ASSERT_THAT(driver->StartTask(config), IsOk());
    WriteTo(config, "cgroup.freeze", "1");
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, milliseconds(50)),
                IsErr(Code::kDeadlineExceeded));
    WriteTo(config, "cgroup.freeze", "0");
    const auto done =
        driver->ExecTask(config.id, {"echo", "told"}, seconds(1000));
    ASSERT_THAT(done, IsOk());
    EXPECT_EQ(done->stdout_text, "told\n");
    EXPECT_TRUE(Eventually([&] {
      const std::string pids = TextIn(config, "cgroup.procs");
      return std::count(pids.begin(), pids.end(), '\n') == 2;
    })) << TextIn(config, "cgroup.procs");
    WriteTo(config, "cgroup.freeze", "1");
    EXPECT_THAT(driver->StopTask(config.id, milliseconds(1), ""), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "signal 9");
    ExpectGone(*driver, config);
  });
}

TEST_F(HostileConfig, ALogWithoutALineEndMeetsItsBounds) {
  constexpr std::uint64_t kBytes = 1U << 20U;
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config =
        Shell("line", "head -c 6000000 /dev/zero | tr '\\0' x; echo; exit 0");
    config.logs.max_file_bytes = kBytes;
    config.logs.max_files = 2;
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
    std::uint64_t kept = 0;
    for (const auto& entry : fs::directory_iterator(path("logs"))) {
      kept += fs::file_size(entry.path());
    }
    EXPECT_LE(kept, 2 * kBytes);
    LogRequest request;
    request.config = config.logs;
    request.directories = config.directories;
    request.task = config.name;
    request.task_id = config.id;
    request.tail_lines = 1;
    ASSERT_OK_AND_ASSIGN(const auto reader, OpenLog(request));
    std::uint64_t read = 0;
    for (;;) {
      ASSERT_OK_AND_ASSIGN(const auto part, reader->Read(milliseconds(0)));
      if (!part) {
        break;
      }
      EXPECT_LE(part->size(), LogReader::kMostBytes);
      read += part->size();
    }
    EXPECT_EQ(read, kept);
    ExpectGone(*driver, config);
  });
}

TEST_F(HostileConfig, ATaskChangesNoCgroup) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const std::string text = OutputOf(
        *driver,
        Shell("cgroups",
              "mkdir /sys/fs/cgroup/own 2>&- && echo made; "
              "mount -o remount,rw /sys/fs/cgroup 2>&- && echo remounted; "
              "mount -t cgroup2 none /tmp 2>&- && echo mounted; "
              "unshare -C true 2>&- && echo unshared; "
              "for f in $(find /sys/fs/cgroup -name cgroup.procs "
              "-o -name 'pids.max' -o -name cgroup.freeze 2>&-); do "
              "(echo 0 >$f) 2>&- && echo wrote $f; done; exit 0"));
    EXPECT_EQ(text, "code 0");
    EXPECT_EQ(Leftovers(), "");
  });
}

// A process of the same user makes cgroups beneath the task's, and puts a
// process of the task there. A naive driver looks into the task's own alone.
TEST_F(HostileConfig, ATaskInASubtreeOfCgroupsEndsAsAWhole) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const bool has_shim : {true, false}) {
      const TaskConfig config = Shell("tree", ": marked-task; sleep 10000");
      ASSERT_THAT(driver->StartTask(config), IsOk());
      EXPECT_TRUE(
          Eventually([] { return ProcessesWith("sleep").size() == 2; }));
      fs::create_directories(CgroupOf(config.id) + "/a/b/c");
      for (const pid_t pid : ProcessesWith("marked-task")) {
        WriteTo(config, "a/b/c/cgroup.procs", std::to_string(pid).c_str());
      }
      EXPECT_NAIVE(TextIn(config, "cgroup.procs").find('\n') ==
                   TextIn(config, "cgroup.procs").rfind('\n'));
      if (!has_shim) {
        for (const pid_t shim : Shims()) {
          ::kill(shim, SIGKILL);
        }
        EXPECT_TRUE(Eventually([] { return Shims().empty(); }));
      }
      EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kRunning);
      EXPECT_THAT(driver->DestroyTask(config.id, false),
                  IsErr(Code::kFailedPrecondition));
      ExpectGone(*driver, config);
    }
  });
}

// A naive driver knows a shim by its name, and takes this task for none.
TEST_F(HostileConfig, ATaskWithTheNameOfAShimIsATask) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Masked("masked");
    ASSERT_NO_FATAL_FAILURE(StartMasked(*driver, config));
    const auto running = DirectoriesOfRunningTasks(config.allocation);
    ASSERT_THAT(running, IsOk());
    EXPECT_EQ(*running, std::vector<std::string>{TaskDirectory(config.id)});
    for (const pid_t shim : Shims()) {
      ::kill(shim, SIGKILL);
    }
    EXPECT_TRUE(Eventually([&] {
      const auto status = driver->InspectTask(config.id);
      return status && status->attributes.at("phase") == "lost";
    }));
    EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kRunning);
    EXPECT_THAT(driver->DestroyTask(config.id, false),
                IsErr(Code::kFailedPrecondition));
    ExpectGone(*driver, config);
  });
}

TEST_F(HostileConfig, ATaskWithTheNameOfAShimEndsWithNoOtherTask) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig other = Shell("other", ": marked-task; sleep 10000");
    ASSERT_THAT(driver->StartTask(other), IsOk());
    const std::vector<pid_t> shims = Shims();
    ASSERT_EQ(shims.size(), 1U);
    const TaskConfig config = Masked("masked");
    ASSERT_NO_FATAL_FAILURE(StartMasked(*driver, config));
    // The driver kills a shim that is stopped, by its name and directory.
    ::kill(shims.front(), SIGSTOP);
    EXPECT_THAT(driver->DestroyTask(other.id, true), IsOk());
    EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kRunning);
    EXPECT_EQ(driver->InspectTask(config.id)->attributes.at("phase"),
              "running");
    EXPECT_THAT(driver->ExecTask(config.id, {"true"}, seconds(1000)), IsOk());
    ExpectGone(*driver, config);
  });
}

}  // namespace
}  // namespace mountd::driver::testing
