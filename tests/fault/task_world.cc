// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/fault/task_world.h"

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
#include <chrono>
#include <filesystem>
#include <iterator>

#include "agent/driver/oci/oci_driver.h"
#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kCgroups[] = "/sys/fs/cgroup";
constexpr char kImage[] = "/run/image";
constexpr char kState[] = "/run/agent/state";
constexpr char kAllocation[] = "web";
constexpr char kTask[] = "web/app/00000001";
constexpr char kVolume[] = "of-the-task";
constexpr char kInbox[] = "/run/mountd/base/a/web/app";
constexpr uid_t kFirstSubordinate = 200'000;
// mountd seldom asks the plugin how it is, because the steps of such a question
// would be among the task's.
constexpr int kProbeMs = 5000;
constexpr std::chrono::seconds kLong{1000};
// The program is pid 1 of its namespace, so SIGTERM does not end it.
constexpr std::chrono::milliseconds kSoon{5};

template <typename T>
std::string Told(const Result<T>& result) {
  return result ? "Ok"
                : std::string(CodeName(result.error().code)) + " " +
                      result.error().Message();
}

std::string Begun() { return World::DataOf(kVolume) + "/begun"; }

int TimesBegun() {
  std::ifstream file(Begun());
  return static_cast<int>(
      std::count(std::istreambuf_iterator<char>(file), {}, '\n'));
}

std::string IsMounted(const std::string& path) {
  const std::size_t mounts = MountPointsUnder(path).size();
  return mounts == 1 ? "" : std::to_string(mounts) + " mounts at " + path;
}

std::string HasBegunOnce() {
  Eventually([] { return TimesBegun() >= 1; });
  return TimesBegun() == 1 ? ""
                           : "the program has begun " +
                                 std::to_string(TimesBegun()) + " times";
}

std::string ListOf(const std::string& directory) {
  std::string names;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(directory, ignored)) {
    names += entry.path().string() + " ";
  }
  return names;
}

std::string LeftInState() {
  std::string left;
  for (const char* name : {"/tasks", "/removed", "/runtime"}) {
    left += ListOf(std::string(kState) + name);
  }
  return left;
}

// ---- The calls --------------------------------------------------------------

std::string SetUpNetwork(agent::Client& client) {
  // The namespace of the driver's network, also after this call's own is made.
  const auto netns = client.OpenNamespace(kAllocation, "lo");
  if (!netns) {
    return Told(netns);
  }
  agent::NetworkSpec bridge;
  bridge.hostname = "web-1";
  bridge.netns = netns->get();
  bridge.ports = {{.label = "http", .host = 20080, .container = 8080}};
  return Told(client.SetupNetwork(kAllocation, bridge));
}

std::string PublishTheVolume(agent::Client& client) {
  agent::VolumeSpec volume;
  volume.alias = "data";
  volume.volume = kVolume;
  volume.plugin = World::kPlugin;
  return Told(client.PublishVolume(kAllocation, volume));
}

agent::BindMountSpec DataSpec() {
  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = "data";
  spec.source = "data";
  spec.task_path = "/data";
  return spec;
}

agent::BindMountSpec SecretsSpec() {
  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = "secrets";
  spec.source_type = agent::SourceType::kTmpfs;
  spec.task_path = "/secrets";
  spec.tmpfs = agent::TmpfsOptions{.size = 1U << 20U, .mode = 01777};
  return spec;
}

// The task leaves a line in the volume for each time that its program begins,
// and a file of a subordinate id in its upper directory.
driver::TaskConfig ConfigOf(const driver::NetworkIsolation& network) {
  driver::TaskConfig config;
  config.id = kTask;
  config.allocation = kAllocation;
  config.name = "app";
  config.image = std::string("dir:") + kImage;
  config.command = {"/bin/sh", "-c",
                    "touch /tmp/of-user; chown 1000:1000 /tmp/of-user; echo "
                    "begun >>/data/begun; exec sleep 10000"};
  config.network = network;
  config.logs.mode = driver::LogMode::kOff;
  config.directories.secrets = std::string(kInbox) + "/secrets";
  config.mounts = {
      {"/usr", "/usr", true, false, driver::MountPropagation::kPrivate, ""},
      {"/data", std::string(kInbox) + "/data", false, false,
       driver::MountPropagation::kPrivate, "data"}};
  return config;
}

// The network is there, so the driver returns it again.
std::string StartTheTask(driver::TaskDriver& driver) {
  const auto network = driver.CreateNetwork(kAllocation, "web-1");
  return network ? Told(driver.StartTask(ConfigOf(network->isolation)))
                 : Told(network);
}

std::string EndOf(driver::TaskDriver& driver) {
  const auto result = driver.WaitTask(kTask);
  return !result ? Told(result)
                 : "code " + std::to_string(result->exit_code) + " signal " +
                       std::to_string(result->signal) + " " + result->error;
}

std::string ExecInTheTask(driver::TaskDriver& driver) {
  const auto done =
      driver.ExecTask(kTask,
                      {"/bin/sh", "-c",
                       "ls /sys/class/net; hostname; cat /data/version; "
                       "test -L /data && echo in the inbox; "
                       "grep -c ' /secrets .* - tmpfs ' /proc/self/mountinfo"},
                      kLong);
  if (!done) {
    const auto status = driver.InspectTask(kTask);
    return Told(done) + (status && status->state == driver::TaskState::kExited
                             ? ", ended: " + EndOf(driver)
                             : "");
  }
  const std::string text = done->stdout_text + done->stderr_text;
  return text == "eth0\nlo\nweb-1\nof the volume\nin the inbox\n1\n"
             ? "Ok"
             : "says " + text;
}

std::string StopTheTask(driver::TaskDriver& driver) {
  if (std::string told = Told(driver.StopTask(kTask, kSoon, ""));
      told != "Ok") {
    return told;
  }
  const std::string end = EndOf(driver);
  return end == "code 0 signal 9 " ? "Ok" : "ended otherwise: " + end;
}

std::string EndNetwork(agent::Client& client, driver::TaskDriver& driver) {
  driver::NetworkIsolation isolation;
  isolation.mode = driver::NetworkMode::kGroup;
  if (std::string told = Told(driver.DestroyNetwork(kAllocation, isolation));
      told != "Ok") {
    return told;
  }
  const auto status = client.GetAllocation(kAllocation);
  return !status                    ? Told(status)
         : status->networks.empty() ? "Ok"
                                    : "has left a network";
}

bool BecomeAgent(const std::string& top) {
  // A cgroup whose controllers are delegated has no process of its own.
  const std::string leaf = top + "/agent";
  std::ofstream((fs::exists(leaf) ? leaf : top) + "/cgroup.procs")
      << "0" << std::flush;
  return ::syscall(SYS_setgroups, 0, nullptr) == 0 &&
         ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid) == 0 &&
         ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid) == 0 &&
         ::prctl(PR_SET_DUMPABLE, 1) == 0;
}

void MakeVolumeData() {
  const std::string data = World::DataOf(kVolume);
  fs::create_directories(data);
  std::ofstream(data + "/version") << "of the volume\n";
  fs::permissions(data, fs::perms(0777));
}

}  // namespace

std::string TaskWorld::Top() const { return kCgroups + cgroup_; }

std::string TaskWorld::Timeouts() const {
  return "[[rule]]\nusers = [\"agent\"]\ncgroups = [\"" + cgroup_ + "\"]\n";
}

void TaskWorld::SetUp() {
  PrivateNamespaces::SetUp();
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
  if (::mount("cgroup2", kCgroups, "cgroup2", 0, nullptr) != 0) {
    GTEST_SKIP() << "cannot mount cgroups of version 2";
  }
  ASSERT_NO_FATAL_FAILURE(MakeCgroup());
  auto world = World::Make(Timeouts(), kProbeMs);
  ASSERT_TRUE(world) << world.error().Message();
  world_ = *std::move(world);
  ASSERT_NO_FATAL_FAILURE(MakeAgent());
}

void TaskWorld::TearDown() {
  if (!cgroup_.empty()) {
    std::ofstream(Top() + "/cgroup.kill") << "1" << std::flush;
    for (const char* leaf : {"/agent", "/shims", ""}) {
      EXPECT_TRUE(Eventually([&] {
        return ::rmdir((Top() + leaf).c_str()) == 0 || errno == ENOENT;
      })) << leaf;
    }
  }
  FaultFixture::TearDown();
}

// Gives the agent a cgroup, as systemd's Delegate= does.
void TaskWorld::MakeCgroup() {
  cgroup_ = "/mountd-task-" + std::to_string(::getpid());
  ASSERT_EQ(::mkdir(Top().c_str(), 0755), 0);
  for (const char* file :
       {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
    ASSERT_EQ(::chown((Top() + file).c_str(), kAgentUid, kAgentUid), 0);
  }
}

void TaskWorld::MakeAgent() {
  for (const char* file : {"/etc/subuid", "/etc/subgid"}) {
    std::ofstream(file) << "agent:200000:65536\n";
  }
  for (const char* made : {"usr", "proc", "sys", "dev", "etc", "tmp"}) {
    fs::create_directories(std::string(kImage) + "/" + made);
  }
  for (const char* name : {"bin", "lib", "lib64"}) {
    fs::create_symlink(std::string("usr/") + name,
                       std::string(kImage) + "/" + name);
  }
  fs::create_directories("/run/agent");
  // A task can change no directory whose owner its user namespace lacks.
  for (const std::string& path :
       {std::string("/run/agent"), std::string(kImage) + "/tmp"}) {
    ASSERT_EQ(::chown(path.c_str(), kAgentUid, kAgentUid), 0);
    ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  }
  MakeVolumeData();
}

std::string TaskWorld::CallAsAgent(const TaskCall& call) const {
  if (!BecomeAgent(Top())) {
    return "cannot become the agent";
  }
  auto client = agent::Client::Connect({.reconnect = false});
  if (!client) {
    return Told(client);
  }
  driver::OciDriverOptions options;
  options.state = kState;
  options.shim = MOUNTD_TASK_SHIM;
  options.client = &*client;
  options.cgroup = Top();
  const auto driver = driver::MakeOciDriver(options);
  return driver ? call.call(*client, **driver) : Told(driver);
}

std::string TaskWorld::Make(const TaskCall& call) const {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) {
    return "pipe2";
  }
  std::fflush(stdout);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string text = CallAsAgent(call);
    const ssize_t written = ::write(ends[1], text.data(), text.size());
    ::_exit(written == static_cast<ssize_t>(text.size()) ? 0 : 1);
  }
  const UniqueFd reading(ends[0]);
  ::close(ends[1]);
  std::string text;
  std::array<char, 4096> part{};
  for (ssize_t got = 0;
       (got = ::read(reading.get(), part.data(), part.size())) > 0;) {
    text.append(part.data(), static_cast<std::size_t>(got));
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return status == 0 ? text : "the agent's process has failed";
}

std::vector<TaskCall> TaskWorld::Life() const {
  using agent::Client;
  using driver::TaskDriver;
  return {
      {"PrepareAllocation",
       [](Client& client, TaskDriver&) {
         return Told(client.PrepareAllocation(kAllocation));
       }},
      {"CreateNetwork",
       [](Client&, TaskDriver& driver) {
         return Told(driver.CreateNetwork(kAllocation, "web-1"));
       }},
      {"SetupNetwork",
       [](Client& client, TaskDriver&) { return SetUpNetwork(client); }},
      {"PublishVolume",
       [](Client& client, TaskDriver&) { return PublishTheVolume(client); }},
      {"BindMountOfTheVolume",
       [](Client& client, TaskDriver&) {
         return Told(client.BindMount(kAllocation, DataSpec()));
       },
       [] { return IsMounted(std::string(kInbox) + "/data"); }},
      {"BindMountOfATmpfs",
       [](Client& client, TaskDriver&) {
         return Told(client.BindMount(kAllocation, SecretsSpec()));
       },
       [] { return IsMounted(std::string(kInbox) + "/secrets"); }},
      {"StartTask",
       [](Client&, TaskDriver& driver) { return StartTheTask(driver); },
       HasBegunOnce},
      {"ExecTask",
       [](Client&, TaskDriver& driver) { return ExecInTheTask(driver); },
       HasBegunOnce},
      {"StopTask",
       [](Client&, TaskDriver& driver) { return StopTheTask(driver); },
       HasBegunOnce},
      {"DestroyTask",
       [](Client&, TaskDriver& driver) {
         return Told(driver.DestroyTask(kTask, false));
       },
       [this] { return LeftOfTasks(); }},
      {"DestroyNetwork",
       [](Client& client, TaskDriver& driver) {
         return EndNetwork(client, driver);
       }},
      {"ReleaseAllocation",
       [](Client& client, TaskDriver&) {
         return Told(client.ReleaseAllocation(kAllocation));
       },
       [] { return ListOf("/run/mountd/base/a"); }},
  };
}

std::string TaskWorld::LeftOfTasks() const {
  std::string left = LeftInState();
  for (const auto& entry : fs::directory_iterator(Top())) {
    const std::string name = entry.path().filename();
    if (name.starts_with("task-")) {
      left += entry.path().string() + " ";
    }
  }
  std::ifstream shims(Top() + "/shims/cgroup.procs");
  if (std::string pid; shims >> pid) {
    left += "shim " + pid + " ";
  }
  for (const auto& entry : fs::recursive_directory_iterator("/run/agent")) {
    struct stat found = {};
    if (::lstat(entry.path().c_str(), &found) == 0 &&
        found.st_uid >= kFirstSubordinate) {
      left += entry.path().string() + " ";
    }
  }
  return left;
}

void TaskWorld::ForgetBeginning() { fs::remove(Begun()); }

}  // namespace mountd::testing
