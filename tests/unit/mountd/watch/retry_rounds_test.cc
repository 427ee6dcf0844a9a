// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/retry_rounds.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>

#include "mountd/watch/owed_retrier.h"
#include "tests/support/fakes/core.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

using std::chrono::milliseconds;

class RetryRoundsTest : public ::testing::Test {
 protected:
  RetryRoundsTest() {
    rounds_.emplace(loop_, *strands_, [this] { return List(); });
  }
  ~RetryRoundsTest() override {
    Open();
    strands_.reset();
  }

  // Returns jobs that wait until Open.
  Result<std::vector<RetryRounds::Job>> List() {
    ++lists_;
    if (fails_) {
      return MakeError(Code::kInternal, "list", "");
    }
    std::vector<RetryRounds::Job> jobs;
    for (int i = 0; i < count_; ++i) {
      const std::string name = std::to_string(first_ + i);
      jobs.push_back({name, "strand " + name, [this] {
                        std::unique_lock lock(mutex_);
                        ++begun_;
                        most_ = std::max(most_, ++at_once_);
                        opened_.wait(lock, [this] { return open_; });
                        --at_once_;
                      }});
    }
    return jobs;
  }
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    opened_.notify_all();
  }
  int Begun() {
    const std::lock_guard lock(mutex_);
    return begun_;
  }
  bool Until(const std::function<bool()>& condition) {
    return loop_.RunUntil(condition);
  }
  void CheckAndWait(void (RetryRounds::*check)() = &RetryRounds::Check) {
    const int before = lists_;
    ((*rounds_).*check)();
    ASSERT_TRUE(Until([&] { return lists_ > before; }));
    // Waits until the list has been posted and taken.
    bool posted = false;
    strands_->Submit("", [&] { loop_.Post([&] { posted = true; }); });
    ASSERT_TRUE(Until([&] { return posted; }));
  }

  ManualLoop loop_;
  std::optional<RetryRounds> rounds_;  // outlives the pool's last jobs
  WorkerPool pool_{32};
  std::unique_ptr<Strands> strands_ = std::make_unique<Strands>(pool_);
  std::mutex mutex_;
  std::condition_variable opened_;
  bool open_ = false;
  int begun_ = 0;
  int at_once_ = 0;
  int most_ = 0;
  std::atomic<int> lists_ = 0;
  std::atomic<int> count_ = 0;
  std::atomic<int> first_ = 0;  // the first job's name
  std::atomic<bool> fails_ = false;
};

TEST_F(RetryRoundsTest, NothingIsTriedWhereThereIsNothing) {
  CheckAndWait();
  EXPECT_EQ(loop_.timer_count(), 0U);
}

TEST_F(RetryRoundsTest, OneRoundIsSetHoweverOftenItIsAskedFor) {
  count_ = 1;
  CheckAndWait();
  CheckAndWait();
  EXPECT_EQ(loop_.timer_count(), 1U);
}

TEST_F(RetryRoundsTest, AFewAreTriedAtOnceAndEachOnce) {
  count_ = 20;
  CheckAndWait();
  EXPECT_EQ(loop_.FireTimers(), std::vector{milliseconds(1000)});
  ASSERT_TRUE(Until([&] { return Begun() == 8; }));
  // No other round begins while these jobs run.
  CheckAndWait();
  EXPECT_EQ(loop_.timer_count(), 0U);
  Open();
  ASSERT_TRUE(Until([&] { return loop_.timer_count() == 1; }));
  EXPECT_EQ(Begun(), 20);
  EXPECT_EQ(most_, 8);
}

TEST_F(RetryRoundsTest, PausesGrowUntilThereIsMore) {
  Open();
  count_ = 1;
  CheckAndWait();
  const auto pause = [&] {
    EXPECT_TRUE(Until([&] { return loop_.timer_count() == 1; }));
    return loop_.FireTimers().front().count();
  };
  for (const int expected :
       {1000, 2000, 4000, 8000, 16'000, 32'000, 60'000, 60'000}) {
    EXPECT_EQ(pause(), expected);
  }
  count_ = 2;
  // The round under way may have listed before count_ changed.
  if (const auto next = pause(); next != 1000) {
    EXPECT_EQ(next, 60'000);
    EXPECT_EQ(pause(), 1000);
  }
}

// The current pause is as long as the only job has made it.
class LongPauseTest : public RetryRoundsTest {
 protected:
  void SetUp() override {
    Open();
    count_ = 1;
    CheckAndWait();
    for (int tries = 1; tries <= 4; ++tries) {
      ASSERT_TRUE(Until([&] { return loop_.timer_count() == 1; }));
      loop_.FireTimers();
    }
    ASSERT_TRUE(Until([&] { return loop_.timer_count() == 1; }));
    ASSERT_EQ(Begun(), 4);
  }
  // Expects the old long timer, which does nothing any more, and a short one.
  void ExpectTheNextRoundSoon() {
    EXPECT_EQ(loop_.FireTimers(),
              (std::vector{milliseconds(16'000), milliseconds(1000)}));
    ASSERT_TRUE(Until([&] { return loop_.timer_count() == 1; }));
    EXPECT_EQ(Begun(), 4 + count_);
    EXPECT_EQ(loop_.FireTimers(), std::vector{milliseconds(2000)});
  }
};

TEST_F(LongPauseTest, WhatIsNewIsTriedSoon) {
  count_ = 2;
  CheckAndWait();
  ExpectTheNextRoundSoon();
}

TEST_F(LongPauseTest, AlsoInPlaceOfWhatWasThereBefore) {
  first_ = 1;
  CheckAndWait();
  ExpectTheNextRoundSoon();
}

TEST_F(LongPauseTest, AndWhoeverHurriesIsHeardOnce) {
  CheckAndWait(&RetryRounds::Hurry);
  CheckAndWait(&RetryRounds::Hurry);
  ExpectTheNextRoundSoon();
}

TEST_F(LongPauseTest, NothingElseMakesItShorter) {
  CheckAndWait();
  count_ = 0;
  CheckAndWait();
  EXPECT_EQ(loop_.timer_count(), 1U);
}

// A list that fails is not taken for an empty one.
TEST_F(RetryRoundsTest, AListThatCannotBeHadIsTriedAgain) {
  Open();
  count_ = 1;
  CheckAndWait();
  fails_ = true;
  loop_.FireTimers();
  ASSERT_TRUE(Until([&] { return loop_.timer_count() == 1; }));
  EXPECT_EQ(Begun(), 0);
  fails_ = false;
  loop_.FireTimers();
  ASSERT_TRUE(Until([&] { return loop_.timer_count() == 1; }));
  EXPECT_EQ(Begun(), 1);
}

TEST(VolumeSettlerTest, WhatHasNoFinalAnswerIsAskedForAgain) {
  Core core;
  ASSERT_TRUE(core.AddPlugin("nfs"));
  const CallContext call = Core::By(Core::kAgent);
  ASSERT_EQ(Outcome(core.services->allocations.PrepareAllocation(
                call, NameOf("web"), "")),
            "Ok");
  csi::PublishSpec spec;
  spec.allocation = "web";
  spec.alias = "alias";
  spec.plugin = "nfs";
  spec.volume_id = "v1";
  core.client->FailNext("NodePublishVolume", csi::RpcCode::kDeadlineExceeded,
                        FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
  EXPECT_EQ(
      Outcome(core.services->volumes.PublishVolume(call, spec, UniqueFd())),
      "DeadlineExceeded");
  core.client->script().Clear();
  ManualLoop loop;
  std::optional<VolumeSettler> settler;  // outlives the pool's last jobs
  WorkerPool pool(4);
  Strands strands(pool);
  settler.emplace(loop, strands, *core.volumes);
  settler->Check();
  ASSERT_TRUE(loop.RunUntil([&] { return loop.timer_count() == 1; }));
  loop.FireTimers();
  EXPECT_TRUE(loop.RunUntil([&] {
    const auto found =
        core.state->volumes.GetPublication("web", "alias").value();
    return found && found->state == PublicationState::kPublished;
  }));
}

}  // namespace
}  // namespace mountd
