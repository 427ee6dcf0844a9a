// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/root/node/lease_fixture.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <sstream>
#include <utility>

#include "tests/support/eventually.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kLeaseBundle[] = "/run/lease-bundle";
constexpr char kLeaseLog[] = "/run/lease-bundle/log";
constexpr char kLeaseContainer[] = "mountd-lease-test";
constexpr useconds_t kTicks = 100'000;  // many writes of the task

// Becomes the agent's user for good. No setuid program can help any more.
bool BecomeAgent() {
  return ::syscall(SYS_setgroups, 0, nullptr) == 0 &&
         ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid) == 0 &&
         ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid) == 0 &&
         ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
}

bool JoinCgroup(const std::string& path) {
  std::ofstream procs(path + "/cgroup.procs");
  procs << "0" << std::flush;
  return procs.good();
}

int StatusOf(pid_t child) {
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int Exec(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  return 127;
}

// Gives the cgroup to the agent's user, as systemd's Delegate= does.
void Delegate(const std::string& cgroup) {
  for (const char* name :
       {"", "/cgroup.procs", "/cgroup.subtree_control", "/cgroup.threads"}) {
    const std::string path = cgroup + name;
    ASSERT_EQ(::chown(path.c_str(), kAgentUid, kAgentUid), 0) << path;
  }
}

void MakeRootDirectory() {
  const std::string root = std::string(kLeaseBundle) + "/rootfs";
  for (const char* path : {"/usr", "/proc", "/dev", "/data", "/csi"}) {
    fs::create_directories(root + path);
  }
  for (const char* name : {"bin", "lib", "lib64"}) {
    fs::create_symlink(std::string("usr/") + name, root + "/" + name);
  }
}

// In a rootless container root is the agent's user, the only id of the user
// namespace, so crun needs no newuidmap.
std::string NamespacesText(bool rootless) {
  const std::string id = std::to_string(kAgentUid);
  const std::string mapping =
      R"([{"containerID": 0, "hostID": )" + id + R"(, "size": 1}])";
  return std::string(R"({"namespaces": [{"type": "mount"}, {"type": "pid"},
      {"type": "ipc"}, {"type": "uts"})") +
         (rootless ? R"(, {"type": "user"}], "uidMappings": )" + mapping +
                         R"(, "gidMappings": )" + mapping + "}"
                   : "]}");
}

std::string BundleText(
    bool rootless,
    const std::vector<std::pair<std::string, std::string>>& binds) {
  std::string mounts;
  std::string writes;
  for (const auto& [source, destination] : binds) {
    mounts += R"(,
    {"destination": ")" +
              destination + R"(", "type": "none", "source": ")" + source +
              R"(", "options": ["rbind", "rprivate"]})";
    const std::string file = destination + "/counter";
    writes += " echo $i >> " + file + "; sync " + file + ";";
  }
  return R"({"ociVersion": "1.0.0", "root": {"path": "rootfs"},
  "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin"],
              "args": ["/bin/sh", "-c",
  "i=0; while :; do i=$((i+1));)" +
         writes + R"( done"]},
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "dev"},
    {"destination": "/usr", "type": "none", "source": "/usr",
     "options": ["rbind", "ro"]})" +
         mounts + R"(],
  "linux": )" +
         NamespacesText(rootless) + "}";
}

}  // namespace

int RunIt(const std::vector<std::string>& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(Exec(command));
  }
  return StatusOf(child);
}

std::string TextIn(const std::string& path) {
  // Reads blocks, because an image has many bytes.
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

void LeaseFixture::SetUp() {
  PrivateNamespaces::SetUp();
  if (IsSkipped()) {
    return;
  }
  ASSERT_NO_FATAL_FAILURE(MakeCgroups());
  if (IsSkipped()) {
    return;
  }
  ASSERT_NO_FATAL_FAILURE(MakeBlock());
  if (IsSkipped()) {
    return;
  }
  fs::create_directories(kLeaseBundle);
  ASSERT_NO_FATAL_FAILURE(StartNode(ConfigText()));
}

void LeaseFixture::TearDown() {
  if (holder_ > 0) {
    EndHolder();
  }
  if (HasFailure()) {
    std::cerr << TextIn(kLeaseLog);
  }
  if (!top_.empty()) {
    std::ofstream(CgroupPath() + "/cgroup.freeze") << "0";
    DeleteContainer();
    std::ofstream(kHierarchy + top_ + "/cgroup.kill") << "1";
    for (const std::string& path :
         {CgroupPath(), AgentsCgroup(), kHierarchy + top_}) {
      EXPECT_TRUE(Eventually([&] {
        return ::rmdir(path.c_str()) == 0 || !fs::exists(path);
      })) << path;
    }
  }
  // The volumes' devices end with the release, not with the namespaces.
  if (client_ && !IsSkipped()) {
    EXPECT_TRUE(Eventually([&] {
      Connect();
      const auto released = client_->ReleaseAllocation("web");
      return released || released.error().code == Code::kNotFound;
    }));
  }
  NodeFixture::TearDown();
}

void LeaseFixture::MakeCgroups() {
  while (::umount2(kHierarchy, MNT_DETACH) == 0) {
  }
  top_ = "/mountd-lease-" + std::to_string(::getpid());
  if (::mount("cgroup2", kHierarchy, "cgroup2", 0, nullptr) != 0 ||
      ::mkdir((kHierarchy + top_).c_str(), 0755) != 0 ||
      ::mkdir(AgentsCgroup().c_str(), 0755) != 0) {
    top_.clear();
    GTEST_SKIP() << "cannot make cgroups of version 2";
  }
  if (RunIt({"sh", "-c", "command -v crun >/dev/null"}) != 0) {
    GTEST_SKIP() << "crun is not installed";
  }
  const auto make = [&] { return ::mkdir(CgroupPath().c_str(), 0755); };
  if (!rootless_) {
    ASSERT_EQ(make(), 0);
    return;
  }
  ASSERT_NO_FATAL_FAILURE(Delegate(kHierarchy + top_));
  ASSERT_NO_FATAL_FAILURE(Delegate(AgentsCgroup()));
  ASSERT_EQ(AsAgent(make), 0);
}

void LeaseFixture::MakeBlock() {
  fs::create_directories(kBlock);
  std::ofstream(kImage).close();
  fs::resize_file(kImage, 32U << 20U);
  if (RunIt({"mkfs.ext4", "-q", kImage}) != 0 ||
      RunIt({"mount", "-o", "loop", kImage, kBlock}) != 0) {
    GTEST_SKIP() << "cannot mount ext4 from a loop device";
  }
  ASSERT_EQ(::chmod(kBlock, 0777), 0);
}

std::string LeaseFixture::ConfigText() const {
  return std::string(R"(
[host_volume.block]
path = "/run/host/block"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
stop_tasks = "kill"
cgroups = [")") +
         top_ + "\"]\n" + RuleText() + R"([timeouts]
lease_grace_ms = 300
probe_starting_ms = 50
)";
}

void LeaseFixture::Prepare(bool lease_required) {
  const UniqueFd cgroup(
      ::open(CgroupPath().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  agent::AllocationOptions options;
  options.cgroup = cgroup.get();
  options.lease_required = lease_required;
  ASSERT_EQ(MessageOf(client_->PrepareAllocation("web", options)), "Ok");
}

std::string LeaseFixture::Bind(const std::string& name) {
  agent::BindMountSpec spec;
  spec.task = "app";
  spec.name = name;
  spec.source = "block";
  spec.source_type = agent::SourceType::kHostVolume;
  const auto config = client_->BindMount("web", spec);
  path_ = config ? config->host_path : path_;
  return Outcome(config);
}

int LeaseFixture::RunCrun(std::vector<std::string> arguments) const {
  // With the cgroup manager "disabled" the container stays in the cgroup of
  // the process that makes it.
  const std::string cgroup =
      arguments.front() == "run" ? CgroupPath() : AgentsCgroup();
  const std::vector<std::string> global = {
      "crun", std::string("--root=") + kLeaseBundle + "/crun",
      "--cgroup-manager=disabled"};
  arguments.insert(arguments.begin(), global.begin(), global.end());
  const auto run = [&] {
    const int log = ::open(kLeaseLog, O_WRONLY | O_CREAT | O_APPEND, 0666);
    const bool is_set = ::dup2(log, STDOUT_FILENO) >= 0 &&
                        ::dup2(log, STDERR_FILENO) >= 0 && JoinCgroup(cgroup);
    return is_set ? Exec(arguments) : 126;
  };
  if (rootless_) {
    return AsAgent(run);
  }
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(run());
  }
  return StatusOf(child);
}

void LeaseFixture::StartContainer(
    const std::vector<std::pair<std::string, std::string>>& binds) {
  MakeRootDirectory();
  std::ofstream(std::string(kLeaseBundle) + "/config.json")
      << BundleText(rootless_, binds);
  if (rootless_) {
    const std::string agent = std::to_string(kAgentUid);
    ASSERT_EQ(RunIt({"chown", "-R", agent + ":" + agent, kLeaseBundle}), 0);
  }
  ASSERT_EQ(RunCrun({"run", "--detach", std::string("--bundle=") + kLeaseBundle,
                     kLeaseContainer}),
            0);
  for (const auto& [source, destination] : binds) {
    EXPECT_TRUE(StartsToWrite(source)) << destination;
  }
}

int LeaseFixture::DeleteContainer() {
  return RunCrun({"delete", "--force", kLeaseContainer});
}

bool LeaseFixture::Writes(const std::string& directory) {
  const std::string path = directory + "/counter";
  const std::string before = TextIn(path);
  ::usleep(kTicks);
  return TextIn(path) != before;
}

bool LeaseFixture::StartsToWrite(const std::string& directory) {
  return Eventually([&] { return Writes(directory); });
}

void LeaseFixture::Acquire(const std::string& stop_tasks, bool keep) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  holder_ = ::fork();
  if (holder_ == 0) {
    for (;;) {
      ::pause();
    }
  }
  agent::LeaseSpec spec;
  spec.allocation = "web";
  spec.pipe = reading.get();
  spec.stop_tasks = stop_tasks;
  spec.keep = keep;
  ASSERT_EQ(MessageOf(client_->AcquireLease("agent", spec)), "Ok");
}

void LeaseFixture::EndHolder() {
  ::kill(holder_, SIGKILL);
  ::waitpid(holder_, nullptr, 0);
  holder_ = -1;
}

std::optional<agent::Fence> LeaseFixture::AwaitFence() {
  std::optional<agent::Fence> found;
  Eventually([&] {
    auto fence = client_->GetFence("web");
    if (!fence && fence.error().code == Code::kUnavailable) {
      Connect();
    }
    if (fence && fence->state == "done") {
      found = *std::move(fence);
    }
    return found.has_value();
  });
  return found;
}

int LeaseFixture::AsAgent(const std::function<int()>& body) const {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(JoinCgroup(AgentsCgroup()) && BecomeAgent() ? body() : 125);
  }
  return StatusOf(child);
}

bool LeaseFixture::IsCgroup(const std::string& state) const {
  return TextIn(CgroupPath() + "/cgroup.events").find(state) !=
         std::string::npos;
}

bool LeaseFixture::NaiveFenceLosesData() const {
  return ::umount2(path_.c_str(), MNT_DETACH) == 0 && StartsToWrite();
}

}  // namespace mountd::testing
