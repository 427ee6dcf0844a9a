// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The lease of an allocation lapses while a rootless container writes to two
// block-backed file systems: a host volume, and a CSI volume of csi-local. The
// agent cannot write to them through mountd after the receipt, and another
// node may have them then.
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/subscriber.h"
#include "tests/csi/process.h"
#include "tests/root/node/lease_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kPluginSocket[] = "/run/mountd/base/p/csi-local/csi.sock";
constexpr char kPluginData[] = "/var/lib/csi-local";
constexpr char kElsewhere[] = "/run/elsewhere";
constexpr useconds_t kManyWrites = 300'000;

// True if a loop device of this machine has the image.
bool IsAttached(const std::string& image) {
  return RunIt({"sh", "-c", "test -n \"$(losetup -j \"$0\")\"", image}) == 0;
}

// Returns the counter in an image that another node mounts and writes to.
std::string CounterElsewhere(const std::string& image) {
  fs::create_directories(kElsewhere);
  if (RunIt({"mount", "-o", "loop", image, kElsewhere}) != 0) {
    return "";
  }
  std::ofstream(std::string(kElsewhere) + "/other") << "mine now";
  std::string counter = TextIn(std::string(kElsewhere) + "/counter");
  ::usleep(kManyWrites);
  EXPECT_EQ(TextIn(std::string(kElsewhere) + "/counter"), counter);
  EXPECT_EQ(::umount2(kElsewhere, 0), 0);
  return counter;
}

// Expects that nothing on this node writes to the image any more, whatever the
// other node does. Returns the counter in it.
std::string ExpectAnotherNodeMayHave(const std::string& image) {
  EXPECT_FALSE(IsAttached(image)) << image;
  const std::string bytes = TextIn(image);
  ::usleep(kManyWrites);
  EXPECT_TRUE(TextIn(image) == bytes) << image << " has changed";
  std::string counter = CounterElsewhere(image);
  EXPECT_NE(counter, "") << image;
  return counter;
}

class NodeRootlessLease : public LeaseFixture {
 protected:
  NodeRootlessLease() : LeaseFixture(/*rootless=*/true) {}
  void SetUp() override {
    LeaseFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    ASSERT_NO_FATAL_FAILURE(StartPlugin());
    ASSERT_NO_FATAL_FAILURE(Subscribe());
    Prepare(/*lease_required=*/true);
  }
  void TearDown() override {
    subscriber_.reset();
    LeaseFixture::TearDown();
    plugin_ = Process();
  }
  std::string RuleText() const override {
    return R"(plugins = ["*"]
register_plugins = ["*"]
control_plugins = ["*"]
)";
  }

  void StartPlugin() {
    ASSERT_EQ(
        MessageOf(client_->RegisterPlugin(
            {.plugin = "csi-local", .type = agent::PluginType::kMonolith})),
        "Ok");
    plugin_ = Process({CSI_LOCAL, "--endpoint",
                       std::string("unix://") + kPluginSocket, "--data-dir",
                       kPluginData, "--node-id", "here"});
    ASSERT_TRUE(Eventually([&] {
      const auto plugin = client_->GetPlugin("csi-local");
      return plugin && plugin->state == "healthy";
    }));
    agent::VolumeCreation creation;
    creation.plugin = "csi-local";
    creation.name = "data";
    creation.required_bytes = 32 << 20;
    creation.parameters = {{"kind", "image"}};
    const auto created = client_->CreateVolume(creation);
    ASSERT_EQ(MessageOf(created), "Ok");
    volume_ = created->volume;
  }
  // Subscribes as the agent, whom the signals are for.
  void Subscribe() {
    agent::SignalHandlers handlers;
    handlers.fence_done = [this](const std::string& allocation,
                                 const std::string& /*lease*/) {
      is_fence_done_ = is_fence_done_ || allocation == "web";
    };
    std::optional<Result<agent::Subscriber>> started;
    std::thread([&] {
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
      started = agent::Subscriber::Start({}, std::move(handlers));
    }).join();
    ASSERT_EQ(MessageOf(*started), "Ok");
    subscriber_.emplace(**std::move(started));
  }
  bool AwaitFenceDone() {
    return Eventually([&] { return is_fence_done_.load(); });
  }

  std::string CsiImage() const {
    return std::string(kPluginData) + "/volumes/" + volume_;
  }
  std::string Publish(const std::string& alias) {
    agent::VolumeSpec spec;
    spec.alias = alias;
    spec.volume = volume_;
    spec.plugin = "csi-local";
    return Outcome(client_->PublishVolume("web", spec));
  }
  // Mounts the published volume for the task as `name`.
  std::string BindPublished(const std::string& name) {
    agent::BindMountSpec spec;
    spec.task = "app";
    spec.name = name;
    spec.source = "csi";
    spec.source_type = agent::SourceType::kVolume;
    const auto config = client_->BindMount("web", spec);
    csi_path_ = config ? config->host_path : csi_path_;
    return Outcome(config);
  }
  // Starts the container under the lease that the test has acquired.
  void StartTask() {
    ASSERT_EQ(Bind("data"), "Ok");
    ASSERT_EQ(Publish("csi"), "Ok");
    ASSERT_EQ(BindPublished("csi"), "Ok");
    ASSERT_NO_FATAL_FAILURE(
        StartContainer({{path_, "/data"}, {csi_path_, "/csi"}}));
    ASSERT_NO_FATAL_FAILURE(ExpectRootless());
  }
  std::vector<std::string> TaskPids() const {
    std::ifstream procs(CgroupPath() + "/cgroup.procs");
    return {std::istream_iterator<std::string>(procs), {}};
  }
  // Moves all processes of the task to the agent's own cgroup, as the agent.
  void MoveTaskOut() {
    const auto move = [&](const std::string& pid) {
      return AsAgent([&] {
        std::ofstream(AgentsCgroup() + "/cgroup.procs") << pid << std::flush;
        return 0;
      });
    };
    EXPECT_TRUE(Eventually([&] {
      for (const std::string& pid : TaskPids()) {
        move(pid);
      }
      return IsCgroup("populated 0");
    }));
  }
  void ExpectRootless() const {
    const std::vector<std::string> pids = TaskPids();
    ASSERT_FALSE(pids.empty());
    const fs::path task = "/proc/" + pids.front();
    struct stat st = {};
    ASSERT_EQ(::stat(task.c_str(), &st), 0);
    EXPECT_EQ(st.st_uid, kAgentUid);
    for (const char* name : {"ns/user", "ns/mnt", "ns/pid"}) {
      EXPECT_NE(fs::read_symlink(task / name),
                fs::read_symlink(fs::path("/proc/self") / name))
          << name;
    }
    std::ifstream map(task / "uid_map");
    uid_t inside = 1, outside = 0, count = 0;
    map >> inside >> outside >> count;
    EXPECT_EQ(inside, 0U);
    EXPECT_EQ(outside, kAgentUid);
    EXPECT_EQ(count, 1U);
  }

  // Ends the agent with its connection and the pipe's write end. The test
  // connects again after the fence, as whoever looks for the receipt does.
  void Partition() {
    client_.reset();
    EndHolder();
    ASSERT_TRUE(AwaitFenceDone());
    Connect();
  }
  // Expects a receipt that frees the claims, and that it is true.
  void ExpectDetached() {
    const auto fence = client_->GetFence("web");
    ASSERT_EQ(MessageOf(fence), "Ok");
    EXPECT_EQ(fence->state, "done");
    EXPECT_TRUE(fence->volumes_detached);
    EXPECT_EQ(fence->copies, "");
    // NodeUnstageVolume has removed the device before the receipt.
    EXPECT_FALSE(IsAttached(CsiImage()));
    EXPECT_TRUE(client_->ListVolumes()->empty());
    const std::string counter = TextIn(std::string(kBlock) + "/counter");
    ExpectAnotherNodeMayHave(CsiImage());
    ASSERT_EQ(::umount2(kBlock, 0), 0);
    EXPECT_TRUE(Eventually([] { return !IsAttached(kImage); }));
    EXPECT_TRUE(ExpectAnotherNodeMayHave(kImage) == counter);
  }
  void ExpectRefused(const std::string& outcome) {
    EXPECT_EQ(Bind("more"), outcome);
    EXPECT_EQ(BindPublished("more"), outcome);
    EXPECT_EQ(Publish("csi"), outcome);
    EXPECT_EQ(Publish("more"), outcome);
  }

  Process plugin_;
  std::optional<agent::Subscriber> subscriber_;
  std::atomic<bool> is_fence_done_ = false;
  std::string volume_;
  std::string csi_path_;  // of the last mount of the CSI volume
};

TEST_F(NodeRootlessLease, NoWriteOfAKilledTaskComesAfterTheReceipt) {
  EXPECT_EQ(Publish("csi"), "FailedPrecondition");  // it has no lease yet
  ASSERT_NO_FATAL_FAILURE(Acquire("kill"));
  ASSERT_NO_FATAL_FAILURE(StartTask());
  ASSERT_NO_FATAL_FAILURE(Partition());
  EXPECT_TRUE(client_->GetFence("web")->had_tasks);
  EXPECT_TRUE(IsCgroup("populated 0"));
  ExpectRefused("NotFound");
  ASSERT_NO_FATAL_FAILURE(ExpectDetached());
  // The volume is the other node's, and this one does not stage it without a
  // lease.
  Prepare(/*lease_required=*/true);
  EXPECT_EQ(Publish("csi"), "FailedPrecondition");
  EXPECT_FALSE(IsAttached(CsiImage()));
}

// The agent goes on calling mountd, and only its control plane is away.
TEST_F(NodeRootlessLease, AnAgentWithoutHeartbeatMakesNothingAfterTheReceipt) {
  agent::LeaseSpec spec;
  spec.allocation = "web";
  spec.timeout_ms = 2000;
  spec.stop_tasks = "kill";
  ASSERT_EQ(MessageOf(client_->AcquireLease("agent", spec)), "Ok");
  ASSERT_NO_FATAL_FAILURE(StartTask());
  ASSERT_EQ(MessageOf(client_->RenewLease("agent")), "Ok");
  bool has_lapsed = false;
  for (int i = 0; !is_fence_done_ && i < 6000; ++i) {
    const std::string outcome = Bind("late" + std::to_string(i));
    has_lapsed = has_lapsed || outcome != "Ok";
    EXPECT_EQ(outcome != "Ok", has_lapsed) << outcome;
    BindPublished("late-csi" + std::to_string(i));
    ::usleep(10'000);
  }
  ASSERT_TRUE(is_fence_done_);
  EXPECT_NE(Outcome(client_->RenewLease("agent")), "Ok");
  ExpectRefused("NotFound");
  ASSERT_NO_FATAL_FAILURE(ExpectDetached());
}

TEST_F(NodeRootlessLease, AThawGivesAFrozenTaskNothingNewAndFreesNoClaim) {
  ASSERT_NO_FATAL_FAILURE(Acquire("freeze", /*keep=*/true));
  ASSERT_NO_FATAL_FAILURE(StartTask());
  ASSERT_NO_FATAL_FAILURE(Partition());
  const auto fence = client_->GetFence("web");
  ASSERT_EQ(MessageOf(fence), "Ok");
  EXPECT_EQ(fence->state, "done");
  EXPECT_FALSE(fence->volumes_detached);
  EXPECT_NE(fence->copies, "");
  EXPECT_TRUE(IsCgroup("frozen 1"));
  EXPECT_FALSE(Writes(kBlock));
  EXPECT_FALSE(Writes(csi_path_));
  ExpectRefused("FailedPrecondition");
  // The agent's user owns the cgroup, so it can thaw the task, whose copies are
  // as before. This is why the receipt frees no claim.
  EXPECT_EQ(AsAgent([&] {
              std::ofstream file(CgroupPath() + "/cgroup.freeze");
              file << "0" << std::flush;
              return file.good() ? 0 : 1;
            }),
            0);
  EXPECT_TRUE(StartsToWrite(kBlock));
  ExpectRefused("FailedPrecondition");
  EXPECT_FALSE(client_->GetFence("web")->volumes_detached);
  EXPECT_EQ(Outcome(client_->ReleaseAllocation("web")), "Busy");
  EXPECT_TRUE(IsAttached(CsiImage()));
  EXPECT_FALSE(client_->GetFence("web")->volumes_detached);
  EXPECT_EQ(DeleteContainer(), 0);
  EXPECT_TRUE(Eventually(
      [&] { return Outcome(client_->ReleaseAllocation("web")) == "Ok"; }));
  EXPECT_TRUE(client_->GetFence("web")->volumes_detached);
  EXPECT_FALSE(IsAttached(CsiImage()));
}

// The agent's user may move the task within the cgroups that it owns, and a
// fence stops only what is in the allocation's. NodeUnstageVolume fails while
// the task has the device, and so does the fence.
TEST_F(NodeRootlessLease, ATaskMovedOutOfItsCgroupKeepsTheReceiptBack) {
  ASSERT_NO_FATAL_FAILURE(Acquire("kill"));
  ASSERT_NO_FATAL_FAILURE(StartTask());
  const std::string inside = "/proc/" + TaskPids().front() + "/root/csi";
  MoveTaskOut();
  EndHolder();
  ASSERT_TRUE(Eventually([&] {
    const auto fence = client_->GetFence("web");
    return fence && !fence->error.empty();
  }));
  EXPECT_TRUE(StartsToWrite(inside));
  EXPECT_TRUE(IsAttached(CsiImage()));
  EXPECT_EQ(client_->GetFence("web")->state, "fencing");
  EXPECT_FALSE(client_->GetFence("web")->volumes_detached);
  EXPECT_FALSE(is_fence_done_);
  ExpectRefused("FailedPrecondition");
  EXPECT_EQ(DeleteContainer(), 0);
  ASSERT_TRUE(AwaitFenceDone());
  ASSERT_NO_FATAL_FAILURE(ExpectDetached());
}

// Copies of a host volume look like mounts that others may have, so a fence
// sees only those of processes in the allocation's cgroup.
TEST_F(NodeRootlessLease, AHostVolumesCopyOutsideTheCgroupIsNotSeen) {
  ASSERT_NO_FATAL_FAILURE(Acquire("kill"));
  ASSERT_EQ(Bind("data"), "Ok");
  ASSERT_NO_FATAL_FAILURE(StartContainer({{path_, "/data"}}));
  MoveTaskOut();
  EndHolder();
  ASSERT_TRUE(AwaitFenceDone());
  const auto fence = client_->GetFence("web");
  ASSERT_EQ(MessageOf(fence), "Ok");
  EXPECT_FALSE(fence->had_tasks);
  EXPECT_EQ(fence->copies, "");
  EXPECT_TRUE(StartsToWrite());
  ExpectRefused("NotFound");
}

TEST_F(NodeRootlessLease, WithoutAFenceTheTaskGoesOnWriting) {
  ASSERT_NO_FATAL_FAILURE(Acquire("kill"));
  ASSERT_NO_FATAL_FAILURE(StartTask());
  EXPECT_NAIVE(NaiveFenceLosesData());
}

}  // namespace
}  // namespace mountd::testing
