// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/mount_prober.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/support/fakes/core.h"
#include "tests/support/fakes/failing_store.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

using exec::MountHealth;

class MountProberTest : public ::testing::Test {
 protected:
  MountProberTest() {
    call_ = Core::By(Core::kAgent);
    EXPECT_EQ(Outcome(core_.services->allocations.PrepareAllocation(
                  call_, NameOf("web"), "")),
              "Ok");
    prober_.Start();
  }
  ~MountProberTest() override { strands_.reset(); }

  std::uint64_t Bind(const std::string& name, const std::string& source) {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "app";
    spec.name = name;
    spec.wish.source = source;
    spec.wish.attributes = exec::kReadOnly;
    const auto config = core_.services->mounts.BindMount(call_, spec);
    EXPECT_EQ(Outcome(config), "Ok");
    return config->record.mount_id;
  }
  // Runs a whole round. False if none was due.
  bool Round() {
    const bool due =
        loop_.FireTimers() == std::vector{std::chrono::milliseconds(30'000)};
    return due && loop_.RunUntil([&] { return loop_.timer_count() == 1; });
  }
  std::vector<std::string> Told() {
    const std::lock_guard lock(mutex_);
    return std::exchange(told_, {});
  }
  std::size_t Probes() const {
    const auto plans = core_.executor->plans();
    return static_cast<std::size_t>(
        std::count_if(plans.begin(), plans.end(), [](const auto& plan) {
          return plan.kind == exec::PlanKind::kProbeMount;
        }));
  }

  Core core_;
  CallContext call_;
  ManualLoop loop_;
  WorkerPool pool_{4};
  std::unique_ptr<Strands> strands_ = std::make_unique<Strands>(pool_);
  std::mutex mutex_;
  std::vector<std::string> told_;
  MountHealths healths_;
  MountProber prober_{
      {loop_, *strands_, *core_.executor, *core_.boot, healths_},
      std::chrono::milliseconds(30'000),
      [this](const MountRecord& record, MountHealth now,
             const std::string& why) {
        const std::lock_guard lock(mutex_);
        told_.push_back(record.name + " " + std::string(MountHealthName(now)) +
                        (why.empty() ? "" : ": " + why));
      }};
};

TEST_F(MountProberTest, ChangesAreToldOnceForEachMount) {
  const std::uint64_t one = Bind("one", "data");
  const std::uint64_t two = Bind("two", "data");
  const std::uint64_t other = Bind("other", "logs");
  EXPECT_EQ(healths_.Of(one), MountHealth::kUnknown);
  ASSERT_TRUE(Round());
  EXPECT_TRUE(Told().empty());
  EXPECT_EQ(healths_.Of(one), MountHealth::kHealthy);
  core_.executor->SetHealth("data", MountHealth::kHung);
  ASSERT_TRUE(Round());
  EXPECT_EQ(Told(), (std::vector<std::string>{
                        "one hung: statfs did not answer in time",
                        "two hung: statfs did not answer in time"}));
  EXPECT_EQ(healths_.Of(two), MountHealth::kHung);
  EXPECT_EQ(healths_.Of(other), MountHealth::kHealthy);
  ASSERT_TRUE(Round());
  EXPECT_TRUE(Told().empty());
  core_.executor->SetHealth("data", MountHealth::kDead);
  ASSERT_TRUE(Round());
  const auto dead = Told();
  ASSERT_EQ(dead.size(), 2U);
  EXPECT_TRUE(dead[0].starts_with("one dead: statfs: ")) << dead[0];
  core_.executor->SetHealth("data", MountHealth::kHealthy);
  ASSERT_TRUE(Round());
  EXPECT_EQ(Told(), (std::vector<std::string>{"one healthy", "two healthy"}));
}

TEST_F(MountProberTest, OneProbeForEachFileSystem) {
  for (int i = 0; i < 5; ++i) {
    Bind("data" + std::to_string(i), "data");
    Bind("logs" + std::to_string(i), "logs");
  }
  ASSERT_TRUE(Round());
  EXPECT_EQ(Probes(), 2U);
  ASSERT_TRUE(Round());
  EXPECT_EQ(Probes(), 4U);
}

TEST_F(MountProberTest, WhatHasGoneIsForgottenAndItsNeighbourAsked) {
  const std::uint64_t gone = Bind("a", "data");
  const std::uint64_t left = Bind("b", "data");
  ASSERT_TRUE(Round());
  core_.executor->LoseMount("web/app/a");
  core_.executor->SetHealth("data", MountHealth::kDead);
  ASSERT_TRUE(Round());
  EXPECT_EQ(healths_.Of(left), MountHealth::kDead);
  ASSERT_EQ(Outcome(core_.services->mounts.Unmount(call_, NameOf("web"),
                                                   NameOf("app"), NameOf("a"))),
            "Ok");
  ASSERT_TRUE(Round());
  EXPECT_EQ(healths_.Of(gone), MountHealth::kUnknown);
}

TEST_F(MountProberTest, AnExecutorThatFailsSaysNothingOfAMount) {
  const std::uint64_t one = Bind("one", "data");
  ASSERT_TRUE(Round());
  core_.executor->FailNext("ProbeMount", Code::kUnavailable);
  ASSERT_TRUE(Round());
  EXPECT_EQ(healths_.Of(one), MountHealth::kHealthy);
  EXPECT_TRUE(Told().empty());
}

TEST_F(MountProberTest, OnlyWhatIsTheRecordsIsProbed) {
  const std::uint64_t one = Bind("one", "data");
  const std::uint64_t two = Bind("two", "logs");
  MountRecord record = *core_.boot->mounts.FindMount(two).value();
  record.name = "lost";
  record.state = MountRecordState::kLost;
  ASSERT_EQ(Outcome(core_.boot->mounts.PutMount(record)), "Ok");
  record.name = "inside";
  record.state = MountRecordState::kAttached;
  record.wish.target_kind = exec::TargetKind::kContainer;
  ASSERT_EQ(Outcome(core_.boot->mounts.PutMount(record)), "Ok");
  // Another mount is in its place, and mountd has not looked yet.
  core_.executor->ReplaceMount("web/app/one");
  ASSERT_TRUE(Round());
  EXPECT_EQ(core_.executor->script().Count("ProbeMount"), 1U);
  EXPECT_EQ(core_.executor->script().Count("ProbeMount web/app/two"), 1U);
  EXPECT_EQ(healths_.Of(one), MountHealth::kUnknown);
  EXPECT_EQ(healths_.Of(two), MountHealth::kHealthy);
}

// A mount that is healthy at first is not reported, a dead one is.
TEST_F(MountProberTest, OneThatIsDeadAtFirstIsTold) {
  Bind("one", "data");
  core_.executor->SetHealth("data", MountHealth::kHung);
  ASSERT_TRUE(Round());
  EXPECT_EQ(Told(), std::vector<std::string>{
                        "one hung: statfs did not answer in time"});
}

TEST_F(MountProberTest, WhatCannotBeAskedAboutIsAskedInTheNextRound) {
  const std::uint64_t one = Bind("one", "data");
  core_.executor->FailNext("InspectTarget", Code::kUnavailable);
  ASSERT_TRUE(Round());
  EXPECT_EQ(Probes(), 0U);
  {
    const LockedTable locked(core_.boot->database(), "mounts");
    ASSERT_TRUE(Round());
  }
  EXPECT_EQ(Probes(), 0U);
  ASSERT_TRUE(Round());
  EXPECT_EQ(healths_.Of(one), MountHealth::kHealthy);
}

}  // namespace
}  // namespace mountd
