// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/fence_teller.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/support/fakes/failing_store.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/support/matchers.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

class FenceTellerTest : public CoreFixture {
 protected:
  void SetUp() override { Start(); }
  // As a mountd that was killed starts again.
  void Start() {
    LetWorkEnd();
    teller_.reset();
    core_.Restart();
    FenceTeller::Ways ways;
    ways.tell_all = [this](const FenceRecord& fence) {
      all_.push_back(fence.allocation);
    };
    ways.tell_user = [this](const FenceRecord& fence) {
      user_.push_back(std::to_string(fence.lease.uid) + " " + fence.allocation);
      is_stuck_ = is_stuck_ || stops_reading_;
    };
    ways.has_subscriber = [this](std::uint32_t uid) {
      return subscribers_.contains(uid);
    };
    ways.has_reader = [this](std::uint32_t uid) {
      return subscribers_.contains(uid) && !is_stuck_;
    };
    teller_ = std::make_unique<FenceTeller>(
        FenceTeller::Parts{loop_, strands_, core_.state->leases},
        std::move(ways));
    ASSERT_THAT(teller_->Recover(), IsOk());
  }
  // Puts the receipt into the store, as Fences does before the signal.
  FenceRecord PutReceipt(const std::string& allocation,
                         std::uint32_t uid = Core::kAgent) {
    FenceRecord fence;
    fence.allocation = allocation;
    fence.lease = {uid, "lease"};
    fence.boot_id = "boot 1";
    fence.state = FenceState::kDone;
    ++now_;
    fence.done = {now_, now_};
    EXPECT_THAT(core_.state->leases.PutFence(fence), IsOk());
    return fence;
  }
  void Subscribe(std::uint32_t uid) {
    subscribers_.insert(uid);
    teller_->Subscribed(uid);
  }
  std::size_t Untold(std::uint32_t uid = Core::kAgent) {
    return core_.state->leases.ListUntold(uid, 100'000)->size();
  }
  // Lets a job of the teller and what the job posts run, a few times.
  void LetWorkEnd() {
    for (int i = 0; i < 6; ++i) {
      for (const std::uint32_t uid : {Core::kAgent, Core::kOther}) {
        bool passed = false;
        strands_.Submit("fences told to " + std::to_string(uid),
                        [&] { loop_.Post([&] { passed = true; }); });
        ASSERT_TRUE(loop_.RunUntil([&] { return passed; }));
      }
    }
  }

  std::vector<std::string> all_;
  std::vector<std::string> user_;
  std::set<std::uint32_t> subscribers_;
  bool is_stuck_ = false;       // the subscribers read nothing
  bool stops_reading_ = false;  // they read nothing after the next signal
  std::uint64_t now_ = 0;
  ManualLoop loop_;
  std::unique_ptr<FenceTeller> teller_;
  WorkerPool pool_{4};
  Strands strands_{pool_};
};

TEST_F(FenceTellerTest, ASubscriberIsToldOnce) {
  Subscribe(Core::kAgent);
  teller_->Done(PutReceipt("web"));
  EXPECT_EQ(all_, std::vector<std::string>{"web"});
  LetWorkEnd();
  EXPECT_EQ(Untold(), 0U);
  Start();
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_TRUE(user_.empty());
}

// The kill came between the receipt and the signal.
TEST_F(FenceTellerTest, AfterAKillTheNextSubscriberIsTold) {
  PutReceipt("web");
  PutReceipt("db", Core::kOther);
  Start();
  EXPECT_EQ(teller_->untold_count(), 2U);
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_TRUE(all_.empty());
  EXPECT_EQ(user_, std::vector<std::string>{"1000 web"});
  EXPECT_EQ(teller_->untold_count(), 1U);
  EXPECT_EQ(Untold(), 0U);
  EXPECT_EQ(Untold(Core::kOther), 1U);
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_EQ(user_.size(), 1U);
}

TEST_F(FenceTellerTest, AnAgentThatWasAwayIsToldWhenItSubscribes) {
  Subscribe(Core::kAdmin);
  teller_->Done(PutReceipt("web"));
  EXPECT_EQ(all_, std::vector<std::string>{"web"});
  LetWorkEnd();
  EXPECT_EQ(Untold(), 1U) << "an administrator is not the user";
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_EQ(user_, std::vector<std::string>{"1000 web"});
  EXPECT_EQ(Untold(), 0U);
  EXPECT_EQ(teller_->untold_count(), 0U);
}

// The kill came between the signal and its record.
TEST_F(FenceTellerTest, ASignalWithoutItsRecordIsSentAgain) {
  Subscribe(Core::kAgent);
  const FenceRecord fence = PutReceipt("web");
  {
    const FailingWrites full(core_.state->database(), "UPDATE", "fences");
    teller_->Done(fence);
    LetWorkEnd();
  }
  EXPECT_EQ(Untold(), 1U);
  Start();
  {
    // mountd tells it again, but not without an end.
    const FailingWrites full(core_.state->database(), "UPDATE", "fences");
    Subscribe(Core::kAgent);
    LetWorkEnd();
  }
  EXPECT_EQ(user_.size(), 1U);
  EXPECT_EQ(teller_->untold_count(), 1U);
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_EQ(user_.size(), 2U);
  EXPECT_EQ(Untold(), 0U);
}

TEST_F(FenceTellerTest, ASubscriberThatHasGoneWasNotTold) {
  PutReceipt("web");
  Start();
  Subscribe(Core::kAgent);
  subscribers_.clear();
  LetWorkEnd();
  EXPECT_TRUE(user_.empty());
  EXPECT_EQ(Untold(), 1U);
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_EQ(user_.size(), 1U);
}

// The store was read before the fence ended, and the subscriber came later.
TEST_F(FenceTellerTest, AFenceThatEndsWhileOthersAreToldIsNotLost) {
  PutReceipt("web");
  Start();
  Subscribe(Core::kAgent);
  subscribers_.clear();
  teller_->Done(PutReceipt("db"));
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_EQ(user_, (std::vector<std::string>{"1000 web", "1000 db"}));
  EXPECT_EQ(Untold(), 0U);
}

TEST_F(FenceTellerTest, AStoreThatCannotBeReadIsReadAgain) {
  PutReceipt("web");
  Start();
  {
    const LockedTable away(core_.state->database(), "fences");
    Subscribe(Core::kAgent);
    ASSERT_TRUE(loop_.RunUntil([&] { return loop_.timer_count() > 0; }));
  }
  EXPECT_TRUE(user_.empty());
  loop_.FireTimers();
  LetWorkEnd();
  EXPECT_EQ(user_.size(), 1U);
}

TEST_F(FenceTellerTest, ManyAreToldInOrder) {
  constexpr std::size_t kMany = 2 * FenceTeller::kAtOnce + 1;
  for (std::size_t i = 0; i < kMany; ++i) {
    PutReceipt("a" + std::to_string(i));
  }
  Start();
  Subscribe(Core::kAgent);
  ASSERT_TRUE(loop_.RunUntil([&] { return teller_->untold_count() == 0; }));
  ASSERT_EQ(user_.size(), kMany);
  EXPECT_EQ(user_.front(), "1000 a0");
  EXPECT_EQ(user_.back(), "1000 a" + std::to_string(kMany - 1));
  EXPECT_EQ(Untold(), 0U);
}

// A frozen agent with a full queue may end before it reads.
TEST_F(FenceTellerTest, AQueuedSignalIsNotTold) {
  Subscribe(Core::kAgent);
  is_stuck_ = true;
  teller_->Done(PutReceipt("web"));
  LetWorkEnd();
  loop_.FireTimers();
  LetWorkEnd();
  EXPECT_EQ(Untold(), 1U);
  EXPECT_TRUE(user_.empty()) << "more would wait behind the first signal";
  subscribers_.clear();
  is_stuck_ = false;
  loop_.FireTimers();
  LetWorkEnd();
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_EQ(user_, std::vector<std::string>{"1000 web"});
  EXPECT_EQ(Untold(), 0U);
}

TEST_F(FenceTellerTest, AQueueThatIsReadAtLastIsToldWithoutAnotherSubscriber) {
  Subscribe(Core::kAgent);
  is_stuck_ = true;
  teller_->Done(PutReceipt("web"));
  is_stuck_ = false;
  loop_.FireTimers();
  LetWorkEnd();
  EXPECT_EQ(Untold(), 0U);
  EXPECT_EQ(teller_->untold_count(), 0U);
}

// The first subscriber reads no more after the signal.
TEST_F(FenceTellerTest, WhatAnEarlierSubscriberLeftUnreadIsToldTheNext) {
  PutReceipt("web");
  Start();
  stops_reading_ = true;
  Subscribe(Core::kAgent);
  LetWorkEnd();
  EXPECT_EQ(user_.size(), 1U);
  EXPECT_EQ(Untold(), 1U);
  // Another one comes, and the first is gone before anybody looks.
  is_stuck_ = stops_reading_ = false;
  Subscribe(Core::kAgent);
  loop_.FireTimers();
  LetWorkEnd();
  EXPECT_EQ(user_.size(), 2U);
  EXPECT_EQ(Untold(), 0U);
}

TEST_F(FenceTellerTest, AllAreToldAfterAnErrorOfTheStore) {
  constexpr std::size_t kSome = FenceTeller::kAtOnce + 44;
  for (std::size_t i = 0; i < kSome; ++i) {
    PutReceipt("a" + std::to_string(i));
  }
  Start();
  {
    const FailingWrites full(core_.state->database(), "UPDATE", "fences");
    Subscribe(Core::kAgent);
    LetWorkEnd();
  }
  EXPECT_EQ(Untold(), kSome);
  EXPECT_EQ(loop_.timer_count(), 1U);
  loop_.FireTimers();
  ASSERT_TRUE(loop_.RunUntil([&] { return teller_->untold_count() == 0; }));
  EXPECT_EQ(std::set<std::string>(user_.begin(), user_.end()).size(), kSome);
  EXPECT_EQ(Untold(), 0U);
}

// A wall clock that is set back neither removes a receipt nor changes the
// order.
TEST_F(FenceTellerTest, ReceiptsAreOldByTheirOrderAlone) {
  auto& database = core_.state->database();
  ASSERT_THAT(database.Run("WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT "
                           "i+1 FROM n WHERE i<?1) INSERT INTO fences SELECT "
                           "'a' || i,1000,'lease','boot 1',1,0,0,2,0,'',0,0,0,"
                           "0,0,0,i,1000000+i,0,'',0,0,'',0,0,'','' FROM n",
                           store::LeaseTable::kFencesPerUid),
              IsOk());
  PutReceipt("new");
  const auto has = [&](const std::string& allocation) {
    return core_.state->leases.GetFence(allocation)->has_value();
  };
  EXPECT_TRUE(has("new"));
  EXPECT_FALSE(has("a1"));
  EXPECT_TRUE(has("a2"));
  EXPECT_EQ(core_.state->leases.ListUntold(Core::kAgent, 1)->front().allocation,
            "a2");
}

// Another fence of the same allocation is news of its own.
TEST_F(FenceTellerTest, ALaterFenceIsNotTakenAsTold) {
  const FenceRecord first = PutReceipt("web");
  PutReceipt("web");
  ASSERT_THAT(core_.state->leases.SetTold({first}), IsOk());
  EXPECT_EQ(Untold(), 1U);
}

}  // namespace
}  // namespace mountd
