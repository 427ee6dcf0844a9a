// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Somebody kills the driver, the shim or the runtime before each step of each
// call, one step after another. The same call of another driver is then right,
// and nothing is left that nobody wants.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "tests/agent/driver/oci/oci_kill_fixture.h"
#include "tests/agent/driver/oci/steps/kill_at_step.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr seconds kPatience{1000};
// The program is pid 1 of its namespace, so SIGTERM does not end it.
constexpr milliseconds kSoon{5};
constexpr char kDriver[] = "driver";
constexpr char kShim[] = "mountd-task-shim";
constexpr char kRuntime[] = "crun";
constexpr char kNoShim[] = "killed the task's shim";
// A loop without an end would mean that no call ever comes to its end.
constexpr int kMostSteps = 400;

using Call = std::function<void(TaskDriver&)>;

class OciSteps : public KillFixture {
 protected:
  // The programs that begin from now on count the steps of `who`.
  void Watch(const char* who) const {
    ::setenv("LD_PRELOAD", MOUNTD_KILL_LIBRARY, 1);
    ::setenv(kProgramVariable, who, 1);
    ::setenv(kArmVariable, path("arm").c_str(), 1);
    ::setenv(kMarkVariable, path("mark").c_str(), 1);
  }

  // Makes the call, and kills `who` before the step. Returns the step's name;
  // "" if the call had fewer steps.
  std::string KillBefore(const char* who, int step, TaskDriver& driver,
                         const Call& call) const {
    fs::remove(path("mark"));
    std::ofstream(path("next-arm")) << step << std::flush;
    fs::rename(path("next-arm"), path("arm"));
    if (who == std::string(kDriver)) {
      const pid_t child = ::fork();
      if (child == 0) {
        const auto other = MakeWith(WithCgroups());
        CountStepsHere();
        call(*other);
        ::_exit(0);
      }
      ::waitpid(child, nullptr, 0);
    } else {
      call(driver);
    }
    fs::remove(path("arm"));
    std::string name;
    std::getline(std::ifstream(path("mark")), name);
    return name;
  }

  // Does so for each step of the call. `begin` makes the task, and `end` looks
  // at what is left and destroys the task. Returns how often each step was the
  // killed one's last.
  std::map<std::string, int> AtEachStep(
      const char* who, const std::function<TaskConfig(int)>& begin,
      const std::function<void(TaskDriver&, const TaskConfig&)>& call,
      const std::function<void(TaskDriver&, const TaskConfig&)>& end) const {
    Watch(who);
    const auto driver = MakeWith(WithCgroups());
    std::map<std::string, int> seen;
    for (int step = 1;; ++step) {
      EXPECT_LT(step, kMostSteps) << who;
      const TaskConfig config = begin(step);
      const std::string name =
          KillBefore(who, step, *driver,
                     [&](TaskDriver& caller) { call(caller, config); });
      SCOPED_TRACE(std::string(who) + " before step " + std::to_string(step) +
                   " " + name);
      end(*driver, config);
      EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); }))
          << Leftovers();
      if (name.empty() || ::testing::Test::HasFailure() || step >= kMostSteps) {
        break;
      }
      ++seen[name];
    }
    std::string text;
    for (const auto& [name, count] : seen) {
      text += " " + name + " " + std::to_string(count);
    }
    std::printf("steps of %s:%s\n", who, text.c_str());
    return seen;
  }

  OciDriverOptions WithCgroups() const {
    OciDriverOptions options = Options();
    options.cgroup = has_cgroups_ ? options.cgroup : "";
    return options;
  }
  std::function<TaskConfig(int)> Unborn() const {
    return [this](int step) { return Counted("step-" + std::to_string(step)); };
  }
  std::function<TaskConfig(int)> Running(const std::string& who) const {
    return [this, who](int step) {
      return Begin(*MakeDriver(), who.substr(0, 2) + std::to_string(step));
    };
  }

  // A task that may have begun is never begun again.
  void ExpectStarted(TaskDriver& driver, const TaskConfig& config) const {
    EXPECT_THAT(driver.StartTask(config), IsOk());
    const auto status = driver.InspectTask(config.id);
    ASSERT_THAT(status, IsOk());
    if (status->state == TaskState::kRunning) {
      EXPECT_TRUE(BeginsOnce(config));
    } else {
      EXPECT_LE(Begun(config), 1);
      EXPECT_FALSE(driver.WaitTask(config.id)->IsSuccess());
    }
    ExpectGone(driver, config, true);
  }
  void ExpectExec(TaskDriver& driver, const TaskConfig& config) const {
    const auto done = driver.ExecTask(config.id, {"echo", "told"}, kPatience);
    ASSERT_THAT(done, IsOk());
    EXPECT_EQ(done->stdout_text, "told\n");
    EXPECT_TRUE(Eventually([&] {
      const std::string all = ProcessesOf(config);
      return std::count(all.begin(), all.end(), '\n') == 1;
    })) << ProcessesOf(config);
    EXPECT_EQ(Begun(config), 1);
    ExpectGone(driver, config, true);
  }
  void ExpectGone(TaskDriver& driver, const TaskConfig& config,
                  bool force) const {
    const auto destroyed = driver.DestroyTask(config.id, force);
    EXPECT_TRUE(destroyed || destroyed.error().code == Code::kNotFound)
        << ErrorText(destroyed.error());
    EXPECT_THAT(driver.InspectTask(config.id), IsErr(Code::kNotFound));
  }

  bool has_cgroups_ = true;
};

void Start(TaskDriver& driver, const TaskConfig& config) {
  IgnoreBecauseBestEffort(driver.StartTask(config));
}
void Exec(TaskDriver& driver, const TaskConfig& config) {
  IgnoreBecauseBestEffort(
      driver.ExecTask(config.id, {"echo", "told"}, kPatience));
}
void Stop(TaskDriver& driver, const TaskConfig& config) {
  IgnoreBecauseBestEffort(driver.StopTask(config.id, kSoon, ""));
}
void Destroy(TaskDriver& driver, const TaskConfig& config) {
  IgnoreBecauseBestEffort(driver.DestroyTask(config.id, true));
}

TEST_F(OciSteps, TheDriverDuringStart) {
  AsUser([this] {
    const auto steps = AtEachStep(kDriver, Unborn(), Start,
                                  [&](TaskDriver& driver, const auto& config) {
                                    ExpectStarted(driver, config);
                                  });
    EXPECT_GE(steps.at("sendmsg"), 2);
    EXPECT_GE(steps.at("mkdirat"), 1);
  });
}

TEST_F(OciSteps, TheShimDuringStart) {
  AsUser([this] {
    const auto unborn = [this](int step) {
      TaskConfig config = Unborn()(step);
      ::setenv(kAwaitVariable, (config.directories.local + "/begun").c_str(),
               1);
      return config;
    };
    const auto steps = AtEachStep(kShim, unborn, Start,
                                  [&](TaskDriver& driver, const auto& config) {
                                    ExpectStarted(driver, config);
                                  });
    for (const char* step : {"bind", "listen", "renameat2", "posix_fallocate",
                             "unlink", "write", "sendmsg"}) {
      EXPECT_TRUE(steps.contains(step)) << step;
    }
  });
}

// Without a cgroup, the driver finds a task by its mounts.
TEST_F(OciSteps, EachDuringAStartWithoutACgroup) {
  has_cgroups_ = false;
  AsUser([this] {
    for (const char* who : {kDriver, kShim, kRuntime}) {
      const auto begin = [this, who](int step) {
        return Counted(std::string(who).substr(0, 2) + std::to_string(step));
      };
      const auto steps = AtEachStep(
          who, begin, Start, [&](TaskDriver& driver, const auto& config) {
            ExpectStarted(driver, config);
          });
      EXPECT_FALSE(steps.empty()) << who;
    }
  });
}

TEST_F(OciSteps, TheRuntimeDuringStart) {
  AsUser([this] {
    const auto steps = AtEachStep(kRuntime, Unborn(), Start,
                                  [&](TaskDriver& driver, const auto& config) {
                                    ExpectStarted(driver, config);
                                  });
    EXPECT_GE(steps.at("write"), 1);
  });
}

TEST_F(OciSteps, TheDriverAndTheRuntimeDuringExec) {
  AsUser([this] {
    for (const char* who : {kDriver, kRuntime}) {
      const auto steps = AtEachStep(
          who, Running(who), Exec, [&](TaskDriver& driver, const auto& config) {
            ExpectExec(driver, config);
          });
      EXPECT_FALSE(steps.empty()) << who;
    }
  });
}

// The task goes on without its shim, and nobody starts it a second time.
TEST_F(OciSteps, TheShimDuringExec) {
  AsUser([this] {
    const auto steps = AtEachStep(
        kShim, Running(kShim), Exec,
        [&](TaskDriver& driver, const auto& config) {
          if (!fs::exists(path("mark"))) {
            return ExpectExec(driver, config);
          }
          EXPECT_TRUE(Eventually([] { return ProcessesWith(kShim).empty(); }));
          EXPECT_THAT(driver.ExecTask(config.id, {"true"}, kPatience),
                      IsErrOf(Code::kFailedPrecondition, kNoShim));
          EXPECT_THAT(driver.StartTask(config), IsOk());
          EXPECT_EQ(driver.InspectTask(config.id)->state, TaskState::kRunning);
          EXPECT_EQ(Begun(config), 1);
          ExpectGone(driver, config, true);
        });
    EXPECT_GE(steps.at("sendmsg"), 2);
  });
}

TEST_F(OciSteps, TheDriverDuringStop) {
  AsUser([this] {
    const auto steps =
        AtEachStep(kDriver, Running(kDriver), Stop,
                   [&](TaskDriver& driver, const auto& config) {
                     EXPECT_THAT(driver.StopTask(config.id, kSoon, ""), IsOk());
                     EXPECT_EQ(TextOf(driver.WaitTask(config.id)), "signal 9");
                     EXPECT_EQ(ProcessesOf(config), "");
                     ExpectGone(driver, config, false);
                   });
    EXPECT_FALSE(steps.empty());
  });
}

// A status that is on the disk is never lost, whether the shim has told it or
// not. A status that the shim has told is on the disk.
TEST_F(OciSteps, TheShimDuringStop) {
  AsUser([this] {
    int untold = 0;
    std::string told;
    const auto stop = [&told](TaskDriver& driver, const TaskConfig& config) {
      std::jthread waiter([&] { told = TextOf(driver.WaitTask(config.id)); });
      Stop(driver, config);
    };
    const auto steps = AtEachStep(
        kShim, Running(kShim), stop,
        [&](TaskDriver& driver, const auto& config) {
          const bool is_killed = fs::exists(path("mark"));
          const bool is_on_disk =
              fs::exists(TaskDirectory(config.id) + "/exit");
          EXPECT_THAT(driver.StopTask(config.id, kSoon, ""), IsOk());
          const std::string result = TextOf(MakeDriver()->WaitTask(config.id));
          if (is_on_disk || !is_killed) {
            EXPECT_EQ(result, "signal 9");
          } else {
            EXPECT_NE(result.find(kNoShim), std::string::npos) << result;
          }
          EXPECT_EQ(told, result);
          untold += is_on_disk && is_killed ? 1 : 0;
          EXPECT_EQ(driver.InspectTask(config.id)->state, TaskState::kExited);
          EXPECT_EQ(ProcessesOf(config), "");
          EXPECT_EQ(Begun(config), 1);
          ExpectGone(driver, config, false);
        });
    // The second fsync, and the messages.
    EXPECT_GE(untold, 2);
    for (const char* step :
         {"pwrite", "ftruncate", "fsync", "renameat", "sendmsg"}) {
      EXPECT_TRUE(steps.contains(step)) << step;
    }
  });
}

TEST_F(OciSteps, TheDriverDuringDestroy) {
  AsUser([this] {
    const auto steps = AtEachStep(kDriver, Running(kDriver), Destroy,
                                  [&](TaskDriver& driver, const auto& config) {
                                    ExpectGone(driver, config, true);
                                  });
    EXPECT_GE(steps.at("renameat"), 1);
  });
}

TEST_F(OciSteps, TheShimAndTheRuntimeDuringDestroy) {
  AsUser([this] {
    for (const char* who : {kShim, kRuntime}) {
      const auto steps =
          AtEachStep(who, Running(who), Destroy,
                     [&](TaskDriver& driver, const auto& config) {
                       ExpectGone(driver, config, true);
                     });
      EXPECT_FALSE(steps.empty()) << who;
    }
  });
}

}  // namespace
}  // namespace mountd::driver::testing
