// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/mount_watch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <future>

#include "mountd/service/teardowns.h"
#include "tests/support/fakes/core.h"
#include "tests/support/fakes/failing_store.h"
#include "tests/support/fakes/manual_loop.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

class MountWatchTest : public ::testing::Test {
 protected:
  MountWatchTest() {
    call_ = Core::By(Core::kAgent);
    EXPECT_EQ(Outcome(core_.services->allocations.PrepareAllocation(
                  call_, NameOf("web"), "")),
              "Ok");
  }
  ~MountWatchTest() override {
    // The jobs use the watch, so they end first.
    strands_.reset();
  }

  void Bind(const std::string& name) {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "app";
    spec.name = name;
    spec.wish.source = "data";
    ASSERT_EQ(Outcome(core_.services->mounts.BindMount(call_, spec)), "Ok");
  }
  MountRecordState StateOf(const std::string& name) {
    return core_.boot->mounts.GetMount("web", "app", name).value()->state;
  }
  std::vector<std::string> Lost() const {
    const std::lock_guard lock(mutex_);
    return lost_;
  }
  bool Until(const std::function<bool()>& condition) {
    return loop_.RunUntil(condition);
  }
  // Starts the watch, and waits until it has counted the mounts.
  void Start() {
    watch_.Start();
    ASSERT_TRUE(Until([&] { return room_.count() > 0; }));
  }
  // Waits until no work is left, not even a timer's.
  void Settle() {
    do {
      loop_.FireTimers();
      for (const std::string& strand :
           {std::string("mount watch"), AllocationStrand("web")}) {
        auto done = std::make_shared<std::atomic<bool>>(false);
        strands_->Submit(
            strand, [this, done] { loop_.Post([done] { *done = true; }); });
        ASSERT_TRUE(Until([&] { return done->load(); }));
      }
    } while (loop_.timer_count() > 0);
  }
  std::size_t Calls(const std::string& call) const {
    return core_.executor->script().Count(call);
  }
  // Fires timers until the condition holds.
  bool UntilWithTimers(const std::function<bool()>& condition) {
    return Until([&] {
      loop_.FireTimers();
      return condition();
    });
  }

  Core core_;
  CallContext call_;
  ManualLoop loop_;
  WorkerPool pool_{4};
  std::unique_ptr<Strands> strands_ = std::make_unique<Strands>(pool_);
  MountRoom room_{10, 5};
  mutable std::mutex mutex_;
  std::vector<std::string> lost_;
  MountWatch watch_{{loop_, *strands_, *core_.executor, *core_.state,
                     *core_.boot, *core_.mounts, room_},
                    [this](const MountRecord& record, const std::string& why) {
                      const std::lock_guard lock(mutex_);
                      lost_.push_back(record.name + ": " + why);
                    }};
};

TEST_F(MountWatchTest, OneThatIsUnmountedByOthersIsLost) {
  Bind("data");
  Bind("more");
  Start();
  core_.executor->LoseMount("web/app/data");
  ASSERT_TRUE(UntilWithTimers([&] { return !Lost().empty(); }));
  EXPECT_EQ(Lost(), std::vector<std::string>{"data: no mount is there"});
  EXPECT_EQ(StateOf("data"), MountRecordState::kLost);
  EXPECT_EQ(StateOf("more"), MountRecordState::kAttached);
}

TEST_F(MountWatchTest, OneThatIsReplacedByOthersIsLost) {
  Bind("data");
  Start();
  core_.executor->ReplaceMount("web/app/data");
  ASSERT_TRUE(UntilWithTimers([&] { return !Lost().empty(); }));
  EXPECT_EQ(Lost(), std::vector<std::string>{"data: another mount is there"});
}

TEST_F(MountWatchTest, WhatMountdUnmountsIsNotLost) {
  Bind("data");
  Bind("more");
  Start();
  ASSERT_EQ(Outcome(core_.services->mounts.Unmount(
                call_, NameOf("web"), NameOf("app"), NameOf("data"))),
            "Ok");
  core_.executor->LoseMount("web/app/more");
  ASSERT_TRUE(UntilWithTimers([&] { return !Lost().empty(); }));
  EXPECT_EQ(Lost().size(), 1U);
}

TEST_F(MountWatchTest, WhatWentBeforeTheWatchWasThereIsLost) {
  Bind("data");
  core_.executor->LoseMount("web/app/data");
  watch_.Start();
  EXPECT_TRUE(UntilWithTimers([&] { return Lost().size() == 1; }));
}

TEST_F(MountWatchTest, AfterAnOverflowAllIsCompared) {
  Bind("data");
  Bind("more");
  Start();
  core_.executor->OverflowWatch(true);
  core_.executor->LoseMount("web/app/data");
  Bind("later");
  core_.executor->OverflowWatch(false);
  ASSERT_TRUE(UntilWithTimers([&] { return !Lost().empty(); }));
  EXPECT_EQ(Lost(), std::vector<std::string>{"data: no mount is there"});
  ASSERT_TRUE(UntilWithTimers(
      [&] { return StateOf("later") == MountRecordState::kAttached; }));
}

TEST_F(MountWatchTest, ABrokenWatchIsMadeAnew) {
  Bind("data");
  Start();
  core_.executor->BreakWatch();
  ASSERT_TRUE(UntilWithTimers([&] {
    const auto plans = core_.executor->plans();
    return std::count_if(plans.begin(), plans.end(), [](const auto& plan) {
             return plan.kind == exec::PlanKind::kListMounts;
           }) > 1;
  }));
  core_.executor->LoseMount("web/app/data");
  EXPECT_TRUE(UntilWithTimers([&] { return Lost().size() == 1; }));
}

TEST_F(MountWatchTest, OneThatCannotBeMadeIsTriedAgain) {
  Bind("data");
  core_.executor->FailNext("WatchMounts", Code::kUnavailable);
  core_.executor->FailNext("ListMounts", Code::kUnavailable);
  watch_.Start();
  ASSERT_TRUE(UntilWithTimers([&] { return room_.count() > 0; }));
  core_.executor->LoseMount("web/app/data");
  EXPECT_TRUE(UntilWithTimers([&] { return Lost().size() == 1; }));
}

TEST_F(MountWatchTest, MountsAreCountedAndTheLastAreKept) {
  Bind("data");
  core_.executor->SetMostMounts(20);
  Start();
  const std::uint64_t before = room_.count();
  EXPECT_TRUE(room_.Check("mount", "x").has_value());
  Bind("more");
  ASSERT_TRUE(UntilWithTimers([&] { return room_.count() == before + 1; }));
  for (int i = 0; room_.Check("mount", "x") && i < 20; ++i) {
    const std::uint64_t now = room_.count();
    Bind("n" + std::to_string(i));
    ASSERT_TRUE(UntilWithTimers([&] { return room_.count() == now + 1; }));
  }
  EXPECT_EQ(room_.count(), 10U);
  EXPECT_EQ(Outcome(room_.Check("mount", "x")), "ResourceExhausted");
  EXPECT_NE(MessageOf(room_.Check("mount", "x")).find("fs.mount-max"),
            std::string::npos);
  core_.executor->LoseMount("web/app/more");
  ASSERT_TRUE(UntilWithTimers([&] { return room_.count() == 9; }));
  EXPECT_TRUE(room_.Check("mount", "x").has_value());
}

TEST_F(MountWatchTest, ARaisedLimitIsNoticedByWhoIsRefused) {
  Bind("data");
  core_.executor->SetMostMounts(11);
  Start();
  EXPECT_EQ(Outcome(room_.Check("mount", "x")), "ResourceExhausted");
  core_.executor->SetMostMounts(1000);
  EXPECT_TRUE(
      UntilWithTimers([&] { return room_.Check("mount", "x").has_value(); }));
}

// Counting takes a plan, so mountd counts only once so many mounts have come
// that a plugin may have too many.
TEST_F(MountWatchTest, APluginsMountsAreCountedWhenTheyMayBeTooMany) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  const auto counts = [&] {
    const auto plans = core_.executor->plans();
    return std::count_if(plans.begin(), plans.end(), [](const auto& plan) {
      return plan.kind == exec::PlanKind::kCountMounts;
    });
  };
  const auto check = [&] { return room_.Check("mount", "x", "nfs"); };
  Start();
  ASSERT_TRUE(UntilWithTimers([&] { return counts() == 1; }));
  for (const char* name : {"a", "b"}) {
    const std::uint64_t before = room_.count();
    Bind(name);
    ASSERT_TRUE(UntilWithTimers([&] { return room_.count() > before; }));
  }
  EXPECT_EQ(counts(), 1);
  core_.executor->SetPluginMounts("nfs", 5);
  for (int i = 0; i < 5; ++i) {
    Bind("n" + std::to_string(i));
  }
  ASSERT_TRUE(UntilWithTimers([&] { return !check(); }));
  EXPECT_EQ(Outcome(check()), "ResourceExhausted");
  EXPECT_NE(MessageOf(check()).find("limits.mounts_per_plugin"),
            std::string::npos);
  EXPECT_TRUE(room_.Check("mount", "x", "ebs").has_value());
  EXPECT_TRUE(room_.Check("mount", "x").has_value());
  core_.executor->SetPluginMounts("nfs", 4);
  EXPECT_TRUE(UntilWithTimers([&] { return check().has_value(); }));
}

TEST_F(MountWatchTest, APluginWhoseMountsCannotBeCountedIsServed) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  core_.executor->SetPluginMounts("nfs", 5);
  core_.executor->FailNext("CountMounts", Code::kUnavailable);
  Start();
  EXPECT_TRUE(room_.Check("mount", "x", "nfs").has_value());
  Bind("a");
  EXPECT_TRUE(
      UntilWithTimers([&] { return !room_.Check("mount", "x", "nfs"); }));
}

TEST_F(MountWatchTest, OnlyWhatShouldBeThereIsCompared) {
  Bind("data");
  MountRecord record =
      *core_.boot->mounts.GetMount("web", "app", "data").value();
  const auto put = [&](const std::string& name, MountRecordState state,
                       exec::TargetKind where) {
    record.name = name;
    record.mount_id += 1000;
    record.state = state;
    record.wish.target_kind = where;
    ASSERT_EQ(Outcome(core_.boot->mounts.PutMount(record)), "Ok");
  };
  put("replaced", MountRecordState::kReplacing, exec::TargetKind::kInbox);
  put("lost", MountRecordState::kLost, exec::TargetKind::kInbox);
  // A mount in a container goes with it, and nobody is notified.
  put("inside", MountRecordState::kAttached, exec::TargetKind::kContainer);
  put("gone", MountRecordState::kAttached, exec::TargetKind::kInbox);
  watch_.Start();
  ASSERT_TRUE(UntilWithTimers([&] { return !Lost().empty(); }));
  EXPECT_EQ(Lost(), std::vector<std::string>{"gone: no mount is there"});
}

TEST_F(MountWatchTest, APluginOfSeveralInstancesIsCountedOnce) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  PluginRecord second = core_.plugins->Get("nfs")->record;
  second.type = "controller";
  ASSERT_EQ(Outcome(core_.plugins->Register(second)), "Ok");
  ASSERT_EQ(core_.state->plugins.ListPlugins()->size(), 2U);
  Start();
  ASSERT_TRUE(UntilWithTimers(
      [&] { return core_.executor->script().Count("CountMounts nfs") > 0; }));
  EXPECT_EQ(core_.executor->script().Count("CountMounts nfs"), 1U);
}

// The plugin's directory does not exist yet, so it has no mounts.
TEST_F(MountWatchTest, APluginWithoutADirectoryHasNoMounts) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  core_.executor->SetPluginMounts("nfs", 5);
  core_.executor->FailNext("CountMounts", Code::kNotFound);
  Start();
  ASSERT_TRUE(UntilWithTimers(
      [&] { return core_.executor->script().Count("CountMounts nfs") > 0; }));
  EXPECT_TRUE(room_.Check("mount", "x", "nfs").has_value());
}

TEST_F(MountWatchTest, AnFdThatTheLoopRefusesIsOpenedAnew) {
  Bind("data");
  loop_.RefuseFds(1);
  watch_.Start();
  ASSERT_TRUE(UntilWithTimers([&] { return Calls("WatchMounts") == 2; }));
  core_.executor->LoseMount("web/app/data");
  EXPECT_TRUE(UntilWithTimers([&] { return Lost().size() == 1; }));
}

TEST_F(MountWatchTest, AListThatIsCutOffTakesNothingForLost) {
  Bind("data");
  core_.executor->CutOffNextList();
  watch_.Start();
  ASSERT_TRUE(UntilWithTimers([&] { return room_.count() > 0; }));
  EXPECT_EQ(Calls("ListMounts"), 2U);
  EXPECT_EQ(Lost(), std::vector<std::string>{});
  core_.executor->LoseMount("web/app/data");
  EXPECT_TRUE(UntilWithTimers([&] { return Lost().size() == 1; }));
}

TEST_F(MountWatchTest, WhatComesWhileAllIsListedIsCounted) {
  Bind("data");
  Start();
  Settle();
  const std::uint64_t before = room_.count();
  core_.executor->OverflowWatch(true);
  core_.executor->OverflowWatch(false);
  core_.executor->script().Block("ListMounts");
  ASSERT_TRUE(UntilWithTimers([&] { return Calls("ListMounts") == 2; }));
  Bind("more");
  ASSERT_TRUE(UntilWithTimers([&] { return room_.count() == before + 1; }));
  core_.executor->LoseMount("web/app/data");
  ASSERT_TRUE(UntilWithTimers([&] { return room_.count() == before; }));
  core_.executor->script().Unblock("ListMounts");
  Settle();
  EXPECT_EQ(room_.count(), before) << "one has come, and one gone";
  EXPECT_EQ(Lost(), std::vector<std::string>{"data: no mount is there"});
  EXPECT_EQ(StateOf("more"), MountRecordState::kAttached);
}

// Overflows during a listing cause one more listing after it.
TEST_F(MountWatchTest, AnOverflowWhileAllIsListedHasItListedOnceMore) {
  Bind("data");
  Start();
  Settle();
  core_.executor->script().Block("ListMounts");
  for (int i = 0; i < 3; ++i) {
    core_.executor->OverflowWatch(true);
    core_.executor->OverflowWatch(false);
    ASSERT_TRUE(Until([&] { return loop_.timer_count() > 0; }));
    loop_.FireTimers();
    ASSERT_TRUE(core_.executor->script().AwaitBlocked("ListMounts"));
  }
  EXPECT_EQ(Calls("ListMounts"), 2U);
  core_.executor->script().Unblock("ListMounts");
  Settle();
  EXPECT_EQ(Calls("ListMounts"), 3U);
}

TEST_F(MountWatchTest, WhatTheStoreCannotTellIsNotLost) {
  Bind("data");
  Bind("more");
  Start();
  Settle();
  {
    const LockedTable locked(core_.boot->database(), "mounts");
    core_.executor->LoseMount("web/app/data");
    Settle();
  }
  EXPECT_EQ(Lost(), std::vector<std::string>{});
  core_.executor->FailNext("InspectTarget", Code::kUnavailable);
  core_.executor->LoseMount("web/app/more");
  Settle();
  EXPECT_EQ(Lost(), std::vector<std::string>{});
  EXPECT_EQ(StateOf("more"), MountRecordState::kAttached);
  // The next comparison finds both.
  core_.executor->OverflowWatch(true);
  core_.executor->OverflowWatch(false);
  EXPECT_TRUE(UntilWithTimers([&] { return Lost().size() == 2; }));
}

// The check of a mount that seems lost comes after mountd's own work on that
// allocation.
TEST_F(MountWatchTest, WhatMountdUnmountsMeanwhileIsNotLost) {
  Bind("data");
  Start();
  Settle();
  std::promise<void> begun;
  std::promise<void> looked_for;
  strands_->Submit(AllocationStrand("web"), [&] {
    begun.set_value();
    looked_for.get_future().wait();
    EXPECT_EQ(Outcome(core_.mounts->Unmount("web", "app", "data")), "Ok");
  });
  begun.get_future().wait();
  core_.executor->LoseMount("web/app/data");
  ASSERT_TRUE(Until([&] { return loop_.timer_count() > 0; }));
  loop_.FireTimers();
  std::promise<void> done;
  strands_->Submit("mount watch", [&] { done.set_value(); });
  done.get_future().wait();
  looked_for.set_value();
  Settle();
  EXPECT_EQ(Lost(), std::vector<std::string>{});
}

TEST_F(MountWatchTest, PluginsThatCannotBeListedHaveNoneTooMany) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  core_.executor->SetPluginMounts("nfs", 5);
  {
    const LockedTable locked(core_.state->database(), "plugins");
    Start();
    Settle();
    EXPECT_TRUE(room_.Check("mount", "x", "nfs").has_value());
  }
  for (int i = 0; i < 6; ++i) {
    Bind("n" + std::to_string(i));
  }
  EXPECT_TRUE(
      UntilWithTimers([&] { return !room_.Check("mount", "x", "nfs"); }));
}

// ---- Before Linux 6.15 ----

class OldKernelWatchTest : public MountWatchTest {
 protected:
  OldKernelWatchTest() { core_.executor->SetTellsIds(false); }
};

TEST_F(OldKernelWatchTest, AllIsComparedWithEachChangeAndOnlyThen) {
  Bind("data");
  Bind("more");
  Start();
  Settle();
  EXPECT_EQ(Calls("ListMounts"), 1U) << "that it can be read is no change";
  core_.executor->LoseMount("web/app/data");
  ASSERT_TRUE(UntilWithTimers([&] { return !Lost().empty(); }));
  Settle();
  EXPECT_EQ(Lost(), std::vector<std::string>{"data: no mount is there"});
  EXPECT_EQ(StateOf("more"), MountRecordState::kAttached);
  EXPECT_GE(Calls("ListMounts"), 2U);
  EXPECT_EQ(Calls("WatchMounts"), 1U);
}

TEST_F(OldKernelWatchTest, MountsAreCountedAllTheSame) {
  Bind("data");
  Start();
  Settle();
  const std::uint64_t before = room_.count();
  Bind("more");
  ASSERT_TRUE(UntilWithTimers([&] { return room_.count() == before + 1; }));
  core_.executor->LoseMount("web/app/data");
  EXPECT_TRUE(UntilWithTimers([&] { return room_.count() == before; }));
}

// Each change comes a moment after the one before.
TEST_F(OldKernelWatchTest, ManyChangesAreFewComparisons) {
  Bind("data");
  Start();
  Settle();
  for (int i = 0; i < 20; ++i) {
    Bind("n" + std::to_string(i));
  }
  ASSERT_TRUE(UntilWithTimers([&] { return room_.count() >= 21; }));
  Settle();
  EXPECT_LE(Calls("ListMounts"), 5U);
}

}  // namespace
}  // namespace mountd
