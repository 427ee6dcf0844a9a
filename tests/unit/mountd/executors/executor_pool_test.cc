// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>

#include "mountd/base/current_user.h"
#include "mountd/base/operation_trace.h"
#include "tests/unit/mountd/executors/executor_pool_fixture.h"

namespace mountd::exec {
namespace {

TEST_F(ExecutorPoolTest, OneConnectionServesPlanAfterPlan) {
  ExecutorPool pool = Make(4);
  const auto base = pool.PrepareBase();
  ASSERT_EQ(MessageOf(base), "Ok");
  EXPECT_EQ(base->mount_id, 77U);
  EXPECT_EQ(MessageOf(pool.PrepareAllocation(Allocation("web"))), "Ok");
  EXPECT_EQ(executors_.connections(), 1);
  EXPECT_EQ(executors_.script().calls(),
            (std::vector<std::string>{"10", "11 web"}));
}

TEST_F(ExecutorPoolTest, AnErrorArrivesAsItWasMade) {
  ExecutorPool pool = Make(1);
  Error error = ErrnoError(EBUSY, "umount2", "", "is in use");
  executors_.script().FailNext(kPrepareAllocation, error);
  const auto failed = pool.PrepareAllocation(Allocation("web"));
  ASSERT_EQ(Outcome(failed), "Busy");
  EXPECT_EQ(failed.error().op, "umount2");
  EXPECT_EQ(failed.error().detail, "is in use");
  EXPECT_EQ(failed.error().sys_errno, EBUSY);
  // A plan that failed is not the executor's fault, so the executor stays.
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(executors_.connections(), 1);
  EXPECT_EQ(pool.stuck(), 0U);
}

TEST_F(ExecutorPoolTest, ACodeOfALaterReleaseIsInternal) {
  ExecutorPool pool = Make(1);
  executors_.script().FailNext(kPrepareAllocation,
                               MakeError(static_cast<Code>(999), "op", ""));
  EXPECT_EQ(Outcome(pool.PrepareAllocation(Allocation("web"))), "Internal");
}

TEST_F(ExecutorPoolTest, AStuckExecutorIsAbandonedAndCountedUntilItEnds) {
  ExecutorPool pool = Make(1, milliseconds(1000));
  executors_.script().Block(kPrepareBase);
  EXPECT_EQ(Outcome(pool.PrepareBase()), "DeadlineExceeded");
  EXPECT_EQ(pool.stuck(), 1U);
  // The lane is free again, with another executor.
  EXPECT_EQ(MessageOf(pool.PrepareAllocation(Allocation("web"))), "Ok");
  EXPECT_EQ(executors_.connections(), 2);
  EXPECT_EQ(pool.stuck(), 1U);
  executors_.script().Unblock(kPrepareBase);
  // The stuck executor finds the end of its input.
  EXPECT_TRUE(Await([&] { return pool.stuck() == 0; }));
  EXPECT_EQ(executors_.alive(), 1);
}

TEST_F(ExecutorPoolTest, WhileTooManyAreStuckPlansAreRefused) {
  ExecutorPool pool(executors_.connector(), {4, milliseconds(1000), 2});
  executors_.script().Block(kPrepareBase);
  EXPECT_EQ(Outcome(pool.PrepareBase()), "DeadlineExceeded");
  EXPECT_EQ(Outcome(pool.PrepareBase()), "DeadlineExceeded");
  EXPECT_EQ(Outcome(pool.PrepareAllocation(Allocation("web"))), "Unavailable");
  EXPECT_EQ(Outcome(pool.CreateNetwork({}, -1, -1)), "Unavailable");
  EXPECT_EQ(executors_.connections(), 2);
  executors_.script().Unblock(kPrepareBase);
  EXPECT_TRUE(Await([&] { return pool.stuck() == 0; }));
  EXPECT_EQ(MessageOf(pool.PrepareAllocation(Allocation("web"))), "Ok");
}

TEST_F(ExecutorPoolTest, PlansThatAreSlowKeepNoOtherWaiting) {
  ExecutorPool pool(executors_.connector(),
                    {2, milliseconds(60'000), 16, milliseconds(10)});
  executors_.script().Block(kPrepareBase);
  std::vector<std::jthread> planning = PrepareBases(pool, 5);
  ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase, 5));
  EXPECT_EQ(MessageOf(pool.PrepareAllocation(Allocation("web"))), "Ok");
  EXPECT_EQ(executors_.connections(), 6);
  executors_.script().Unblock(kPrepareBase);
}

TEST_F(ExecutorPoolTest, NoMoreAreSlowThanMayBeStuck) {
  constexpr milliseconds kSlow(10);
  ExecutorPool pool(executors_.connector(),
                    {1, milliseconds(60'000), 2, kSlow});
  executors_.script().Block(kPrepareBase);
  std::vector<std::jthread> planning = PrepareBases(pool, 3);
  ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase, 3));
  std::atomic<pid_t> thread = 0;
  planning.emplace_back([&] {
    thread = gettid();
    EXPECT_EQ(MessageOf(pool.PrepareAllocation(Allocation("web"))), "Ok");
  });
  ASSERT_TRUE(Await([&] { return IsAsleep(thread); }));
  std::this_thread::sleep_for(10 * kSlow);
  EXPECT_EQ(executors_.connections(), 3);
  EXPECT_EQ(executors_.script().Count(kPrepareAllocation), 0U);
  executors_.script().Unblock(kPrepareBase);
}

// Runs the call as the user's.
template <typename F>
auto As(std::uint32_t uid, const F& call) {
  const CurrentUser user(uid);
  return call();
}

TEST_F(ExecutorPoolTest, WhatIsStuckOfOneUserHoldsNoOther) {
  ExecutorPool pool(executors_.connector(), {4, milliseconds(500), 2});
  executors_.script().Block(kPrepareBase);
  const auto prepare = [&] { return Outcome(pool.PrepareBase()); };
  const auto allocate = [&] {
    return Outcome(pool.PrepareAllocation(Allocation("web")));
  };
  EXPECT_EQ(As(1000, prepare), "DeadlineExceeded");
  EXPECT_EQ(As(1000, prepare), "DeadlineExceeded");
  EXPECT_EQ(As(1000, allocate), "Unavailable");
  EXPECT_EQ(As(1001, allocate), "Ok");
  EXPECT_EQ(allocate(), "Ok");  // mountd's own
  executors_.script().Unblock(kPrepareBase);
  EXPECT_TRUE(Await([&] { return pool.stuck() == 0; }));
  EXPECT_EQ(As(1000, allocate), "Ok");
}

TEST_F(ExecutorPoolTest, WhatIsStuckOfAllUsersIsBounded) {
  ExecutorPool pool(
      executors_.connector(),
      {.deadline = milliseconds(500), .max_stuck = 1, .max_stuck_in_all = 2});
  executors_.script().Block(kPrepareBase);
  const auto prepare = [&] { return Outcome(pool.PrepareBase()); };
  EXPECT_EQ(As(1000, prepare), "DeadlineExceeded");
  EXPECT_EQ(As(1001, prepare), "DeadlineExceeded");
  EXPECT_EQ(As(1002, prepare), "Unavailable");
  executors_.script().Unblock(kPrepareBase);
}

// Many plans on an object that hangs begin before the first one is abandoned.
TEST_F(ExecutorPoolTest, FewPlansOfOneUserRunOnOneObjectAtOnce) {
  ExecutorPool pool(executors_.connector(),
                    {2, milliseconds(2000), 16, milliseconds(10)});
  AttachPlan plan;
  plan.source.host_volume = ToWire("nfs");
  executors_.script().Block(kAttach);
  std::vector<std::string> outcomes(5);
  {
    std::vector<std::jthread> planning;
    for (std::string& outcome : outcomes) {
      planning.emplace_back([&] { outcome = Outcome(pool.Attach(plan, -1)); });
    }
    ASSERT_TRUE(executors_.script().AwaitBlocked(kAttach, 2));
    // Others go on meanwhile, on the same object, too.
    EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
    planning.emplace_back([&] {
      const CurrentUser user(1000);
      EXPECT_EQ(Outcome(pool.Attach(plan, -1)), "DeadlineExceeded");
    });
    ASSERT_TRUE(executors_.script().AwaitBlocked(kAttach, 3));
  }
  EXPECT_EQ(std::count(outcomes.begin(), outcomes.end(), "Ok"), 0);
  EXPECT_EQ(executors_.script().Count(kAttach), 3U);
  EXPECT_EQ(pool.stuck(), 3U);
  executors_.script().Unblock(kAttach);
}

// Otherwise a user could have twice as many executors hang.
TEST_F(ExecutorPoolTest, WhatIsStuckCountsAsSlow) {
  constexpr milliseconds kSlow(10);
  ExecutorPool pool(executors_.connector(), {1, milliseconds(1000), 2, kSlow});
  executors_.script().Block(kPrepareBase);
  EXPECT_EQ(Outcome(pool.PrepareBase()), "DeadlineExceeded");
  ASSERT_EQ(pool.stuck(), 1U);
  {
    std::vector<std::string> outcomes(4);
    std::vector<std::jthread> planning;
    for (std::string& outcome : outcomes) {
      planning.emplace_back([&] { outcome = Outcome(pool.PrepareBase()); });
    }
    planning.clear();
    EXPECT_EQ(std::count(outcomes.begin(), outcomes.end(), "Ok"), 0);
  }
  EXPECT_EQ(executors_.script().Count(kPrepareBase), 3U);
  EXPECT_EQ(pool.stuck(), 3U);
  executors_.script().Unblock(kPrepareBase);
}

TEST_F(ExecutorPoolTest, OneUsersSlowPlansLeaveRoomForAnothers) {
  constexpr milliseconds kSlow(10);
  ExecutorPool pool(executors_.connector(),
                    {1, milliseconds(60'000), 2, kSlow});
  executors_.script().Block(kPrepareBase);
  std::vector<std::jthread> planning;
  for (int i = 0; i < 6; ++i) {
    planning.emplace_back([&] {
      EXPECT_EQ(As(1000, [&] { return Outcome(pool.PrepareBase()); }), "Ok");
    });
  }
  ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase, 3));
  std::this_thread::sleep_for(10 * kSlow);
  const auto allocate = [&] {
    return Outcome(pool.PrepareAllocation(Allocation("web")));
  };
  EXPECT_EQ(As(1001, allocate), "Ok");
  EXPECT_EQ(executors_.script().Count(kPrepareBase), 3U);
  executors_.script().Unblock(kPrepareBase);
}

// One user's many plans come before another's single one.
TEST_F(ExecutorPoolTest, UsersTakeTurns) {
  ExecutorPool pool = Make(1);
  executors_.script().Block(kPrepareBase);
  std::vector<std::jthread> planning;
  const auto plan = [&](std::uint32_t uid, const std::string& name) {
    std::atomic<pid_t> thread = 0;
    planning.emplace_back([&pool, &thread, uid, name] {
      thread = gettid();
      const CurrentUser user(uid);
      EXPECT_EQ(name == "first"
                    ? Outcome(pool.PrepareBase())
                    : Outcome(pool.PrepareAllocation(Allocation(name))),
                "Ok");
    });
    ASSERT_TRUE(Await([&] { return IsAsleep(thread); }));
  };
  plan(1000, "first");
  ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase));
  plan(1000, "a1");
  plan(1000, "a2");
  plan(1000, "a3");
  plan(1001, "b1");
  plan(1001, "b2");
  plan(1002, "c1");
  executors_.script().Unblock(kPrepareBase);
  planning.clear();
  EXPECT_EQ(executors_.script().calls(),
            (std::vector<std::string>{"10", "11 b1", "11 c1", "11 a1", "11 b2",
                                      "11 a2", "11 a3"}));
}

// A search may take seconds, and a user may ask for one after the other.
TEST_F(ExecutorPoolTest, SearchesOfOneUserHoldUpNoOthers) {
  ExecutorPool pool = Make(1);
  executors_.script().Block(kFindHolders);
  std::vector<std::jthread> searching;
  for (int i = 0; i < 3; ++i) {
    searching.emplace_back([&] {
      const CurrentUser user(1000);
      EXPECT_EQ(MessageOf(pool.FindHolders({})), "Ok");
    });
  }
  ASSERT_TRUE(executors_.script().AwaitBlocked(kFindHolders));
  EXPECT_EQ(As(1001, [&] { return Outcome(pool.FindCopies({})); }), "Ok");
  EXPECT_EQ(executors_.script().Count(kFindHolders), 1U);
  executors_.script().Unblock(kFindHolders);
  searching.clear();
  EXPECT_EQ(executors_.script().Count(kFindHolders), 3U);
}

// A user's process may keep the search for its own holders waiting.
TEST_F(ExecutorPoolTest, ASearchThatHangsHoldsNoOtherUsers) {
  ExecutorPool pool = Make(1, milliseconds(500));
  executors_.script().Block(kFindHolders);
  const auto search = [&] { return Outcome(pool.FindHolders({})); };
  const auto find = [&] { return Outcome(pool.FindCopies({})); };
  EXPECT_EQ(As(1000, search), "DeadlineExceeded");
  EXPECT_EQ(As(1000, find), "Unavailable");
  EXPECT_EQ(As(1001, find), "Ok");
  executors_.script().Unblock(kFindHolders);
}

TEST_F(ExecutorPoolTest, WhereOneIsStuckNoOtherFollowsUntilItEnds) {
  ExecutorPool pool = Make(4, milliseconds(500));
  const auto attach = [&](const char* volume) {
    AttachPlan plan;
    plan.target = Target("web", "app", volume);
    plan.source.host_volume = ToWire(volume);
    return Outcome(pool.Attach(plan, -1));
  };
  executors_.script().Block(kAttach);
  EXPECT_EQ(attach("nfs"), "DeadlineExceeded");
  EXPECT_EQ(attach("nfs"), "Unavailable");
  EXPECT_EQ(
      Outcome(pool.ReleaseAnchor({SourceKind::kHostVolume, ToWire("nfs"), 0})),
      "Unavailable");
  OpenTreePlan tree;
  tree.source.host_volume = ToWire("nfs");
  EXPECT_EQ(Outcome(pool.OpenTree(tree)), "Unavailable");
  // A plan that undoes is still allowed, and other volumes are not affected.
  EXPECT_EQ(Outcome(pool.Detach({Target("web", "app", "nfs"), 1})), "Ok");
  EXPECT_EQ(Outcome(pool.ReleaseAnchor(
                {SourceKind::kHostVolume, ToWire("local"), 0})),
            "Ok");
  EXPECT_EQ(executors_.script().Count(kAttach), 1U);
  executors_.script().Unblock(kAttach);
  EXPECT_TRUE(Await([&] { return pool.stuck() == 0; }));
  EXPECT_EQ(attach("nfs"), "Ok");
}

TEST_F(ExecutorPoolTest, OneTmpfsIsNotHeldByAnother) {
  ExecutorPool pool = Make(4, milliseconds(200));
  AttachPlan plan;
  plan.source.kind = SourceKind::kTmpfs;
  executors_.script().Block(kAttach);
  EXPECT_EQ(Outcome(pool.Attach(plan, -1)), "DeadlineExceeded");
  EXPECT_EQ(Outcome(pool.Attach(plan, -1)), "DeadlineExceeded");
  executors_.script().Unblock(kAttach);
}

TEST_F(ExecutorPoolTest, ADeadIdleOneIsReplacedWithoutFailingThePlan) {
  ExecutorPool pool = Make(1);
  ASSERT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  executors_.KillAll();
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(executors_.connections(), 2);
}

TEST_F(ExecutorPoolTest, WhatWasStartedAheadTakesTheFirstPlans) {
  ExecutorPool::Ahead ahead = ExecutorPool::StartAhead(executors_.connector());
  ASSERT_TRUE(AwaitAlive(2));
  ExecutorPool pool(executors_.connector(), {}, std::move(ahead));
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1, -1)), "Ok");
  EXPECT_EQ(executors_.connections(), 2);
}

TEST_F(ExecutorPoolTest, WhatCouldNotBeStartedAheadIsStartedForItsPlan) {
  executors_.Refuse(true);
  ExecutorPool::Ahead ahead = ExecutorPool::StartAhead(executors_.connector());
  executors_.Refuse(false);
  ExecutorPool pool(executors_.connector(), {}, std::move(ahead));
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1, -1)), "Ok");
  EXPECT_EQ(executors_.connections(), 2);
}

TEST_F(ExecutorPoolTest, OneThatDiesWithThePlanInHandIsUnavailable) {
  ExecutorPool pool = Make(1);
  executors_.script().Block(kPrepareBase);
  std::thread planning(
      [&] { EXPECT_EQ(Outcome(pool.PrepareBase()), "Unavailable"); });
  ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase));
  executors_.KillAll();
  planning.join();
  EXPECT_EQ(pool.stuck(), 0U);
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
}

TEST_F(ExecutorPoolTest, AnAnswerThatIsNoneEndsTheConnection) {
  ExecutorPool pool = Make(1);
  executors_.AnswerShort();
  EXPECT_EQ(Outcome(pool.PrepareBase()), "Unavailable");
  executors_.AnswerWithVersion(kProtocolVersion + 1);
  EXPECT_EQ(Outcome(pool.PrepareBase()), "Unavailable");
  executors_.AnswerWithVersion(kProtocolVersion);
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(executors_.connections(), 3);
}

TEST_F(ExecutorPoolTest, APlanCarriesTheTraceOfItsOperation) {
  ExecutorPool pool = Make(1);
  OperationTrace trace(
      {ParseTraceParent(
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
       ""},
      OperationTrace::Clock::now());
  {
    const CurrentTrace current(&trace);
    EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
    const PlanTrace sent = executors_.last_trace();
    executors_.Refuse(true);
    executors_.AnswerShort();
    EXPECT_EQ(Outcome(pool.PrepareBase()), "Unavailable");
    const std::vector<Span> spans = trace.Report("Method", std::nullopt);
    ASSERT_EQ(spans.size(), 3U);
    EXPECT_EQ(spans[1].name, "PrepareBase");
    EXPECT_EQ(spans[1].kind, Span::Kind::kClient);
    EXPECT_EQ(spans[1].error, std::nullopt);
    EXPECT_EQ(sent.trace_id, trace.call().parent->trace_id);
    EXPECT_EQ(sent.span_id, spans[1].id);
    EXPECT_EQ(spans[2].error, Code::kUnavailable);
  }
  executors_.Refuse(false);
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(executors_.last_trace(), PlanTrace());
}

TEST_F(ExecutorPoolTest, NobodyThereIsUnavailableAndFreesTheLane) {
  ExecutorPool pool = Make(1);
  executors_.Refuse(true);
  EXPECT_EQ(Outcome(pool.PrepareBase()), "Unavailable");
  EXPECT_EQ(Outcome(pool.PrepareBase()), "Unavailable");
  executors_.Refuse(false);
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
}

TEST_F(ExecutorPoolTest, MountPlansShareTheirLanesAndNetworksHaveOne) {
  ExecutorPool pool = Make(2);
  executors_.script().Block(kPrepareBase);
  executors_.script().Block(kCreateNetwork);
  std::vector<std::jthread> planning = PrepareBases(pool, 4);
  for (int i = 0; i < 4; ++i) {
    planning.emplace_back(
        [&] { EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1, -1)), "Ok"); });
  }
  ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase, 2));
  ASSERT_TRUE(executors_.script().AwaitBlocked(kCreateNetwork, 1));
  EXPECT_EQ(executors_.connections(), 3);
  EXPECT_EQ(executors_.script().Count(kPrepareBase), 2U);
  EXPECT_EQ(executors_.script().Count(kCreateNetwork), 1U);
  executors_.script().Unblock(kPrepareBase);
  executors_.script().Unblock(kCreateNetwork);
  planning.clear();
  EXPECT_EQ(executors_.script().Count(kPrepareBase), 4U);
  EXPECT_EQ(executors_.script().Count(kCreateNetwork), 4U);
  EXPECT_EQ(executors_.connections(), 3);
}

TEST_F(ExecutorPoolTest, ASearchForHoldersTakesNoLaneOfAMountPlan) {
  ExecutorPool pool = Make(1);
  executors_.script().Block(kFindHolders);
  std::vector<std::jthread> searching;
  for (int i = 0; i < 3; ++i) {
    searching.emplace_back(
        [&] { EXPECT_EQ(MessageOf(pool.FindHolders({})), "Ok"); });
  }
  ASSERT_TRUE(executors_.script().AwaitBlocked(kFindHolders));
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(executors_.script().Count(kFindHolders), 1U);
  executors_.script().Unblock(kFindHolders);
  searching.clear();
  EXPECT_EQ(executors_.script().Count(kFindHolders), 3U);
}

TEST_F(ExecutorPoolTest, WaitingPlansRunInTheOrderTheyCame) {
  ExecutorPool pool = Make(1);
  executors_.script().Block(kPrepareBase);
  std::vector<std::jthread> planning;
  planning.emplace_back([&] { IgnoreBecauseBestEffort(pool.PrepareBase()); });
  ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase));
  std::vector<std::string> expected = {"10"};
  for (int i = 0; i < 8; ++i) {
    const std::string name = "a" + std::to_string(i);
    expected.push_back("11 " + name);
    std::atomic<pid_t> thread = 0;
    planning.emplace_back([&pool, &thread, name] {
      thread = gettid();
      EXPECT_EQ(MessageOf(pool.PrepareAllocation(Allocation(name))), "Ok");
    });
    ASSERT_TRUE(Await([&] { return IsAsleep(thread); }));
  }
  executors_.script().Unblock(kPrepareBase);
  planning.clear();
  EXPECT_EQ(executors_.script().calls(), expected);
}

TEST_F(ExecutorPoolTest, CloseIdleLeavesOneOfEachLane) {
  ExecutorPool pool = Make(4);
  executors_.script().Block(kPrepareBase);
  {
    std::vector<std::jthread> planning = PrepareBases(pool, 4);
    planning.emplace_back(
        [&] { EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1, -1)), "Ok"); });
    ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase, 4));
    executors_.script().Unblock(kPrepareBase);
  }
  EXPECT_EQ(executors_.alive(), 5);
  pool.CloseIdle();  // all four were needed since the start
  EXPECT_EQ(executors_.alive(), 5);
  pool.CloseIdle();
  EXPECT_TRUE(AwaitAlive(2));
  pool.CloseIdle();
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1, -1)), "Ok");
  EXPECT_EQ(executors_.connections(), 5);
}

TEST_F(ExecutorPoolTest, RenewLetsPlansEndAndTheNextOnesBegin) {
  ExecutorPool pool = Make(2);
  EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1, -1)),
            "Ok");  // idle from here on
  executors_.script().Block(kPrepareBase);
  {
    const std::vector<std::jthread> planning = PrepareBases(pool, 1);
    ASSERT_TRUE(executors_.script().AwaitBlocked(kPrepareBase, 1));
    pool.Renew();
    EXPECT_TRUE(AwaitAlive(1));
    executors_.script().Unblock(kPrepareBase);
  }
  EXPECT_TRUE(AwaitAlive(0));
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok");
  EXPECT_EQ(executors_.connections(), 3);
}

TEST_F(ExecutorPoolTest, AConnectionToAPluginNeedsItsSocket) {
  ExecutorPool pool = Make(1);
  EXPECT_EQ(Outcome(pool.ConnectPlugin({ToWire("nfs")})), "Internal");
}

TEST(ExecutorSocketTest, APathNobodyListensOnIsAnError) {
  EXPECT_EQ(Outcome(ExecutorPool::ConnectTo("/nowhere/exec.sock")()),
            "NotFound");
  EXPECT_EQ(Outcome(ExecutorPool::ConnectTo(std::string(108, 'x'))()),
            "InvalidArgument");
}

}  // namespace
}  // namespace mountd::exec
