// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The lease of an allocation with a volume, a mount and a running task lapses,
// and a step of its fence fails, or mountd or an executor is killed there. The
// fence goes on by itself until its receipt says that the task has ended and
// the volume is detached, and mountd tells its user so.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include "agent/subscriber.h"
#include "tests/fault/fault_fixture.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"

namespace mountd::testing {
namespace {

constexpr char kGroups[] = "/sys/fs/cgroup";

// Owns the agent's subscription. Subscribes again when mountd was killed.
class Subscription {
 public:
  Subscription() { Subscribe(); }
  // Returns whether the agent was told that the fence of "web" is done.
  bool AwaitTold() {
    return Eventually([this] {
      if (is_lost_.exchange(false)) {
        Subscribe();
      }
      return is_told_.load();
    });
  }

 private:
  void Subscribe() {
    subscriber_.reset();
    is_lost_ = false;
    agent::SignalHandlers handlers;
    handlers.fence_done = [this](const std::string& allocation,
                                 const std::string& /*lease*/) {
      is_told_ = is_told_ || allocation == "web";
    };
    handlers.lost = [this](const Error& /*error*/) { is_lost_ = true; };
    agent::ClientOptions options;
    options.connect_timeout = std::chrono::seconds(60);
    std::optional<Result<agent::Subscriber>> started;
    // As the agent, whom the signal is for.
    std::thread([&] {
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
      started = agent::Subscriber::Start(options, std::move(handlers));
    }).join();
    if (*started) {
      subscriber_.emplace(**std::move(started));
    } else {
      is_lost_ = true;
    }
  }

  std::atomic<bool> is_told_ = false;
  std::atomic<bool> is_lost_ = false;
  std::optional<agent::Subscriber> subscriber_;
};

class FenceFixture : public FaultFixture {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    while (::umount2(kGroups, MNT_DETACH) == 0) {
    }
    top_ = "/mountd-fence-" + std::to_string(::getpid());
    if (::mount("cgroup2", kGroups, "cgroup2", 0, nullptr) != 0 ||
        ::mkdir((kGroups + top_).c_str(), 0755) != 0 ||
        ::mkdir(CgroupPath().c_str(), 0755) != 0) {
      top_.clear();
      GTEST_SKIP() << "cannot make cgroups of version 2";
    }
    auto world = World::Make(Timeouts());
    ASSERT_TRUE(world) << world.error().Message();
    world_ = *std::move(world);
  }
  void TearDown() override {
    EndTask();
    if (!top_.empty()) {
      for (const std::string& path : {CgroupPath(), kGroups + top_}) {
        EXPECT_TRUE(Eventually([&] { return ::rmdir(path.c_str()) == 0; }));
      }
    }
    FaultFixture::TearDown();
  }
  // The holder of the pipe does not come back after a kill of mountd.
  std::string Timeouts() const override {
    return "lease_grace_ms = 50\n[[rule]]\nusers = [\"agent\"]\nstop_tasks = "
           "\"kill\"\ncgroups = [\"" +
           top_ + "\"]\n";
  }
  std::string CgroupPath() const { return kGroups + top_ + "/web"; }

  void StartTask() {
    task_ = ::fork();
    if (task_ == 0) {
      std::ofstream(CgroupPath() + "/cgroup.procs") << "0" << std::flush;
      for (;;) {
        ::pause();
      }
    }
    ASSERT_TRUE(Eventually([&] {
      int pid = 0;
      std::ifstream(CgroupPath() + "/cgroup.procs") >> pid;
      return pid != 0;
    }));
  }
  void EndTask() {
    if (task_ > 0) {
      ::kill(task_, SIGKILL);
      ::waitpid(task_, nullptr, 0);
      task_ = -1;
    }
  }
  bool TaskWasKilled() {
    int status = 0;
    const bool ended = ::waitpid(task_, &status, WNOHANG) == task_;
    task_ = ended ? -1 : task_;
    return ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }
  // Makes the allocation with a volume and a mount of it, and binds it to the
  // pipe. Returns "Ok" or the error.
  std::string MakeBound(Agent& agent, int pipe);
  std::optional<agent::Fence> AwaitDone(Agent& agent);
  struct Step {
    StepProcess process = StepProcess::kMountd;
    StepAction action = StepAction::kKillAfter;
    std::uint32_t at = 0;
    std::string_view only = "";  // if set, only steps of this name count
  };
  // True if the step was reached.
  bool CutOff(const Step& step);

  std::string top_;
  pid_t task_ = -1;
};

std::string FenceFixture::MakeBound(Agent& agent, int pipe) {
  const UniqueFd cgroup(
      ::open(CgroupPath().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  agent::AllocationOptions options;
  options.cgroup = cgroup.get();
  std::string told =
      agent.Told(agent.client().PrepareAllocation(agent.allocation(), options));
  if (told != "Ok") {
    return told;
  }
  agent::VolumeSpec volume;
  volume.alias = "data";
  volume.volume = agent.volume();
  volume.plugin = World::kPlugin;
  told = agent.Told(agent.client().PublishVolume(agent.allocation(), volume));
  if (told != "Ok") {
    return told;
  }
  agent::BindMountSpec mount = HostVolumeSpec("d", "data");
  mount.source_type = agent::SourceType::kVolume;
  told = agent.Told(agent.client().BindMount(agent.allocation(), mount));
  if (told != "Ok") {
    return told;
  }
  agent::LeaseSpec lease;
  lease.allocation = agent.allocation();
  lease.pipe = pipe;
  lease.stop_tasks = "kill";
  return agent.Told(agent.client().AcquireLease("lease", lease));
}

std::optional<agent::Fence> FenceFixture::AwaitDone(Agent& agent) {
  std::optional<agent::Fence> done;
  EXPECT_TRUE(Eventually([&] {
    const auto fence = agent.client().GetFence(agent.allocation());
    agent.Told(fence);
    // A volume whose detachment failed is detached by a later try, and GetFence
    // tells so then.
    if (fence && fence->state == "done" && fence->volumes_detached) {
      done = *fence;
    }
    return done.has_value();
  })) << agent.told();
  return done;
}

bool FenceFixture::CutOff(const Step& step) {
  Agent agent(*world_, "web");
  StartTask();
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  EXPECT_TRUE(Eventually([&] {
    return MakeBound(agent, reading.get()) == "Ok";
  })) << agent.told();
  // After MakeBound, because that forgets the receipt of the step before.
  Subscription subscription;
  world_->steps().Arm(step.process, step.action, step.at, EIO, step.only);
  writing.reset();
  const auto fence = AwaitDone(agent);
  const bool is_told = subscription.AwaitTold();
  world_->steps().Disarm();
  const bool reached = world_->steps().Fired();
  SCOPED_TRACE("step " + std::to_string(step.at) + " " +
               world_->steps().FiredStep());
  EXPECT_TRUE(fence && fence->volumes_detached && fence->copies.empty());
  EXPECT_TRUE(is_told);
  EXPECT_TRUE(Eventually([&] { return TaskWasKilled(); }));
  const auto status = agent.Status();
  EXPECT_TRUE(!status && status.error().code == Code::kNotFound);
  EXPECT_FALSE(std::filesystem::exists("/run/mountd/base/a/web"));
  EXPECT_EQ(agent.Release(), "");
  EndTask();
  return reached;
}

// A commit of the receipt is the last step before the signal, and the record of
// the signal is the next commit.
TEST_F(FenceFixture, AKillAfterEachCommitLosesNoSignal) {
  std::uint32_t commits = 0;
  while (CutOff({.at = commits + 1, .only = "store sync state.db-wal"})) {
    ASSERT_FALSE(HasFailure());
    ++commits;
  }
  // The lapse, the stop of the tasks, the search, the receipt, the record.
  EXPECT_GE(commits, 5U) << "the fence was hardly cut off";
}

class Fences : public FenceFixture,
               public ::testing::WithParamInterface<
                   std::tuple<StepProcess, StepAction>> {
 protected:
  bool CutOffAt(std::uint32_t at) {
    return CutOff({std::get<0>(GetParam()), std::get<1>(GetParam()), at});
  }
};

TEST_P(Fences, GoOnUntilTheyAreDone) {
  std::uint32_t cut_off = 0;
  for (std::uint32_t at = 1; CutOffAt(at); ++at, ++cut_off) {
    ASSERT_FALSE(HasFailure());
    // A search, and the pages of the stores, have many steps that are alike,
    // and each cut takes seconds, until the fence is tried again.
    if (at > 5) {
      at += at / 2;
    }
  }
  EXPECT_GT(cut_off, 5U) << "the fence was hardly cut off";
}

INSTANTIATE_TEST_SUITE_P(
    Of, Fences,
    ::testing::Combine(
        ::testing::Values(StepProcess::kMountd, StepProcess::kExecutor),
        ::testing::Values(StepAction::kFail, StepAction::kKillBefore,
                          StepAction::kKillAfter)),
    [](const auto& test) {
      std::string name = std::string(NameOf(std::get<0>(test.param))) + "_" +
                         NameOf(std::get<1>(test.param));
      std::erase(name, '-');
      std::erase(name, ' ');
      return name;
    });

}  // namespace
}  // namespace mountd::testing
