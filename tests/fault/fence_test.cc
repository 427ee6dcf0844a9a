// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The lease of an allocation with a volume of a CSI plugin, a mount of it and a
// running task lapses, and a step of its fence fails, or mountd, an executor or
// mountd-csi is killed there. The fence goes on by itself until its receipt
// says what the lease asked for, and mountd tells its user so.
//   MOUNTD_FAULT_SEED   seed of the random numbers; it is printed
//   MOUNTD_FAULT_FROM   "Open 3" leaves out the cuts before the third "Open"
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
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "agent/subscriber.h"
#include "mountd/base/number.h"
#include "tests/fault/fault_fixture.h"
#include "tests/fault/plausible_errors.h"
#include "tests/support/environment.h"
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

// mountd seldom asks a plugin during a fence, which takes much less time, how
// it is. The steps of such a question would be among the fence's.
constexpr int kProbeMs = 5000;

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
    auto world = World::Make(Timeouts(), kProbeMs);
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
  // Waits until mountd has made the steps that follow the signal.
  void AwaitEnd(Agent& agent, const Step& step);
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

// mountd answers a call after the steps before it, or soon after them.
void FenceFixture::AwaitEnd(Agent& agent, const Step& step) {
  constexpr int kEnough = 5;
  std::size_t last = 0;
  for (int same = 0; same < kEnough && !world_->steps().Fired();) {
    agent.Told(agent.client().GetFence(agent.allocation()));
    const std::size_t now = world_->steps().CountOf(step.process);
    same = now == last ? same + 1 : 0;
    last = now;
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
  AwaitEnd(agent, step);
  world_->steps().Disarm();
  const bool reached = world_->steps().Fired();
  SCOPED_TRACE(std::string(way.stop_tasks) + (way.keep ? ", keep: " : ": ") +
               NameOf(step.action) + " at step " + std::to_string(step.at) +
               " " + world_->steps().FiredStep() + ", error " +
               std::to_string(step.error));
  EXPECT_TRUE(is_told);
  EXPECT_TRUE(fence && fence->volumes_detached != way.keep &&
              fence->stop_tasks == way.stop_tasks);
  EXPECT_EQ(fence ? fence->copies : "no receipt", "");
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

// Cuts off each step of each name. A step goes with the ways to fence that have
// it, one after the other. Without MOUNTD_EACH_STEP, which the nightly run
// sets, each action cuts off the first step of a name, the last one or one
// between them, so that the three actions together have all three.
class Fences : public FenceFixture,
               public ::testing::WithParamInterface<
                   std::tuple<StepProcess, StepAction>> {
 protected:
  StepProcess process() const { return std::get<0>(GetParam()); }
  StepAction action() const { return std::get<1>(GetParam()); }
  // Records fences by all ways, and counts the steps of each name.
  void FindSteps();
  // Returns the ways that have as many steps of that name.
  std::vector<Way> WaysWith(const std::string& name, std::uint32_t at) const;
  std::uint32_t LastOf(const std::string& name) const;
  std::vector<std::uint32_t> Chosen(const std::string& name, std::size_t nth);
  std::vector<int> ErrorsOf(const std::string& name, std::uint32_t at);
  // Cuts off that step, with each of its errors.
  void CutOffAt(const std::string& name, std::uint32_t at);
  bool IsReached(Step step, const Way& way);

  using Counts = std::array<std::uint32_t, kWays.size()>;
  std::map<std::string, Counts> steps_;
  std::mt19937 random_;
  std::size_t cuts_ = 0;
};

bool IsEachStepWanted() { return std::getenv("MOUNTD_EACH_STEP") != nullptr; }

// Returns the step of MOUNTD_FAULT_FROM.
std::pair<std::string, std::uint32_t> FirstWanted() {
  const char* const text = std::getenv("MOUNTD_FAULT_FROM");
  const std::string from = text == nullptr ? "" : text;
  const std::size_t space = from.rfind(' ');
  const auto at = space == std::string::npos
                      ? std::nullopt
                      : ParseNumber<std::uint32_t>(from.substr(space + 1));
  return at ? std::pair(from.substr(0, space), *at)
            : std::pair(from, std::uint32_t{0});
}

void Fences::FindSteps() {
  // SQLite checkpoints the log in one of a dozen fences.
  const int rounds = IsEachStepWanted() ? 4 : 1;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < kWays.size(); ++i) {
      CutOff({process(), StepAction::kCount, 0, 0, ""}, kWays[i]);
      std::map<std::string, std::uint32_t> counted;
      for (const std::string& name : world_->steps().Names()) {
        ++counted[name];
      }
      for (const auto& [name, count] : counted) {
        steps_[name][i] = std::max(steps_[name][i], count);
      }
    }
  }
}

std::uint32_t Fences::LastOf(const std::string& name) const {
  const Counts& counts = steps_.at(name);
  return *std::max_element(counts.begin(), counts.end());
}

std::vector<Way> Fences::WaysWith(const std::string& name,
                                  std::uint32_t at) const {
  std::vector<Way> ways;
  for (std::size_t i = 0; i < kWays.size(); ++i) {
    if (steps_.at(name)[i] >= at) {
      ways.push_back(kWays[i]);
    }
  }
  return ways;
}

std::vector<std::uint32_t> Fences::Chosen(const std::string& name,
                                          std::size_t nth) {
  const std::uint32_t last = LastOf(name);
  std::vector<std::uint32_t> all(last);
  std::iota(all.begin(), all.end(), 1U);
  if (IsEachStepWanted() || last == 1) {
    return all;
  }
  const auto between = 1 + static_cast<std::uint32_t>(random_() % last);
  const std::array<std::uint32_t, 3> spread = {1, between, last};
  return {spread[(nth + static_cast<std::size_t>(action())) % spread.size()]};
}

// Steps are many, so only the first of a name fails with each error, and each
// later one with the next error. The short run takes one error of each step.
std::vector<int> Fences::ErrorsOf(const std::string& name, std::uint32_t at) {
  if (action() != StepAction::kFail) {
    return {0};
  }
  const std::vector<int> errors = PlausibleErrors(process(), name);
  EXPECT_FALSE(errors.empty()) << name;
  if (errors.empty() || (IsEachStepWanted() && at == 1)) {
    return errors;
  }
  return {errors[(IsEachStepWanted() ? at : random_()) % errors.size()]};
}

// mountd asks a plugin how it is in its own time, and SQLite writes to the file
// of a store at a checkpoint of its own (a commit writes to the "-wal" file). A
// fence may do neither.
bool IsOfNoFence(const std::string& name) {
  static const std::set<std::string> kNames = {"rpc Probe", "rpc NodeGetInfo",
                                               "plan InspectPluginSocket"};
  return kNames.contains(name) ||
         (name.starts_with("store ") && name.ends_with(".db"));
}

// Returns whether the number of these steps varies from fence to fence.
bool Varies(StepProcess process, const std::string& name) {
  static const std::set<std::string> kOfSearches = {
      // One for each process of this machine and its mount namespaces.
      "List", "MountNamespaceOf", "MountsOfNamespace", "Open", "ReadLink",
      "Stat", "StatLinked",
      // One for each look at mounts that changed, or at tasks that go on.
      "MountById", "OpenKernfs", "ReadFile", "WriteAs"};
  static const std::set<std::string> kOfStores = {
      // One for each page that a commit has changed.
      "store write state.db-wal", "store write boot.db-wal",
      "store sync state.db-wal",
      // Only in a fence that fills the log up.
      "store sync state.db", "store truncate state.db", "store write state.db"};
  switch (process) {
    case StepProcess::kExecutor:
      return kOfSearches.contains(name);
    case StepProcess::kMountd:
      return kOfStores.contains(name);
    default:
      // Two for each question how the plugin is.
      return true;
  }
}

// Returns some of the steps that a fence has in any case, and how many.
std::map<std::string, std::uint32_t> KnownSteps(StepProcess process) {
  switch (process) {
    case StepProcess::kMountd:
      return {{"plan StopTasks", 1},
              {"plan FindCopies", 2},
              {"plan Detach", 1},
              {"plan RemoveAllocation", 1},
              {"plan RemoveVolumeDir", 2},
              {"rpc NodeUnpublishVolume", 1},
              {"rpc NodeUnstageVolume", 1},
              {"store sync state.db-wal", 5},
              {"store write state.db-wal", 5}};
    case StepProcess::kExecutor:
      return {{"OpenKernfs", 1},       {"WriteAs", 1},
              {"Unmount", 1},          {"RemoveDirectory", 2},
              {"MountNamespaceOf", 1}, {"MountNamespaces", 1}};
    default:
      // NodeUnpublishVolume and NodeUnstageVolume.
      return {{"request", 2}, {"answer", 2}};
  }
}

// A fence may have fewer steps of a name that varies, and is cut off at its own
// last one then.
bool Fences::IsReached(Step step, const Way& way) {
  constexpr int kMostFences = 60;  // several times those until a full log
  const bool varies = Varies(process(), step.only);
  for (int i = 0; i < (varies ? kMostFences : 1); ++i) {
    if (CutOff(step, way)) {
      return true;
    }
    const std::size_t came = world_->steps().Names().size();
    step.at = came == 0 ? step.at : static_cast<std::uint32_t>(came);
    if (HasFailure()) {
      break;
    }
  }
  return false;
}

void Fences::CutOffAt(const std::string& name, std::uint32_t at) {
  const std::vector<Way> ways = WaysWith(name, at);
  const std::vector<int> errors = ErrorsOf(name, at);
  if (std::pair(name, at) < FirstWanted()) {
    cuts_ += errors.size();  // so that the later cuts have the same ways
    return;
  }
  for (const int error : errors) {
    const bool reached = IsReached({process(), action(), at, error, name},
                                   ways[cuts_ % ways.size()]);
    EXPECT_TRUE(reached || IsOfNoFence(name))
        << "no fence had " << name << " " << at << " again";
    ++cuts_;
    ASSERT_FALSE(HasFailure());
  }
}

TEST_P(Fences, GoOnUntilTheyAreDone) {
  const std::uint64_t seed =
      NumberOf("MOUNTD_FAULT_SEED", std::random_device()());
  std::cout << "MOUNTD_FAULT_SEED=" << seed << std::endl;
  SCOPED_TRACE("MOUNTD_FAULT_SEED=" + std::to_string(seed));
  random_.seed(seed);
  cuts_ = seed % kWays.size();
  FindSteps();
  ASSERT_FALSE(HasFailure());
  for (const auto& [name, least] : KnownSteps(process())) {
    EXPECT_TRUE(steps_.contains(name) && LastOf(name) >= least) << name;
  }
  std::size_t nth = seed % 3;
  for (const auto& [name, counts] : steps_) {
    for (const std::uint32_t at : Chosen(name, nth++)) {
      ASSERT_NO_FATAL_FAILURE(CutOffAt(name, at));
    }
    std::cout << NameOf(process()) << " " << name << ": of " << LastOf(name)
              << " steps, " << cuts_ << " cuts so far" << std::endl;
  }
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
