// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A running container writes to a block-backed file system when the lease of
// its allocation lapses. No write reaches the file system after the receipt of
// the fence, and another node may have the volume then.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/naive.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kHierarchy[] = "/sys/fs/cgroup";
constexpr char kImage[] = "/run/block.img";
constexpr char kBlock[] = "/run/host/block";
constexpr char kLeaseBundle[] = "/run/lease-bundle";
constexpr char kLeaseContainer[] = "mountd-lease-test";
constexpr useconds_t kTicks = 100'000;  // many writes of the task

int RunIt(const std::vector<std::string>& command) {
  const pid_t child = ::fork();
  if (child == 0) {
    std::vector<char*> arguments;
    for (const std::string& word : command) {
      arguments.push_back(const_cast<char*>(word.c_str()));
    }
    arguments.push_back(nullptr);
    ::execvp(arguments[0], arguments.data());
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128;
}

int RunCrun(std::vector<std::string> arguments) {
  const std::vector<std::string> global = {"crun", "--root=/run/crun",
                                           "--cgroup-manager=disabled"};
  arguments.insert(arguments.begin(), global.begin(), global.end());
  return RunIt(arguments);
}

std::string TextIn(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Owns a node, an ext4 on a loop device as the host volume "block", and a
// container in a cgroup of the allocation "web" that has it at /data.
class NodeLease : public NodeFixture {
 protected:
  void SetUp() override {
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
    ASSERT_NO_FATAL_FAILURE(StartNode(ConfigText()));
    const UniqueFd cgroup(
        ::open(CgroupPath().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    agent::AllocationOptions options;
    options.cgroup = cgroup.get();
    ASSERT_EQ(MessageOf(client_->PrepareAllocation("web", options)), "Ok");
  }
  void TearDown() override {
    if (holder_ > 0) {
      EndHolder();
    }
    if (!top_.empty()) {
      std::ofstream(CgroupPath() + "/cgroup.freeze") << "0";
      RunCrun({"delete", "--force", kLeaseContainer});
      std::ofstream(CgroupPath() + "/cgroup.kill") << "1";
      for (const std::string& path : {CgroupPath(), kHierarchy + top_}) {
        EXPECT_TRUE(Eventually([&] { return ::rmdir(path.c_str()) == 0; }));
      }
    }
    NodeFixture::TearDown();
  }

  void MakeCgroups() {
    while (::umount2(kHierarchy, MNT_DETACH) == 0) {
    }
    top_ = "/mountd-lease-" + std::to_string(::getpid());
    if (::mount("cgroup2", kHierarchy, "cgroup2", 0, nullptr) != 0 ||
        ::mkdir((kHierarchy + top_).c_str(), 0755) != 0 ||
        ::mkdir(CgroupPath().c_str(), 0755) != 0) {
      top_.clear();
      GTEST_SKIP() << "cannot make cgroups of version 2";
    }
    if (RunIt({"sh", "-c", "command -v crun >/dev/null"}) != 0) {
      GTEST_SKIP() << "crun is not installed";
    }
  }
  static void MakeBlock() {
    fs::create_directories(kBlock);
    std::ofstream(kImage).close();
    fs::resize_file(kImage, 32U << 20U);
    if (RunIt({"mkfs.ext4", "-q", kImage}) != 0 ||
        RunIt({"mount", "-o", "loop", kImage, kBlock}) != 0) {
      GTEST_SKIP() << "cannot mount ext4 from a loop device";
    }
    ASSERT_EQ(::chmod(kBlock, 0777), 0);
  }
  std::string CgroupPath() const { return kHierarchy + top_ + "/web"; }
  std::string ConfigText() const {
    return std::string(R"(
[host_volume.block]
path = "/run/host/block"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
stop_tasks = "kill"
cgroups = [")") +
           top_ + R"("]
[timeouts]
lease_grace_ms = 300
)";
  }

  std::string Bind(const std::string& name) {
    agent::BindMountSpec spec;
    spec.task = "app";
    spec.name = name;
    spec.source = "block";
    spec.source_type = agent::SourceType::kHostVolume;
    const auto config = client_->BindMount("web", spec);
    path_ = config ? config->host_path : path_;
    return Outcome(config);
  }
  // Starts a container that writes a number to /data/tick, again and again.
  void StartContainer() {
    const std::string root = std::string(kLeaseBundle) + "/rootfs";
    for (const char* path : {"/usr", "/proc", "/dev", "/data"}) {
      fs::create_directories(root + path);
    }
    for (const char* name : {"bin", "lib", "lib64"}) {
      fs::create_symlink(std::string("usr/") + name, root + "/" + name);
    }
    std::ofstream(std::string(kLeaseBundle) + "/config.json")
        << R"({"ociVersion": "1.0.0", "root": {"path": "rootfs"},
  "process": {"user": {"uid": 0, "gid": 0}, "cwd": "/", "env": ["PATH=/bin"],
              "args": ["/bin/sh", "-c",
  "i=0; while :; do i=$((i+1)); echo $i > /data/tick; done"]},
  "mounts": [
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "dev"},
    {"destination": "/usr", "type": "none", "source": "/usr",
     "options": ["rbind", "ro"]},
    {"destination": "/data", "type": "none", "source": ")"
        << path_ << R"(", "options": ["rbind", "rprivate"]}],
  "linux": {"namespaces": [{"type": "mount"}, {"type": "pid"},
      {"type": "ipc"}, {"type": "uts"}]}})";
    // With the cgroup manager "disabled" the container stays in the cgroup of
    // the process that makes it.
    const pid_t maker = ::fork();
    if (maker == 0) {
      std::ofstream(CgroupPath() + "/cgroup.procs") << "0" << std::flush;
      ::_exit(
          RunCrun({"run", "--detach", std::string("--bundle=") + kLeaseBundle,
                   kLeaseContainer}));
    }
    int status = 1;
    ::waitpid(maker, &status, 0);
    ASSERT_EQ(status, 0);
    ASSERT_TRUE(Eventually([&] { return Writes(); }));
  }
  // True if the task still writes to the file system.
  static bool Writes() {
    const std::string path = std::string(kBlock) + "/tick";
    const std::string before = TextIn(path);
    ::usleep(kTicks);
    return TextIn(path) != before;
  }

  // Acquires the lease of "web". A process of its own has the pipe's write end,
  // as a control plane's agent has.
  void Acquire(const std::string& stop_tasks, bool keep = false) {
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
  // Ends the holder, as the OOM killer would.
  void EndHolder() {
    ::kill(holder_, SIGKILL);
    ::waitpid(holder_, nullptr, 0);
    holder_ = -1;
  }
  std::optional<agent::Fence> AwaitFence() {
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
  // The naive fence: it unmounts what the agent had, and is done.
  bool NaiveFenceLosesData() const {
    return ::umount2(path_.c_str(), MNT_DETACH) == 0 && Writes();
  }

  std::string top_;
  std::string path_;
  pid_t holder_ = -1;
};

TEST_F(NodeLease, NoWriteOfAKilledTaskComesAfterTheReceipt) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(StartContainer());
  ASSERT_NO_FATAL_FAILURE(Acquire("kill"));
  EXPECT_TRUE(Writes());
  EXPECT_EQ(Outcome(client_->GetFence("web")), "NotFound");
  EndHolder();
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_FALSE(Writes());
  EXPECT_TRUE(fence->volumes_detached);
  EXPECT_TRUE(fence->had_tasks);
  EXPECT_EQ(fence->copies, "");
  EXPECT_LE(fence->lapsed_boottime, fence->tasks_stopped_boottime);
  EXPECT_LE(fence->tasks_stopped_boottime, fence->searched_boottime);
  EXPECT_LE(fence->searched_boottime, fence->done_boottime);
  EXPECT_NE(TextIn(CgroupPath() + "/cgroup.events").find("populated 0"),
            std::string::npos);
  EXPECT_FALSE(fs::exists(path_));
  // Nobody has the file system, so another node may have it.
  EXPECT_TRUE(Eventually([] { return ::umount2(kBlock, 0) == 0; }));
}

TEST_F(NodeLease, ATaskThatIsNotStoppedKeepsTheReceiptBack) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(StartContainer());
  ASSERT_NO_FATAL_FAILURE(Acquire("no"));
  EndHolder();
  ASSERT_TRUE(Eventually([&] {
    const auto fence = client_->GetFence("web");
    return fence && !fence->copies.empty();
  }));
  EXPECT_EQ(client_->GetFence("web")->state, "fencing");
  EXPECT_FALSE(client_->GetFence("web")->volumes_detached);
  EXPECT_EQ(Bind("more"), "FailedPrecondition");
  EXPECT_TRUE(Writes());
  EXPECT_EQ(RunCrun({"delete", "--force", kLeaseContainer}), 0);
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_TRUE(fence->volumes_detached);
  EXPECT_FALSE(Writes());
}

TEST_F(NodeLease, AFrozenTaskWritesNothingAndItsMountsAreKept) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(StartContainer());
  ASSERT_NO_FATAL_FAILURE(Acquire("freeze", /*keep=*/true));
  EndHolder();
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_FALSE(Writes());
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_NE(fence->copies, "");
  EXPECT_EQ(Bind("more"), "FailedPrecondition");
  EXPECT_NE(TextIn(CgroupPath() + "/cgroup.events").find("frozen 1"),
            std::string::npos);
  // The agent comes back, and goes on where it was.
  ASSERT_NO_FATAL_FAILURE(Acquire("freeze", /*keep=*/true));
  std::ofstream(CgroupPath() + "/cgroup.freeze") << "0" << std::flush;
  EXPECT_TRUE(Eventually([&] { return Writes(); }));
  EXPECT_EQ(Bind("more"), "Ok");
  EXPECT_TRUE(client_->GetFence("web")->lifted);
}

// The holder of a pipe does not see that mountd has ended, so its lease ends
// unless it comes back.
TEST_F(NodeLease, AKilledMountdFencesAfterTheGrace) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(StartContainer());
  ASSERT_NO_FATAL_FAILURE(Acquire("kill"));
  Node::Kill(Node::Processes("mountd"));
  Connect();
  const auto fence = AwaitFence();
  ASSERT_TRUE(fence);
  EXPECT_FALSE(Writes());
  EXPECT_TRUE(fence->volumes_detached);
}

TEST_F(NodeLease, WithoutAFenceTheTaskGoesOnWriting) {
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(StartContainer());
  EXPECT_NAIVE(NaiveFenceLosesData());
}

}  // namespace
}  // namespace mountd::testing
