// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Limits, statistics and the fingerprint of the driver.
#include <sys/mount.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "agent/driver/oci/container_plan.h"
#include "tests/agent/driver/oci/oci_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"

namespace mountd::driver::testing {
namespace {

namespace fs = std::filesystem;
using mountd::testing::Eventually;
using std::chrono::milliseconds;
using std::chrono::seconds;

class OciLimits : public OciFixture {
 protected:
  // Returns the text of a file of the task's cgroup; "" without the file.
  std::string Limit(const TaskConfig& config, const std::string& name) const {
    const std::string key =
        fs::path(TaskDirectory(config.id)).filename().string();
    std::ifstream file(Cgroup() + "/task-" + key + "/" + name);
    std::string line;
    std::getline(file, line);
    return line;
  }
  bool Delegated(const std::string& controller) const {
    std::ifstream file(Cgroup() + "/cgroup.subtree_control");
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    return all.find(controller) != std::string::npos;
  }
  static Fingerprint FirstOf(TaskDriver& driver) {
    const auto stream = driver.Fingerprints();
    EXPECT_THAT(stream, IsOk());
    const auto first = (*stream)->Next();
    return first && *first ? **first : Fingerprint();
  }
  static bool Says(const Fingerprint& fingerprint, const std::string& words) {
    return fingerprint.description.find(words) != std::string::npos;
  }
};

TEST_F(OciLimits, ChangeWhileTheTaskRuns) {
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = Shell("limits", "exec sleep 10000");
    config.resources.memory_max = 64U << 20U;
    config.resources.pids_max = 30;
    config.resources.cpu_weight = 7;
    ASSERT_THAT(driver->StartTask(config), IsOk());
    TaskResources more = config.resources;
    more.memory_max = 96U << 20U;
    more.pids_max = 0;
    const auto expect = [&](const char* controller, const char* file,
                            const char* text) {
      EXPECT_EQ(Limit(config, file), Delegated(controller) ? text : "");
    };
    expect("memory", "memory.max", "67108864");
    expect("memory", "memory.swap.max", "0");
    expect("pids", "pids.max", "30");
    EXPECT_THAT(driver->UpdateTask(config.id, more), IsOk());
    expect("memory", "memory.max", "100663296");
    // No task is without a limit, because the user's processes are counted
    // together.
    expect("pids", "pids.max", "2048");
    more.cpu_weight = 10'001;
    EXPECT_THAT(driver->UpdateTask(config.id, more),
                IsErr(Code::kInvalidArgument));
    EXPECT_THAT(driver->DestroyTask(config.id, true), IsOk());
    EXPECT_EQ(Leftovers(), "");
  });
}

// This machine may delegate no controller, so the limits themselves count.
TEST_F(OciLimits, EachTaskHasABoundOfProcesses) {
  EXPECT_EQ(LimitsOf({}).pids_max, kDefaultPids);
  TaskResources resources;
  resources.pids_max = 100'000;
  EXPECT_EQ(LimitsOf(resources).pids_max, 100'000U);
}

// A naive update leaves the processors of before.
TEST_F(OciLimits, AnUpdateWithoutACpusetWidensTheTask) {
  TaskResources resources;
  resources.cpuset = "0";
  EXPECT_EQ(LimitsOf(resources).cpuset_cpus, "0");
  EXPECT_EQ(LimitsOf({}).cpuset_cpus, "\n");
}

TEST_F(OciLimits, TheHostsNetworkNamespaceIsNoGroups) {
  AsUser([this] {
    const auto driver = MakeDriver();
    TaskConfig config = Shell("hosts", "exit 0");
    config.network.mode = NetworkMode::kGroup;
    config.network.namespace_path = "/proc/self/ns/net";
    EXPECT_THAT(driver->StartTask(config),
                IsErrOf(Code::kInvalidArgument, "host's own user namespace"));
    EXPECT_EQ(Leftovers(), "");
  });
}

TEST_F(OciLimits, StatisticsEndWithTheTask) {
  AsUser([this] {
    const auto driver = MakeDriver();
    const TaskConfig config = Shell("stats", "read x; exit 0");
    EXPECT_THAT(driver->Stats(config.id, seconds(1)), IsErr(Code::kNotFound));
    TaskConfig running = Shell("stats", "exec sleep 10000");
    ASSERT_THAT(driver->StartTask(running), IsOk());
    ASSERT_OK_AND_ASSIGN(const auto stats,
                         driver->Stats(running.id, milliseconds(1)));
    ASSERT_OK_AND_ASSIGN(const auto first, stats->Next());
    ASSERT_TRUE(first);
    // The kernel counts time for each cgroup, also without a controller.
    EXPECT_TRUE(first->cpu_user_us);
    EXPECT_EQ(first->memory_current.has_value(), Delegated("memory"));
    EXPECT_TRUE(*stats->Next());
    ASSERT_OK_AND_ASSIGN(const auto other,
                         driver->Stats(running.id, seconds(1000)));
    EXPECT_TRUE(*other->Next());
    other->Cancel();
    EXPECT_FALSE(*other->Next());
    EXPECT_THAT(driver->StopTask(running.id, seconds(1000), "KILL"), IsOk());
    EXPECT_FALSE(*stats->Next());
    EXPECT_FALSE(*stats->Next());
    EXPECT_THAT(driver->DestroyTask(running.id, false), IsOk());
  });
}

TEST_F(OciLimits, TheFingerprintSaysWhatIsMissing) {
  AsUser([this] {
    const Fingerprint good = FirstOf(*MakeDriver());
    EXPECT_EQ(good.health, Health::kHealthy) << good.description;
    EXPECT_EQ(std::get<bool>(good.attributes.at("driver.oci.user_namespace")),
              true);
    EXPECT_EQ(
        std::get<std::string>(good.attributes.at("driver.oci.runtime.version"))
            .substr(0, 5),
        "crun ");
    EXPECT_EQ(Says(good, "no limit of memory: not delegated"),
              !Delegated("memory"))
        << good.description;
    EXPECT_TRUE(Says(good, "no connection to mountd"));
    OciDriverOptions options = Options();
    options.cgroup = path("logs");
    EXPECT_TRUE(Says(FirstOf(*MakeWith(options)), "no cgroup of version 2"));
    options.runtime = "/no/such/crun";
    EXPECT_EQ(FirstOf(*MakeWith(options)).health, Health::kUndetected);
    options.state = path("a,b");
    EXPECT_THAT(MakeOciDriver(options), IsErr(Code::kInvalidArgument));
    options.state = path("");
    options.state.pop_back();
    EXPECT_THAT(MakeOciDriver(options), IsErr(Code::kPermissionDenied));
  });
}

TEST_F(OciLimits, TheFingerprintSaysWhyTasksHaveOnlyRoot) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        const Fingerprint one = FirstOf(*driver);
        EXPECT_EQ(one.health, Health::kHealthy);
        EXPECT_TRUE(Says(one, "tasks have no user but root"))
            << one.description;
        TaskConfig config = Shell("one", "id -u");
        ASSERT_THAT(driver->StartTask(config), IsOk());
        EXPECT_EQ(TextOf(driver->WaitTask(config.id)), "code 0");
        EXPECT_THAT(driver->DestroyTask(config.id, false), IsOk());
        config.user = "1000";
        EXPECT_THAT(driver->StartTask(config), IsErr(Code::kInvalidArgument));
        EXPECT_EQ(Leftovers(), "");
      },
      [] {}, "");
}

TEST_F(OciLimits, TheFingerprintSaysWhyThereIsNoUserNamespace) {
  AsUser(
      [this] {
        const auto driver = MakeDriver();
        const Fingerprint none = FirstOf(*driver);
        EXPECT_EQ(none.health, Health::kUnhealthy);
        EXPECT_TRUE(Says(none, "no user namespace can be made"))
            << none.description;
        EXPECT_THAT(driver->StartTask(Shell("none", "exit 0")),
                    IsErr(Code::kPermissionDenied));
        EXPECT_EQ(Leftovers(), "");
      },
      [this] {
        // The kernel gives a process with another root no user namespace.
        fs::create_directory(path("root"));
        ::mount("/", path("root").c_str(), nullptr, MS_BIND | MS_REC, nullptr);
        if (::chroot(path("root").c_str()) != 0 || ::chdir("/") != 0) {
          ADD_FAILURE() << "chroot";
        }
      });
}

}  // namespace
}  // namespace mountd::driver::testing
