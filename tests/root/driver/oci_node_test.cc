// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Tasks of the OCI driver with networks and mounts of a whole mountd.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <string>
#include <utility>

#include "agent/driver/oci/oci_driver.h"
#include "tests/support/eventually.h"
#include "tests/support/matchers.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using std::chrono::seconds;

constexpr char kCgroups[] = "/sys/fs/cgroup";
constexpr char kImage[] = "/run/image";
constexpr char kState[] = "/run/agent/state";
constexpr char kOtherRuntime[] = "/run/other-runtime";
constexpr seconds kLong{1000};
constexpr char kConfig[] = R"(
[network.default]
ipv4 = "10.88.0.0/24"
ipv6 = "fd88::/64"
[host_volume.a]
path = "/run/host/a"
propagation = ["private", "host-to-task"]
[host_volume.b]
path = "/run/host/b"
propagation = ["private", "host-to-task"]
[[rule]]
users = ["agent"]
host_volumes = ["*"]
networks = ["*"]
host_ports = ["20000-20999"]
cgroups = ["CGROUP"]
)";

// The configuration grants the agent a cgroup.
std::string ConfigFor(const std::string& cgroup) {
  std::string text = kConfig;
  return text.replace(text.find("CGROUP"), 6, cgroup);
}

// Kills processes of mountd as root, while the agent's process works.
class Killer {
 public:
  Killer() {
    if (::pipe2(orders_.data(), O_CLOEXEC) != 0 ||
        ::pipe2(reports_.data(), O_CLOEXEC) != 0) {
      std::abort();
    }
    child_ = ::fork();
    if (child_ == 0) {
      ::close(orders_[1]);
      Order order;
      while (::read(orders_[0], &order, sizeof(order)) == sizeof(order)) {
        ::usleep(order.moment);
        Node::Kill(Node::Processes(order.name.data()));
        if (::write(reports_[1], "k", 1) != 1) {
          break;
        }
      }
      ::_exit(0);
    }
  }
  ~Killer() {
    ::close(orders_[1]);
    ::waitpid(child_, nullptr, 0);
    ::close(orders_[0]);
    ::close(reports_[0]);
    ::close(reports_[1]);
  }
  Killer(const Killer&) = delete;
  Killer& operator=(const Killer&) = delete;

  // Makes the call while the killer works.
  template <typename Call>
  auto During(const std::string& name, useconds_t moment,
              const Call& call) const {
    Order order;
    order.moment = moment;
    name.copy(order.name.data(), order.name.size() - 1);
    EXPECT_EQ(::write(orders_[1], &order, sizeof(order)),
              static_cast<ssize_t>(sizeof(order)));
    auto result = call();
    char report = 0;
    EXPECT_EQ(::read(reports_[0], &report, 1), 1);
    return result;
  }

 private:
  struct Order {
    useconds_t moment = 0;
    std::array<char, 16> name{};
  };
  std::array<int, 2> orders_{};
  std::array<int, 2> reports_{};
  pid_t child_ = -1;
};

class OciNode : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* program : {"/usr/bin/crun", "/usr/bin/newuidmap"}) {
      if (::access(program, X_OK) != 0) {
        GTEST_SKIP() << program << " is not installed";
      }
    }
    // crun refuses a machine that has both versions of cgroups in one tree.
    while (::umount2(kCgroups, MNT_DETACH) == 0) {
    }
    ASSERT_EQ(::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr), 0);
    ASSERT_NO_FATAL_FAILURE(MakeCgroup());
    MakeHostVolumes();
    for (const char* name : {"/run/host/a", "/run/host/b"}) {
      fs::permissions(name, fs::perms(0777));
    }
    MakeImage();
    ASSERT_NO_FATAL_FAILURE(StartNode(ConfigFor(cgroup_)));
    for (const char* file : {"/etc/subuid", "/etc/subgid"}) {
      std::ofstream(file) << "agent:200000:65536\n";
    }
  }

  void TearDown() override {
    if (!cgroup_.empty()) {
      const std::string top = kCgroups + cgroup_;
      std::ofstream(top + "/cgroup.kill") << "1" << std::flush;
      for (const char* leaf : {"/agent", "/shims", ""}) {
        EXPECT_TRUE(Eventually([&] {
          return ::rmdir((top + leaf).c_str()) == 0 || errno == ENOENT;
        })) << leaf;
      }
    }
    NodeFixture::TearDown();
  }

  // Gives the agent a cgroup, as systemd's Delegate= does.
  void MakeCgroup() {
    cgroup_ = "/mountd-oci-" + std::to_string(::getpid());
    const std::string top = kCgroups + cgroup_;
    ASSERT_EQ(::mkdir(top.c_str(), 0755), 0);
    for (const char* file :
         {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
      ASSERT_EQ(::chown((top + file).c_str(), kAgentUid, kAgentUid), 0);
    }
  }

  static void MakeImage() {
    for (const char* made : {"usr", "proc", "sys", "dev", "etc", "data"}) {
      fs::create_directories(std::string(kImage) + "/" + made);
    }
    for (const char* name : {"bin", "lib", "lib64"}) {
      fs::create_symlink(std::string("usr/") + name,
                         std::string(kImage) + "/" + name);
    }
    fs::create_directories("/run/agent");
    ASSERT_EQ(::chown("/run/agent", kAgentUid, kAgentUid), 0);
    ASSERT_EQ(::chmod("/run/agent", 0755), 0);
    // Shows the task another directory in place of its inbox.
    std::ofstream(kOtherRuntime)
        << "#!/bin/sh\n"
           "for word; do case $last in --bundle) sed -i "
           "'s|\"/run/mountd/base/a/web/app\"|\"/run/host\"|' "
           "\"$word/config.json\";; esac; last=$word; done\n"
           "exec /usr/bin/crun \"$@\"\n";
    ASSERT_EQ(::chmod(kOtherRuntime, 0755), 0);
  }

  // Runs `body` as the agent, in a child. The child's assertions count.
  void AsAgent(
      const std::function<void(agent::Client&, driver::TaskDriver&)>& body,
      const std::string& runtime = "crun") const {
    std::fflush(stdout);
    const pid_t child = ::fork();
    if (child == 0) {
      std::ofstream(kCgroups + cgroup_ + "/cgroup.procs") << "0" << std::flush;
      ::syscall(SYS_setgroups, 0, nullptr);
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
      ::prctl(PR_SET_DUMPABLE, 1);
      RunBody(body, runtime);
      std::fflush(stdout);
      ::_exit(HasFailure() ? 1 : 0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_EQ(status, 0) << "the child's assertions failed";
  }

  void RunBody(
      const std::function<void(agent::Client&, driver::TaskDriver&)>& body,
      const std::string& runtime) const {
    auto client = agent::Client::Connect();
    ASSERT_THAT(client, IsOk());
    driver::OciDriverOptions options;
    options.state = kState;
    options.shim = MOUNTD_TASK_SHIM;
    options.runtime = runtime;
    options.client = &*client;
    options.cgroup = kCgroups + cgroup_;
    auto driver = driver::MakeOciDriver(options);
    ASSERT_THAT(driver, IsOk());
    body(*client, **driver);
  }

  static driver::TaskConfig Shell(const std::string& script) {
    driver::TaskConfig config;
    config.id = "web/app/00000001";
    config.allocation = "web";
    config.name = "app";
    config.image = std::string("dir:") + kImage;
    config.command = {"/bin/sh", "-c", script};
    config.network.mode = driver::NetworkMode::kNone;
    config.logs.mode = driver::LogMode::kOff;
    config.mounts = {
        {"/usr", "/usr", true, false, driver::MountPropagation::kPrivate, ""}};
    return config;
  }

  // Adds a mount of mountd's to the task.
  static void AddMount(agent::Client& client, const agent::BindMountSpec& spec,
                       driver::TaskConfig* config) {
    ASSERT_OK_AND_ASSIGN(const agent::MountConfig mount,
                         client.BindMount("web", spec));
    config->mounts.push_back({spec.task_path, mount.host_path, spec.read_only,
                              spec.noexec,
                              spec.propagation == agent::Propagation::kPrivate
                                  ? driver::MountPropagation::kPrivate
                                  : driver::MountPropagation::kHostToTask,
                              spec.name, true});
  }

  // The output of a command in the task.
  static std::string Told(driver::TaskDriver& driver,
                          const std::string& script) {
    const auto done =
        driver.ExecTask("web/app/00000001", {"/bin/sh", "-c", script}, kLong);
    return done ? done->stdout_text + done->stderr_text
                : ErrorText(done.error());
  }

  std::string cgroup_;  // beneath kCgroups
};

// A link in /alloc would lie beneath the mount of the directory.
TEST_F(OciNode, ATaskHasMountsBeneathItsDirectories) {
  AsAgent([](agent::Client& client, driver::TaskDriver& driver) {
    ASSERT_THAT(client.PrepareAllocation("web"), IsOk());
    driver::TaskConfig config = Shell("exec sleep 10000");
    config.directories.alloc = "/run/agent/alloc";
    fs::create_directories(config.directories.alloc);
    agent::BindMountSpec secrets;
    secrets.task = "app";
    secrets.name = "mountd.secrets";
    secrets.source_type = agent::SourceType::kTmpfs;
    secrets.task_path = "/secrets";
    secrets.tmpfs = agent::TmpfsOptions{.size = 1U << 20U, .mode = 01777};
    ASSERT_OK_AND_ASSIGN(const agent::MountConfig mount,
                         client.BindMount("web", secrets));
    config.directories.secrets = mount.host_path;
    agent::BindMountSpec data = HostVolumeSpec("data", "a");
    data.task_path = "/alloc/x";
    data.propagation = agent::Propagation::kHostToTask;
    ASSERT_NO_FATAL_FAILURE(AddMount(client, data, &config));
    agent::BindMountSpec deep = HostVolumeSpec("deep", "b");
    deep.task_path = "/secrets/deep/y";
    ASSERT_NO_FATAL_FAILURE(AddMount(client, deep, &config));
    ASSERT_THAT(driver.StartTask(config), IsOk());
    EXPECT_EQ(Told(driver,
                   "cat /alloc/x/version /secrets/deep/y/version; "
                   "touch /alloc/x/new /alloc/own /secrets/s; "
                   "grep -c ' /secrets .*- tmpfs' /proc/self/mountinfo"),
              "ab1\n");
    EXPECT_TRUE(fs::exists("/run/host/a/new"));
    EXPECT_TRUE(fs::exists("/run/agent/alloc/own"));
    EXPECT_THAT(driver.DestroyTask(config.id, true), IsOk());
    EXPECT_THAT(driver.RemoveDirectory(config.directories.alloc), IsOk());
    EXPECT_THAT(client.ReleaseAllocation("web"), IsOk());
  });
}

TEST_F(OciNode, ATaskHasTheAllocationsNetworkAndMounts) {
  AsAgent([](agent::Client& client, driver::TaskDriver& driver) {
    ASSERT_THAT(client.PrepareAllocation("web"), IsOk());
    ASSERT_OK_AND_ASSIGN(const driver::CreatedNetwork made,
                         driver.CreateNetwork("web", "web-1"));
    EXPECT_TRUE(made.created);
    ASSERT_OK_AND_ASSIGN(const driver::CreatedNetwork again,
                         driver.CreateNetwork("web", "web-1"));
    EXPECT_FALSE(again.created);
    EXPECT_EQ(again.isolation, made.isolation);
    ASSERT_OK_AND_ASSIGN(const UniqueFd netns, client.OpenNamespace("web"));
    agent::NetworkSpec bridge;
    bridge.hostname = "web-1";
    bridge.dns_servers = {"10.9.9.9"};
    bridge.netns = netns.get();
    bridge.ports = {{.label = "http", .host = 20080, .container = 8080}};
    ASSERT_OK_AND_ASSIGN(const agent::NetworkStatus network,
                         client.SetupNetwork("web", bridge));

    driver::TaskConfig config = Shell("exec sleep 10000");
    config.network = made.isolation;
    agent::BindMountSpec data = HostVolumeSpec("data", "a");
    data.task_path = "/data";
    data.propagation = agent::Propagation::kHostToTask;
    ASSERT_NO_FATAL_FAILURE(AddMount(client, data, &config));
    agent::BindMountSpec fixed = HostVolumeSpec("fixed", "b");
    fixed.task_path = "/etc/fixed";
    fixed.read_only = true;
    fixed.noexec = true;
    ASSERT_NO_FATAL_FAILURE(AddMount(client, fixed, &config));
    ASSERT_THAT(driver.StartTask(config), IsOk());

    EXPECT_EQ(Told(driver, "hostname; cat /etc/hostname; cat /etc/resolv.conf"),
              "web-1\nweb-1\nnameserver 10.9.9.9\n");
    const std::string address =
        network.address.substr(0, network.address.find('/'));
    EXPECT_EQ(Told(driver, "grep web-1 /etc/hosts | head -1"),
              address + " web-1\n");
    EXPECT_EQ(Told(driver, "ls /sys/class/net"), "eth0\nlo\n");
    EXPECT_EQ(Told(driver,
                   "cat /data/version; echo new >/data/new; cat "
                   "/etc/fixed/version; touch /etc/fixed/x 2>&1"),
              "abtouch: cannot touch '/etc/fixed/x': Read-only file system\n");
    EXPECT_TRUE(fs::exists("/run/host/a/new"));
    // The link leads through the inbox, so the running task sees the change.
    data.source = "b";
    EXPECT_THAT(client.ReplaceMount("web", data, agent::OnTasks::kIgnore),
                IsOk());
    EXPECT_EQ(Told(driver, "cat /data/version"), "b");

    EXPECT_THAT(driver.DestroyTask(config.id, true), IsOk());
    EXPECT_THAT(client.TeardownNetwork("web", "eth0"), IsOk());
    EXPECT_THAT(driver.DestroyNetwork("web", made.isolation), IsOk());
    EXPECT_THAT(driver.DestroyNetwork("web", made.isolation), IsOk());
    EXPECT_THAT(client.ReleaseAllocation("web"), IsOk());
    EXPECT_TRUE(fs::is_empty(std::string(kState) + "/tasks"));
    EXPECT_THAT(driver.StartTask(config), IsErr(Code::kNotFound));
    EXPECT_TRUE(fs::is_empty(std::string(kState) + "/tasks"));
  });
}

// A task goes on without mountd, so only the calls that ask mountd may fail,
// and the same call again is right.
TEST_F(OciNode, MountdIsKilledDuringEachCallOfATask) {
  const Killer killer;
  AsAgent([&killer](agent::Client& client, driver::TaskDriver& driver) {
    ASSERT_THAT(client.PrepareAllocation("web"), IsOk());
    driver::TaskConfig config =
        Shell("echo begun >>/data/begun; exec sleep 10000");
    agent::BindMountSpec data = HostVolumeSpec("data", "a");
    data.task_path = "/data";
    ASSERT_NO_FATAL_FAILURE(AddMount(client, data, &config));
    const auto mounts = MountPointsUnder("/run/mountd");
    const auto begun = [] {
      std::ifstream file("/run/host/a/begun");
      return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    };
    for (const char* name : {"mountd", "mountd-exec"}) {
      for (const useconds_t moment : {0U, 4000U, 12'000U, 25'000U, 40'000U}) {
        SCOPED_TRACE(std::string(name) + " " + std::to_string(moment));
        const auto create = [&] { return driver.CreateNetwork("web", "web"); };
        IgnoreBecauseBestEffort(killer.During(name, moment, create));
        ASSERT_OK_AND_ASSIGN(const driver::CreatedNetwork made, create());
        config.network = made.isolation;
        const auto start = [&] { return driver.StartTask(config); };
        IgnoreBecauseBestEffort(killer.During(name, moment, start));
        ASSERT_THAT(start(), IsOk());
        EXPECT_TRUE(Eventually([&] { return begun() == 1; })) << begun();
        const auto told = [&] { return Told(driver, "echo told"); };
        EXPECT_EQ(killer.During(name, moment, told), "told\n");
        EXPECT_THAT(killer.During(name, moment,
                                  [&] {
                                    return driver.StopTask(
                                        config.id, std::chrono::milliseconds(5),
                                        "");
                                  }),
                    IsOk());
        EXPECT_EQ(begun(), 1);
        EXPECT_THAT(
            killer.During(name, moment,
                          [&] { return driver.DestroyTask(config.id, false); }),
            IsOk());
        const auto end = [&] {
          return driver.DestroyNetwork("web", made.isolation);
        };
        IgnoreBecauseBestEffort(killer.During(name, moment, end));
        EXPECT_THAT(end(), IsOk());
        EXPECT_TRUE(fs::is_empty(std::string(kState) + "/tasks"));
        EXPECT_TRUE(fs::is_empty(std::string(kState) + "/runtime"));
        EXPECT_TRUE(fs::is_empty(std::string(kState) + "/removed"));
        EXPECT_EQ(MountPointsUnder("/run/mountd"), mounts);
        fs::remove("/run/host/a/begun");
      }
    }
    EXPECT_THAT(client.ReleaseAllocation("web"), IsOk());
  });
}

TEST_F(OciNode, ATaskWhoseMountsAreNotAsAskedDoesNotBegin) {
  AsAgent(
      [](agent::Client& client, driver::TaskDriver& driver) {
        ASSERT_THAT(client.PrepareAllocation("web"), IsOk());
        driver::TaskConfig config = Shell("touch /begun; exec sleep 10000");
        agent::BindMountSpec data = HostVolumeSpec("data", "a");
        data.task_path = "/data";
        ASSERT_NO_FATAL_FAILURE(AddMount(client, data, &config));
        EXPECT_THAT(driver.StartTask(config),
                    IsErrOf(Code::kAborted, "data: "));
        EXPECT_TRUE(fs::is_empty(std::string(kState) + "/tasks"));
        EXPECT_TRUE(fs::is_empty(std::string(kState) + "/runtime"));
        EXPECT_THAT(client.ReleaseAllocation("web"), IsOk());
      },
      kOtherRuntime);
}

}  // namespace
}  // namespace mountd::testing
