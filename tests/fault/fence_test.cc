// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The lease of an allocation with a volume of a CSI plugin, a mount of it and a
// running task lapses, and a step of its fence fails, or mountd, an executor or
// mountd-csi is killed there. The fence goes on by itself until its receipt
// says what the lease asked for, and mountd tells its user so.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/subscriber.h"
#include "tests/fault/fault_fixture.h"
#include "tests/fault/plausible_errors.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"

namespace mountd::testing {
namespace {

constexpr char kGroups[] = "/sys/fs/cgroup";

// How a lease asks for its fence to stop the tasks, and to end.
struct Way {
  const char* stop_tasks;
  bool keep;
};
constexpr std::array<Way, 6> kWays = {{{"kill", false},
                                       {"freeze", true},
                                       {"no", false},
                                       {"kill", true},
                                       {"freeze", false},
                                       {"no", true}}};

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
    std::ofstream(CgroupPath() + "/cgroup.freeze") << "0" << std::flush;
  }
  bool TaskWasKilled() {
    int status = 0;
    const bool ended = ::waitpid(task_, &status, WNOHANG) == task_;
    task_ = ended ? -1 : task_;
    return ended && WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  }
  bool IsFrozen() const {
    std::ifstream file(CgroupPath() + "/cgroup.events");
    const std::string text(std::istreambuf_iterator<char>(file), {});
    return text.find("frozen 1") != std::string::npos;
  }
  // Makes the allocation with a volume and a mount of it, and binds it to the
  // pipe. Returns "Ok" or the error.
  std::string MakeBound(Agent& agent, int pipe, const Way& way);
  std::optional<agent::Fence> AwaitDone(Agent& agent, const Way& way);
  void CheckTask(const Way& way);
  void CheckAllocation(Agent& agent, const Way& way);
  struct Step {
    StepProcess process = StepProcess::kMountd;
    StepAction action = StepAction::kKillAfter;
    std::uint32_t at = 1;
    int error = 0;
    std::string only;  // if set, only steps of this name count
  };
  // True if the step was reached.
  bool CutOff(const Step& step, const Way& way);

  std::string top_;
  pid_t task_ = -1;
};

std::string FenceFixture::MakeBound(Agent& agent, int pipe, const Way& way) {
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
  lease.stop_tasks = way.stop_tasks;
  lease.keep = way.keep;
  return agent.Told(agent.client().AcquireLease("lease", lease));
}

std::optional<agent::Fence> FenceFixture::AwaitDone(Agent& agent,
                                                    const Way& way) {
  std::optional<agent::Fence> done;
  EXPECT_TRUE(Eventually([&] {
    const auto fence = agent.client().GetFence(agent.allocation());
    agent.Told(fence);
    // A volume whose detachment failed is detached by a later try, and GetFence
    // tells so then. A kept one stays.
    if (fence && fence->state == "done" &&
        (way.keep || fence->volumes_detached)) {
      done = *fence;
    }
    return done.has_value();
  })) << agent.told();
  return done;
}

void FenceFixture::CheckTask(const Way& way) {
  const std::string stop = way.stop_tasks;
  if (stop == "kill") {
    EXPECT_TRUE(Eventually([&] { return TaskWasKilled(); }));
    return;
  }
  EXPECT_EQ(IsFrozen(), stop == "freeze");
  EXPECT_EQ(::waitpid(task_, nullptr, WNOHANG), 0) << "the task has ended";
}

void FenceFixture::CheckAllocation(Agent& agent, const Way& way) {
  const auto status = agent.Status();
  if (way.keep) {
    EXPECT_TRUE(status && status->mounts.size() == 1 &&
                status->volumes.size() == 1);
    EXPECT_EQ(agent.HalfDone(), "");
    EXPECT_EQ(agent.Contradiction(), "");
  } else {
    EXPECT_TRUE(!status && status.error().code == Code::kNotFound);
    EXPECT_FALSE(std::filesystem::exists("/run/mountd/base/a/web"));
  }
}

bool FenceFixture::CutOff(const Step& step, const Way& way) {
  Agent agent(*world_, "web");
  StartTask();
  std::array<int, 2> ends{};
  EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  EXPECT_TRUE(Eventually([&] {
    return MakeBound(agent, reading.get(), way) == "Ok";
  })) << agent.told();
  // After MakeBound, because that forgets the receipt of the step before.
  Subscription subscription;
  world_->steps().Arm(step.process, step.action, step.at, step.error,
                      step.only);
  writing.reset();
  const auto fence = AwaitDone(agent, way);
  const bool is_told = subscription.AwaitTold();
  world_->steps().Disarm();
  const bool reached = world_->steps().Fired();
  SCOPED_TRACE(std::string(way.stop_tasks) + (way.keep ? ", keep: " : ": ") +
               NameOf(step.action) + " at step " + std::to_string(step.at) +
               " " + world_->steps().FiredStep() + ", error " +
               std::to_string(step.error));
  EXPECT_TRUE(is_told);
  EXPECT_TRUE(fence && fence->volumes_detached != way.keep &&
              fence->copies.empty() && fence->stop_tasks == way.stop_tasks);
  CheckTask(way);
  CheckAllocation(agent, way);
  EXPECT_EQ(agent.Release(), "");
  EndTask();
  return reached;
}

// A commit of the receipt is the last step before the signal, and the record of
// the signal is the next commit.
TEST_F(FenceFixture, AKillAfterEachCommitLosesNoSignal) {
  std::uint32_t commits = 0;
  while (CutOff({.at = commits + 1, .only = "store sync state.db-wal"},
                kWays[0])) {
    ASSERT_FALSE(HasFailure());
    ++commits;
  }
  // The lapse, the stop of the tasks, the search, the receipt, the record.
  EXPECT_GE(commits, 5U) << "the fence was hardly cut off";
}

// Cuts off the first step of each name. A step goes with the ways to fence that
// have it, one after the other.
class Fences : public FenceFixture,
               public ::testing::WithParamInterface<
                   std::tuple<StepProcess, StepAction>> {
 protected:
  StepProcess process() const { return std::get<0>(GetParam()); }
  StepAction action() const { return std::get<1>(GetParam()); }
  // Finds the ways that have a step, by its name.
  void FindSteps();
  std::vector<int> ErrorsOf(const std::string& step) const;

  std::map<std::string, std::vector<Way>> steps_;
};

void Fences::FindSteps() {
  for (const Way& way : kWays) {
    CutOff({process(), StepAction::kCount, 0, 0, ""}, way);
    for (const std::string& name : world_->steps().Names()) {
      std::vector<Way>& ways = steps_[name];
      if (ways.empty() || ways.back().stop_tasks != way.stop_tasks ||
          ways.back().keep != way.keep) {
        ways.push_back(way);
      }
    }
  }
}

std::vector<int> Fences::ErrorsOf(const std::string& step) const {
  if (action() != StepAction::kFail) {
    return {0};
  }
  std::vector<int> errors = PlausibleErrors(process(), step);
  EXPECT_FALSE(errors.empty()) << step;
  errors.resize(std::min<std::size_t>(errors.size(), 2));
  return errors;
}

// Returns some of the steps that a fence has in any case.
std::vector<std::string> KnownSteps(StepProcess process) {
  switch (process) {
    case StepProcess::kMountd:
      return {"plan StopTasks", "plan Detach", "rpc NodeUnpublishVolume",
              "rpc NodeUnstageVolume", "store sync state.db-wal"};
    case StepProcess::kExecutor:
      return {"OpenKernfs", "WriteAs", "Unmount"};
    default:
      return {"request"};
  }
}

TEST_P(Fences, GoOnUntilTheyAreDone) {
  FindSteps();
  ASSERT_FALSE(HasFailure());
  std::size_t cuts = 0;
  std::size_t reached = 0;
  for (const auto& [name, ways] : steps_) {
    for (const int error : ErrorsOf(name)) {
      const Way& way = ways[cuts % ways.size()];
      reached += CutOff({process(), action(), 1, error, name}, way) ? 1U : 0U;
      ++cuts;
      ASSERT_FALSE(HasFailure());
    }
  }
  for (const std::string& step : KnownSteps(process())) {
    EXPECT_TRUE(steps_.contains(step)) << step;
  }
  // mountd asks plugins by itself, too, and such a step may not come again.
  EXPECT_GE(reached * 2, cuts) << "the fence was hardly cut off";
}

INSTANTIATE_TEST_SUITE_P(
    Of, Fences,
    ::testing::Combine(::testing::Values(StepProcess::kMountd,
                                         StepProcess::kExecutor,
                                         StepProcess::kCsi),
                       ::testing::Values(StepAction::kFail,
                                         StepAction::kKillBefore,
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
