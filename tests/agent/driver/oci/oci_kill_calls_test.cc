// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Somebody kills the driver, the shim or the runtime during exec, stop and
// destroy. The same call is then right, and nothing is left that nobody wants.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>

#include "tests/agent/driver/oci/oci_kill_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

using mountd::testing::Eventually;
using std::chrono::milliseconds;
using std::chrono::seconds;

// A call takes 5 to 30 ms.
constexpr std::array<useconds_t, 6> kCallMoments = {0,    1500,   4000,
                                                    8000, 14'000, 25'000};
constexpr seconds kPatience{1000};
// The program is pid 1 of its namespace, so SIGTERM does not end it.
constexpr milliseconds kSoon{5};

constexpr char kShim[] = "mountd-task-shim";
constexpr char kRuntime[] = "crun";
constexpr char kNoShim[] = "killed the task's shim";

class OciKillCalls : public KillFixture {
 protected:
  // Only the program of the task is there, and no file of an exec.
  void ExpectTheProgramAlone(const TaskConfig& config, const char* who,
                             useconds_t moment) const {
    EXPECT_TRUE(Eventually([&] {
      const std::string processes = ProcessesOf(config);
      return std::count(processes.begin(), processes.end(), '\n') == 1;
    })) << who
        << " " << moment << "\n"
        << ProcessesOf(config);
    EXPECT_TRUE(ProcessesWith("marked-exec").empty()) << who << " " << moment;
    EXPECT_TRUE(Eventually([&] { return ExecFiles(config).empty(); }))
        << who << " " << moment << ": " << ExecFiles(config);
    EXPECT_EQ(Begun(config), 1) << who << " " << moment;
  }
  std::string ExecFiles(const TaskConfig& config) const {
    std::string names;
    for (const auto& entry :
         std::filesystem::directory_iterator(TaskDirectory(config.id))) {
      const std::string name = entry.path().filename();
      names += name.starts_with("exec-") ? name + " " : "";
    }
    return names;
  }
  static void ExpectExec(TaskDriver& driver, const TaskConfig& config,
                         const char* who, useconds_t moment) {
    const auto done = driver.ExecTask(config.id, {"echo", "told"}, kPatience);
    ASSERT_THAT(done, IsOk()) << who << " " << moment;
    EXPECT_EQ(done->stdout_text, "told\n") << who << " " << moment;
  }
  void ExpectGone(TaskDriver& driver, const TaskConfig& config, bool force,
                  const char* who, useconds_t moment) const {
    const auto destroyed = driver.DestroyTask(config.id, force);
    EXPECT_TRUE(destroyed || destroyed.error().code == Code::kNotFound)
        << who << " " << moment << ": " << ErrorText(destroyed.error());
    EXPECT_THAT(driver.InspectTask(config.id), IsErr(Code::kNotFound))
        << who << " " << moment;
    EXPECT_TRUE(Eventually([&] { return Leftovers().empty(); }))
        << who << " " << moment << "\n"
        << Leftovers();
  }
};

TEST_F(OciKillCalls, TheDriverDuringExec) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Begin(*driver, "exec");
    for (const useconds_t moment : kCallMoments) {
      KillAfter(moment, [&](TaskDriver& other) {
        IgnoreBecauseBestEffort(other.ExecTask(
            config.id, {"bash", "-c", "exec -a marked-exec sleep 10000"},
            kPatience));
      });
      ExpectExec(*driver, config, "driver", moment);
      ExpectTheProgramAlone(config, "driver", moment);
    }
    ExpectGone(*driver, config, true, "driver", 0);
  });
}

TEST_F(OciKillCalls, TheRuntimeDuringExec) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Begin(*driver, "exec");
    for (const useconds_t moment : kCallMoments) {
      UnderFire(kRuntime, moment, [&] {
        const auto done =
            driver->ExecTask(config.id, {"echo", "told"}, kPatience);
        EXPECT_TRUE(done || done.error().code == Code::kAborted)
            << moment << ": " << ErrorText(done.error());
      });
      ExpectExec(*driver, config, "crun", moment);
      ExpectTheProgramAlone(config, "crun", moment);
    }
    ExpectGone(*driver, config, true, "crun", 0);
  });
}

// The task goes on without its shim, and nobody starts it a second time.
TEST_F(OciKillCalls, TheShimDuringExec) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const useconds_t moment : kCallMoments) {
      const TaskConfig config =
          Begin(*driver, "exec-" + std::to_string(moment));
      UnderFire(kShim, moment, [&] {
        IgnoreBecauseBestEffort(
            driver->ExecTask(config.id, {"echo", "told"}, kPatience));
      });
      EXPECT_TRUE(Eventually([] { return ProcessesWith(kShim).empty(); }));
      EXPECT_THAT(driver->ExecTask(config.id, {"echo", "told"}, kPatience),
                  IsErrOf(Code::kFailedPrecondition, kNoShim))
          << moment;
      EXPECT_THAT(driver->StartTask(config), IsOk()) << moment;
      EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kRunning);
      EXPECT_EQ(Begun(config), 1) << moment;
      EXPECT_EQ(ProcessesWith("marked-task").size(), 1U) << moment;
      ExpectGone(*driver, config, true, "shim", moment);
    }
  });
}

TEST_F(OciKillCalls, TheDriverDuringStop) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const useconds_t moment : kCallMoments) {
      const TaskConfig config =
          Begin(*driver, "stop-" + std::to_string(moment));
      KillAfter(moment, [&](TaskDriver& other) {
        IgnoreBecauseBestEffort(other.StopTask(config.id, kSoon, ""));
      });
      EXPECT_THAT(driver->StopTask(config.id, kSoon, ""), IsOk()) << moment;
      EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "signal 9") << moment;
      EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kExited);
      EXPECT_EQ(ProcessesOf(config), "") << moment;
      ExpectGone(*driver, config, false, "driver", moment);
    }
  });
}

TEST_F(OciKillCalls, TheShimDuringStop) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const useconds_t moment : kCallMoments) {
      const TaskConfig config =
          Begin(*driver, "stop-" + std::to_string(moment));
      UnderFire(kShim, moment, [&] {
        IgnoreBecauseBestEffort(driver->StopTask(config.id, kSoon, ""));
      });
      EXPECT_THAT(driver->StopTask(config.id, kSoon, ""), IsOk()) << moment;
      const std::string result = TextOf(driver->WaitTask(config.id));
      EXPECT_TRUE(result == "signal 9" ||
                  result.find(kNoShim) != std::string::npos)
          << moment << ": " << result;
      EXPECT_EQ(driver->InspectTask(config.id)->state, TaskState::kExited);
      EXPECT_EQ(ProcessesOf(config), "") << moment;
      EXPECT_EQ(Begun(config), 1) << moment;
      ExpectGone(*driver, config, false, "shim", moment);
    }
  });
}

TEST_F(OciKillCalls, TheDriverDuringDestroy) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const useconds_t moment : kCallMoments) {
      const TaskConfig config =
          Begin(*driver, "destroy-" + std::to_string(moment));
      KillAfter(moment, [&](TaskDriver& other) {
        IgnoreBecauseBestEffort(other.DestroyTask(config.id, true));
      });
      ExpectGone(*driver, config, true, "driver", moment);
    }
  });
}

TEST_F(OciKillCalls, TheShimAndTheRuntimeDuringDestroy) {
  AsUser([this] {
    const auto driver = MakeDriver();
    for (const char* who : {kShim, kRuntime}) {
      for (const useconds_t moment : kCallMoments) {
        const TaskConfig config =
            Begin(*driver, std::string(who) + "-" + std::to_string(moment));
        UnderFire(who, moment, [&] {
          IgnoreBecauseBestEffort(driver->DestroyTask(config.id, true));
        });
        ExpectGone(*driver, config, true, who, moment);
      }
    }
  });
}

}  // namespace
}  // namespace mountd::driver::testing
