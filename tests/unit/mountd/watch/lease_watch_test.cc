// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/lease_watch.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <future>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/fakes/failing_store.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

class LeaseWatchTest : public CoreFixture {
 protected:
  explicit LeaseWatchTest(Config config = Core::DefaultConfig())
      : CoreFixture(std::move(config)) {}
  void SetUp() override {
    ASSERT_THAT(core_.Recover(), IsOk());
    ASSERT_THAT(
        services().allocations.PrepareAllocation(agent_, NameOf("web"), ""),
        IsOk());
    Start();
  }
  void Start() {
    LeaseWatch::Events events;
    events.on_lapse = [this](const Leases::Lapsed& one) {
      lapses_.push_back(one.lease.key.name + ": " + one.lease.reason);
    };
    events.on_done = [this](const FenceRecord& fence) {
      done_.push_back(fence.allocation);
    };
    watch_ = std::make_unique<LeaseWatch>(
        LeaseWatch::Parts{loop_, strands_, services().leases,
                          services().fences},
        std::move(events));
    watch_->Start();
  }
  // Acquires the lease by a pipe, and returns its write end.
  UniqueFd AcquirePipe() { return AcquirePipe("lease", "web"); }
  UniqueFd AcquirePipe(const std::string& both) {
    return AcquirePipe(both, both);
  }
  UniqueFd AcquirePipe(const std::string& name, const std::string& allocation) {
    std::array<int, 2> ends{};
    EXPECT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
    LeaseRecord lease;
    lease.key.name = name;
    lease.allocation = allocation;
    EXPECT_THAT(services().lease_verbs.AcquireLease(
                    agent_, lease, std::make_shared<UniqueFd>(ends[0])),
                IsOk());
    watch_->Check();
    return UniqueFd(ends[1]);
  }
  bool IsKnown() {
    return core_.state->allocations.GetAllocation("web")->has_value();
  }

  ManualLoop loop_;
  std::vector<std::string> lapses_;
  std::vector<std::string> done_;
  // The watch outlives the work on the strands.
  std::unique_ptr<LeaseWatch> watch_;
  WorkerPool pool_{16};
  Strands strands_{pool_};
};

TEST_F(LeaseWatchTest, ThePipesEndIsTheLeasesEnd) {
  UniqueFd writer = AcquirePipe();
  // Data is no end.
  ASSERT_EQ(::write(writer.get(), "x", 1), 1);
  bool passed = false;
  loop_.Post([&] { passed = true; });
  ASSERT_TRUE(loop_.RunUntil([&] { return passed; }));
  EXPECT_TRUE(lapses_.empty());
  writer.reset();
  ASSERT_TRUE(loop_.RunUntil([&] { return !done_.empty(); }));
  EXPECT_EQ(lapses_, std::vector<std::string>{
                         "lease: the last write end of its pipe was closed"});
  EXPECT_EQ(done_, std::vector<std::string>{"web"});
  EXPECT_FALSE(IsKnown());
}

TEST_F(LeaseWatchTest, AnotherPipeTakesTheFirstOnesPlace) {
  UniqueFd first = AcquirePipe();
  UniqueFd second = AcquirePipe();
  first.reset();
  bool passed = false;
  loop_.Post([&] { passed = true; });
  ASSERT_TRUE(loop_.RunUntil([&] { return passed; }));
  EXPECT_TRUE(lapses_.empty());
  second.reset();
  EXPECT_TRUE(loop_.RunUntil([&] { return !done_.empty(); }));
}

// The second pipe ends while the lapse of the first one waits for its turn.
TEST_F(LeaseWatchTest, APipesEndDuringAnOlderLapseIsNotMissed) {
  UniqueFd first = AcquirePipe();
  std::promise<void> turn;
  strands_.Submit("lease " + std::to_string(Core::kAgent) + "/lease",
                  [came = turn.get_future().share()] { came.wait(); });
  const auto look = [&] {
    for (int i = 0; i < 3; ++i) {
      bool passed = false;
      loop_.Post([&] { passed = true; });
      ASSERT_TRUE(loop_.RunUntil([&] { return passed; }));
    }
  };
  first.reset();
  look();
  UniqueFd second = AcquirePipe();
  second.reset();
  look();
  turn.set_value();
  EXPECT_TRUE(loop_.RunUntil([&] { return !done_.empty(); }));
  EXPECT_EQ(lapses_.size(), 1U);
}

TEST_F(LeaseWatchTest, AFenceIsTriedUntilItIsDone) {
  executor().FailNext("RemoveAllocation", Code::kUnavailable, FailWhen::kBefore,
                      2);
  AcquirePipe().reset();
  while (done_.empty()) {
    ASSERT_TRUE(loop_.RunUntil(
        [&] { return !done_.empty() || loop_.timer_count() > 0; }));
    loop_.FireTimers();
  }
  EXPECT_EQ(lapses_.size(), 1U);
  EXPECT_FALSE(IsKnown());
  EXPECT_EQ(watch_->user_count(), 0U);
}

// The fence ends between the list of the retries and its retry.
TEST_F(LeaseWatchTest, ARetryThatComesLateTellsNothing) {
  executor().FailNext("RemoveAllocation", Code::kUnavailable);
  AcquirePipe().reset();
  ASSERT_TRUE(loop_.RunUntil([&] { return loop_.timer_count() > 0; }));
  loop_.FireTimers();
  std::promise<void> listed;
  strands_.Submit("", [&] { listed.set_value(); });
  listed.get_future().wait();
  ASSERT_THAT(services().fences.StopTasks("web"), IsOk());
  ASSERT_THAT(services().fences.Finish("web"), IsOk());
  for (int i = 0; i < 10; ++i) {
    for (const std::string& strand :
         {std::string(), FenceStrand("web"), AllocationStrand("web")}) {
      bool passed = false;
      strands_.Submit(strand, [&] { loop_.Post([&] { passed = true; }); });
      ASSERT_TRUE(loop_.RunUntil([&] { return passed; }));
    }
  }
  EXPECT_TRUE(done_.empty());
}

// A disk that is full fails each lapse, and each try costs a line in the log.
TEST_F(LeaseWatchTest, FailedLapsesShareOneTimer) {
  constexpr std::size_t kLeases = 3;
  std::vector<UniqueFd> writers;
  for (std::size_t i = 0; i < kLeases; ++i) {
    const std::string name = "a" + std::to_string(i);
    ASSERT_THAT(
        services().allocations.PrepareAllocation(agent_, NameOf(name), ""),
        IsOk());
    writers.push_back(AcquirePipe(name));
  }
  {
    const FailingWrites full(core_.state->database(), "INSERT", "leases");
    for (std::size_t i = 0; i < kLeases; ++i) {
      writers[i].reset();
      for (int round = 0; round < 4; ++round) {
        bool passed = false;
        strands_.Submit(
            "lease " + std::to_string(Core::kAgent) + "/a" + std::to_string(i),
            [&] { loop_.Post([&] { passed = true; }); });
        ASSERT_TRUE(loop_.RunUntil([&] { return passed; }));
      }
      EXPECT_EQ(loop_.timer_count(), 1U);
    }
  }
  loop_.FireTimers();
  EXPECT_TRUE(loop_.RunUntil([&] { return done_.size() == kLeases; }));
}

// Fences of many allocations of one user.
class ManyFences : public LeaseWatchTest {
 protected:
  static constexpr std::size_t kAllocations = 20;
  static constexpr std::uint64_t kFirstCgroup = 100;

  ManyFences() : LeaseWatchTest(KillConfig()) {}
  static Config KillConfig() {
    Config config = Core::DefaultConfig();
    config.rules[0].cgroups = {"/agent"};
    config.rules[0].stop_tasks = exec::TaskStop::kKill;
    return config;
  }
  void Acquire() {
    for (std::size_t i = 0; i < kAllocations; ++i) {
      const std::string name = "a" + std::to_string(i);
      executor().PutCgroup(kFirstCgroup + i, "/agent/" + name);
      ASSERT_THAT(services().allocations.PrepareAllocation(
                      agent_, NameOf(name), "prod", kFirstCgroup + i),
                  IsOk());
    }
    LeaseRecord lease;
    lease.key = {Core::kAgent, "scope"};
    lease.scope = "prod";
    lease.kind = LeaseKind::kHeartbeat;
    lease.timeout_ms = 10'000;
    lease.stop_tasks = exec::TaskStop::kKill;
    ASSERT_THAT(services().lease_verbs.AcquireLease(agent_, lease, nullptr),
                IsOk());
  }
  void Lapse() {
    core_.boot_us += 10'000'000;
    watch_->Check();
    ASSERT_TRUE(loop_.RunUntil([&] { return lapses_.size() == 1; }));
  }
  std::size_t Count(const std::string& plan) {
    return executor().script().Count(plan);
  }
  void ExpectBlocked(const std::string& plan, std::size_t count) {
    EXPECT_TRUE(loop_.RunUntil([&] { return Count(plan) == count; }));
    EXPECT_TRUE(executor().script().AwaitBlocked(plan, count));
    EXPECT_EQ(Count(plan), count);
    EXPECT_EQ(watch_->user_count(), 1U);
  }
  void ExpectAllDone() {
    EXPECT_TRUE(loop_.RunUntil([&] { return done_.size() == kAllocations; }));
    EXPECT_TRUE(services().leases.Pending().empty());
    EXPECT_EQ(watch_->user_count(), 0U);
  }
};

// All workers wait for the same executors, so one user must not take them all.
TEST_F(ManyFences, OfAUserAreUnderWayAFewAtOnce) {
  Acquire();
  executor().script().Block("StopTasks");
  executor().script().Block("RemoveAllocation");
  Lapse();
  ExpectBlocked("StopTasks", 4);
  executor().script().Unblock("StopTasks");
  ExpectBlocked("RemoveAllocation", 8);
  executor().script().Unblock("RemoveAllocation");
  ExpectAllDone();
}

TEST_F(ManyFences, StopAllTasksWhileReleasesHang) {
  Acquire();
  executor().script().Block("RemoveAllocation");
  Lapse();
  EXPECT_TRUE(
      loop_.RunUntil([&] { return Count("StopTasks") == kAllocations; }));
  ExpectBlocked("RemoveAllocation", 8);
  executor().script().Unblock("RemoveAllocation");
  ExpectAllDone();
}

// A user who has had a fence costs nothing afterwards.
TEST_F(LeaseWatchTest, AUserIsForgottenWithTheLastFence) {
  EXPECT_EQ(watch_->user_count(), 0U);
  executor().script().Block("RemoveAllocation");
  AcquirePipe().reset();
  ASSERT_TRUE(loop_.RunUntil([&] { return lapses_.size() == 1; }));
  EXPECT_TRUE(loop_.RunUntil(
      [&] { return executor().script().Count("RemoveAllocation") == 1; }));
  EXPECT_EQ(watch_->user_count(), 1U);
  executor().script().Unblock("RemoveAllocation");
  ASSERT_TRUE(loop_.RunUntil([&] { return !done_.empty(); }));
  EXPECT_EQ(watch_->user_count(), 0U);
}

TEST_F(LeaseWatchTest, AStartGoesOnWithAFence) {
  LeaseRecord lease;
  lease.key = {Core::kAgent, "lease"};
  lease.allocation = "web";
  lease.kind = LeaseKind::kHeartbeat;
  lease.timeout_ms = 10'000;
  ASSERT_THAT(services().lease_verbs.AcquireLease(agent_, lease, nullptr),
              IsOk());
  core_.boot_us += 10'000'000;
  ASSERT_THAT(services().leases.Lapse(lease.key, "late"), IsOk());
  // The list that the first watch has begun ends before that watch.
  bool listed = false;
  strands_.Submit("", [&] { loop_.Post([&] { listed = true; }); });
  ASSERT_TRUE(loop_.RunUntil([&] { return listed; }));
  watch_.reset();
  core_.Restart();
  ASSERT_THAT(core_.Recover(), IsOk());
  Start();
  EXPECT_TRUE(loop_.RunUntil([&] { return !done_.empty(); }));
  EXPECT_TRUE(lapses_.empty());
}

TEST_F(LeaseWatchTest, APipeThatCannotBeWatchedIsNoLease) {
  loop_.RefuseFds(1);
  const UniqueFd writer = AcquirePipe();
  EXPECT_TRUE(loop_.RunUntil([&] { return !done_.empty(); }));
}

}  // namespace
}  // namespace mountd
