// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Somebody kills the driver, the shim or the runtime at some moment of a call.
// The same call is then right, and a task's program begins once.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include "mountd/base/unique_fd.h"
#include "mountd/base/unix_socket.h"
#include "tests/agent/driver/oci/oci_kill_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A start takes 30 to 60 ms.
constexpr std::array<useconds_t, 7> kMoments = {0,      8000,   14'000, 20'000,
                                                26'000, 36'000, 60'000};

// From the first look of the process that is killed.
constexpr std::array<useconds_t, 6> kStepMoments = {0,    1500,   3500,
                                                    7000, 11'000, 18'000};

constexpr uid_t kOtherUser = 1000;

constexpr char kLost[] =
    "the exit status is lost, because somebody has killed the task's shim";

class OciKill : public KillFixture {
 protected:
  void ExpectOnceAfterFire(const std::string& text,
                           const OciDriverOptions& options) const {
    const auto driver = MakeWith(options);
    for (const useconds_t moment : kStepMoments) {
      const TaskConfig config =
          Counted("fire-" + std::to_string(moment) + "-" + text.substr(0, 4));
      UnderFire(text, moment,
                [&] { IgnoreBecauseBestEffort(driver->StartTask(config)); });
      const auto again = driver->StartTask(config);
      EXPECT_THAT(again, IsOk()) << text << " " << moment;
      const auto status = driver->InspectTask(config.id);
      ASSERT_THAT(status, IsOk()) << text << " " << moment;
      // A runtime that was killed between the two halves of its start leaves
      // a task that nobody may start again.
      if (status->state == TaskState::kRunning) {
        EXPECT_TRUE(BeginsOnce(config)) << text << " " << moment;
      } else {
        EXPECT_LE(Begun(config), 1) << text << " " << moment;
        EXPECT_FALSE(driver->WaitTask(config.id)->IsSuccess());
      }
      EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
      EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); }))
          << text << " " << moment << "\n"
          << Leftovers();
    }
  }

  void ExpectTheTaskGoesOn(const OciDriverOptions& options) const {
    const auto driver = MakeWith(options);
    const TaskConfig config = Begin(*driver, "lost");
    const std::vector<pid_t> shims = ProcessesWith("mountd-task-shim");
    ASSERT_EQ(shims.size(), 1U);
    // One waiter is there before, and one comes after.
    Result<ExitResult> before = Error{};
    std::thread waiter([&] { before = driver->WaitTask(config.id); });
    ::kill(shims.front(), SIGKILL);
    const auto other = MakeWith(options);
    TaskHandle handle;
    handle.config = config;
    EXPECT_TRUE(
        Eventually([&] { return ProcessesWith("mountd-task-shim").empty(); }));
    EXPECT_THAT(other->RecoverTask(handle), IsOk());
    const auto status = other->InspectTask(config.id);
    ASSERT_THAT(status, IsOk());
    EXPECT_EQ(status->state, TaskState::kRunning);
    EXPECT_EQ(status->attributes.at("phase"), "lost");
    EXPECT_THAT(other->ExecTask(config.id, {"true"}, seconds(1000)),
                IsErrOf(Code::kFailedPrecondition, "killed the task's shim"));
    EXPECT_THAT(other->StartTask(config), IsOk());
    EXPECT_THAT(other->DestroyTask(config.id, false),
                IsErr(Code::kFailedPrecondition));
    EXPECT_EQ(Begun(config), 1);
    EXPECT_FALSE(ProcessesWith("marked-task").empty());
    EXPECT_THAT(other->StopTask(config.id, milliseconds(1), ""), IsOk());
    waiter.join();
    EXPECT_EQ(TextOf(before), kLost);
    EXPECT_EQ(TextOf(other->WaitTask(config.id)), kLost);
    EXPECT_FALSE(other->WaitTask(config.id)->IsSuccess());
    EXPECT_EQ(other->InspectTask(config.id)->state, TaskState::kExited);
    EXPECT_THAT(other->DestroyTask(config.id, false), IsOk());
    EXPECT_EQ(Leftovers(), "");
  }

  OciDriverOptions WithoutCgroups() const {
    OciDriverOptions options = Options();
    options.cgroup = "";
    return options;
  }
};

TEST_F(OciKill, TheDriverDuringStart) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const useconds_t moment : kMoments) {
      const TaskConfig config = Counted("start-" + std::to_string(moment));
      KillAfter(moment, [&](TaskDriver& other) {
        IgnoreBecauseBestEffort(other.StartTask(config));
      });
      EXPECT_THAT(driver->StartTask(config), IsOk()) << moment;
      EXPECT_TRUE(BeginsOnce(config)) << moment;
      EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk()) << moment;
      EXPECT_EQ(Leftovers(), "") << moment;
    }
  });
}

TEST_F(OciKill, TheDriverDuringStopAndDestroy) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const useconds_t moment : kMoments) {
      const TaskConfig config = Counted("end-" + std::to_string(moment));
      ASSERT_THAT(driver->StartTask(config), IsOk());
      KillAfter(moment, [&](TaskDriver& other) {
        IgnoreBecauseBestEffort(other.StopTask(config.id, seconds(1000), ""));
        IgnoreBecauseBestEffort(other.DestroyTask(config.id, false));
      });
      const auto destroyed = driver->DestroyTask(config.id, true);
      EXPECT_TRUE(destroyed || destroyed.error().code == Code::kNotFound)
          << ErrorText(destroyed.error());
      EXPECT_EQ(Leftovers(), "") << moment;
    }
  });
}

TEST_F(OciKill, TheShimDuringStart) {
  AsUser([this] { ExpectOnceAfterFire("mountd-task-shim", Options()); });
}

TEST_F(OciKill, TheShimDuringAStartWithoutCgroups) {
  AsUser([this] { ExpectOnceAfterFire("mountd-task-shim", WithoutCgroups()); });
}

TEST_F(OciKill, TheRuntimeDuringStart) {
  AsUser([this] { ExpectOnceAfterFire("crun", Options()); });
}

TEST_F(OciKill, TheShimAndTheRuntimeDuringAStartByRunc) {
  OciDriverOptions runc = Options();
  runc.runtime = "/usr/sbin/runc";
  if (::access(runc.runtime.c_str(), X_OK) != 0) {
    GTEST_SKIP() << "runc is not installed";
  }
  AsUser([this, &runc] {
    runc.cgroup = Cgroup();
    ExpectOnceAfterFire("mountd-task-shim", runc);
    ExpectOnceAfterFire("runc", runc);
  });
}

TEST_F(OciKill, TheShimOfARunningTask) {
  AsUser([this] { ExpectTheTaskGoesOn(Options()); });
}

TEST_F(OciKill, TheShimOfARunningTaskWithoutACgroup) {
  AsUser([this] { ExpectTheTaskGoesOn(WithoutCgroups()); });
}

TEST_F(OciKill, TheShimOfARunningTaskOfRunc) {
  OciDriverOptions runc = Options();
  runc.runtime = "/usr/sbin/runc";
  if (::access(runc.runtime.c_str(), X_OK) != 0) {
    GTEST_SKIP() << "runc is not installed";
  }
  AsUser([this, &runc] {
    runc.cgroup = Cgroup();
    ExpectTheTaskGoesOn(runc);
  });
}

// A naive driver looks into its own cgroup alone, as after a change of the
// unit.
TEST_F(OciKill, TheShimOfATaskOfAnotherCgroup) {
  AsUser([this] {
    const auto driver = MakeDriver();
    OciDriverOptions elsewhere = Options();
    elsewhere.cgroup = Cgroup() + "/elsewhere";
    fs::create_directory(elsewhere.cgroup);
    const std::shared_ptr<TaskDriver> other = MakeWith(elsewhere);
    const std::shared_ptr<TaskDriver> none = MakeWith(WithoutCgroups());
    const TaskConfig config = Begin(*driver, "moved");
    KillShims();
    for (const auto& each : {other, none}) {
      EXPECT_EQ(each->InspectTask(config.id)->state, TaskState::kRunning);
      EXPECT_THAT(each->DestroyTask(config.id, false),
                  IsErr(Code::kFailedPrecondition));
      EXPECT_THAT(each->StartTask(config), IsOk());
    }
    EXPECT_EQ(Begun(config), 1);
    EXPECT_THAT(other->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
    ::rmdir((elsewhere.cgroup + "/agent").c_str());
    ::rmdir(elsewhere.cgroup.c_str());
  });
}

TEST_F(OciKill, ARecordOfAnOlderReleaseInAnotherCgroup) {
  AsUser([this] {
    const auto driver = MakeDriver();
    OciDriverOptions elsewhere = Options();
    elsewhere.cgroup = Cgroup() + "/elsewhere";
    fs::create_directory(elsewhere.cgroup);
    const auto other = MakeWith(elsewhere);
    const TaskConfig config = Begin(*driver, "older");
    const std::string file = TaskDirectory(config.id) + "/task.json";
    std::ifstream in(file);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t member = text.find("\"cgroup\"");
    ASSERT_NE(member, std::string::npos);
    text.replace(member, 8, "\"unused\"");
    std::ofstream(file) << text << std::flush;
    KillShims();
    EXPECT_EQ(other->InspectTask(config.id)->state, TaskState::kRunning);
    EXPECT_THAT(other->DestroyTask(config.id, true), IsOk());
    EXPECT_TRUE(ProcessesWith("marked-task").empty());
    ::rmdir((elsewhere.cgroup + "/agent").c_str());
    ::rmdir(elsewhere.cgroup.c_str());
    ::rmdir(CgroupOf(config.id).c_str());
  });
}

// Another user's mount namespace has any path at any place.
void ForgeMounts(const std::string& top, const std::string& upper) {
  const std::string map = "0 " + std::to_string(kOtherUser) + " 1";
  if (::setresgid(kOtherUser, kOtherUser, kOtherUser) != 0 ||
      ::setresuid(kOtherUser, kOtherUser, kOtherUser) != 0 ||
      ::prctl(PR_SET_DUMPABLE, 1) != 0 ||
      ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    ::_exit(1);
  }
  std::ofstream("/proc/self/uid_map") << map << std::flush;
  std::ofstream("/proc/self/setgroups") << "deny" << std::flush;
  std::ofstream("/proc/self/gid_map") << map << std::flush;
  const std::string work = fs::path(upper).parent_path().string() + "/work";
  if (::mount("none", top.c_str(), "tmpfs", 0, nullptr) != 0) {
    ::_exit(2);
  }
  std::error_code failed;
  for (const std::string& made :
       {upper, work, top + "/lower", top + "/root", top + "/source"}) {
    fs::create_directories(made, failed);
  }
  if (::mount(("upperdir=" + upper + ",").c_str(), (top + "/source").c_str(),
              "tmpfs", 0, nullptr) != 0) {
    ::_exit(3);
  }
  const std::string options = "userxattr,lowerdir=" + top +
                              "/lower,upperdir=" + upper + ",workdir=" + work;
  ::_exit(::mount("overlay", (top + "/root").c_str(), "overlay", 0,
                  options.c_str()) == 0
              ? ::pause()
              : 4);
}

TEST_F(OciKill, AForeignMountOfThatNameCountsForNothing) {
  const std::string go = path("go");
  pid_t forger = -1;
  AsUser(
      [&] {
        const auto driver = MakeWith(WithoutCgroups());
        const TaskConfig config = Begin(*driver, "forged");
        std::ofstream(path("next"))
            << TaskDirectory(config.id) << "/upper" << std::flush;
        fs::rename(path("next"), go);
        const std::string mounts =
            "/proc/" + std::to_string(forger) + "/mountinfo";
        EXPECT_TRUE(Eventually([&] {
          std::ifstream file(mounts);
          const std::string text{std::istreambuf_iterator<char>(file), {}};
          return text.find(" - overlay overlay ") != std::string::npos &&
                 text.find("upperdir=" + TaskDirectory(config.id)) !=
                     std::string::npos;
        }));
        for (const char* text : {"mountd-task-shim", "marked-task"}) {
          for (const pid_t pid : ProcessesWith(text)) {
            ::kill(pid, SIGKILL);
          }
        }
        EXPECT_TRUE(Eventually([&] {
          const auto status = driver->InspectTask(config.id);
          return status && status->state == TaskState::kExited;
        }));
        EXPECT_EQ(TextOf(driver->WaitTask(config.id)), kLost);
        EXPECT_THAT(driver->SignalTask(config.id, "SIGKILL"),
                    IsErr(Code::kFailedPrecondition));
        EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
        EXPECT_EQ(::kill(forger, 0), -1);
        EXPECT_EQ(errno, EPERM) << "the other user's process has ended";
        EXPECT_EQ(Leftovers(), "");
      },
      [&] {
        forger = ::fork();
        if (forger == 0) {
          while (!fs::exists(go)) {
            ::usleep(1000);
          }
          std::ifstream file(go);
          const std::string upper{std::istreambuf_iterator<char>(file), {}};
          ForgeMounts(path(""), upper);
        }
      });
}

// Connects until the kernel keeps no more connections of the stopped shim.
std::vector<UniqueFd> FillBacklog(const std::string& directory) {
  std::vector<UniqueFd> connections;
  const UniqueFd fd(
      ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::string path =
      "/proc/self/fd/" + std::to_string(fd.get()) + "/shim.sock";
  for (int error = 0; error == 0;) {
    connections.emplace_back(
        ::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    error = ConnectUnix(connections.back().get(), path);
  }
  return connections;
}

// A naive driver waits for ever, and force ends nothing.
TEST_F(OciKill, TheDriverGoesOnWithoutAShimThatIsStopped) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig full = Begin(*driver, "full");
    const TaskConfig stopped = Begin(*driver, "stopped");
    for (const pid_t shim : ProcessesWith("mountd-task-shim")) {
      ::kill(shim, SIGSTOP);
    }
    const auto waiting = FillBacklog(TaskDirectory(full.id));
    const auto begin = std::chrono::steady_clock::now();
    std::jthread other([&] {
      EXPECT_THAT(driver->StopTask(stopped.id, milliseconds(1), ""), IsOk());
      EXPECT_EQ(TextOf(driver->WaitTask(stopped.id)), kLost);
      EXPECT_THAT(driver->DestroyTask(stopped.id, false), IsOk());
    });
    EXPECT_THAT(driver->InspectTask(full.id), IsErr(Code::kDeadlineExceeded));
    EXPECT_THAT(driver->DestroyTask(full.id, true), IsOk());
    other.join();
    EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(60));
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciKill, AContainerWhoseShimAndDriverWereKilledBeforeItsStart) {
  AsUser([this] {
    const auto driver = MakeDriver();
    // The started container has the state of one that is only created.
    const TaskConfig config = Begin(*driver, "created");
    fs::remove(TaskDirectory(config.id) + "/started");
    KillShims();
    ASSERT_THAT(driver->StartTask(config), IsOk());
    EXPECT_TRUE(Eventually([&] { return Begun(config) == 2; }));
    EXPECT_EQ(ProcessesWith("marked-task").size(), 1U);
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciKill, ADriverOfANewerReleaseHasWrittenTheRecord) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Counted("newer");
    ASSERT_THAT(driver->StartTask(config), IsOk());
    const std::string file = TaskDirectory(config.id) + "/task.json";
    std::ifstream in(file);
    std::string text{std::istreambuf_iterator<char>(in), {}};
    const std::size_t version = text.find("\"version\": 1");
    ASSERT_NE(version, std::string::npos);
    text.replace(version, 12, "\"version\": 2");
    std::ofstream(file) << text << std::flush;
    EXPECT_THAT(driver->WaitTask(config.id),
                IsErrOf(Code::kFailedPrecondition, "newer release"));
    // Members of a later patch of the same version count as unknown.
    text.replace(version, 12, "\"version\": 1, \"new\": [1]");
    std::ofstream(file) << text << std::flush;
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

}  // namespace
}  // namespace mountd::driver::testing
