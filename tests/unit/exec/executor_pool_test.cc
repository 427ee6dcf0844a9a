// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/executor_pool.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <thread>

#include "mountd/exec/wire.h"
#include "tests/support/call_script.h"
#include "tests/support/outcome.h"

namespace mountd::exec {
namespace {

using std::chrono::milliseconds;

// The plans' names in the script are their numbers.
constexpr char kPrepareBase[] = "10";
constexpr char kPrepareAllocation[] = "11";
constexpr char kAttach[] = "13";
constexpr char kCreateNetwork[] = "31";
constexpr char kFindHolders[] = "41";

// Executors as threads behind SOCK_SEQPACKET pairs. Each does one plan after
// the other, until its connection is closed or it is killed.
class FakeExecutors {
 public:
  // Whatever a test does, it ends with all connections closed.
  ~FakeExecutors() { KillAll(); }

  CallScript<Error>& script() { return script_; }

  ExecutorPool::Connector connector() {
    return [this]() -> Result<UniqueFd> {
      if (refuse_) {
        return MakeError(Code::kUnavailable, "connect", "executor");
      }
      std::array<int, 2> pair{-1, -1};
      if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()) !=
          0) {
        return ErrnoError(errno, "socketpair", "");
      }
      const std::lock_guard lock(mutex_);
      ends_.emplace_back(pair[1]);
      ++connections_;
      threads_.emplace_back([this, fd = pair[1]] { Serve(fd); });
      return UniqueFd(pair[0]);
    };
  }

  void Refuse(bool refuse) { refuse_ = refuse; }
  // The next answers are of another build, or shorter than an answer.
  void AnswerWithVersion(std::uint32_t version) { version_ = version; }
  void AnswerShort() { short_ = true; }

  // All executors there are die, as SIGKILL would make them.
  void KillAll() {
    std::vector<std::jthread> threads;
    {
      const std::lock_guard lock(mutex_);
      for (const UniqueFd& end : ends_) {
        shutdown(end.get(), SHUT_RDWR);
      }
      threads = std::move(threads_);
    }
    for (const char* plan :
         {kPrepareBase, kAttach, kCreateNetwork, kFindHolders}) {
      script_.Unblock(plan);
    }
    threads.clear();
    const std::lock_guard lock(mutex_);
    ends_.clear();
  }

  int connections() const { return connections_; }
  // Executors whose connection mountd has not closed.
  int alive() const { return alive_; }

 private:
  void Serve(int fd) {
    ++alive_;
    for (;;) {
      Request request;
      const ssize_t size = recv(fd, &request, sizeof(request), 0);
      if (size != static_cast<ssize_t>(sizeof(request))) {
        break;
      }
      const std::string kind =
          std::to_string(static_cast<std::uint32_t>(request.kind));
      const Result<void> outcome = script_.Run<Result<void>>(
          kind, std::string(request.body.allocation.allocation.view()),
          [] { return Ok(); });
      Reply reply;
      reply.version = version_;
      if (!outcome) {
        reply.code = static_cast<std::uint32_t>(outcome.error().code);
        reply.sys_errno = outcome.error().sys_errno;
        std::strncpy(reply.op.data(), outcome.error().op.c_str(),
                     reply.op.size() - 1);
        std::strncpy(reply.detail.data(), outcome.error().detail.c_str(),
                     reply.detail.size() - 1);
      }
      reply.body.mount = MountState{};
      reply.body.mount.mount_id = 77;
      const std::size_t bytes = short_.exchange(false) ? 8 : sizeof(reply);
      if (send(fd, &reply, bytes, MSG_NOSIGNAL) < 0) {
        break;
      }
    }
    --alive_;
    shutdown(fd, SHUT_RDWR);  // as the end of its process would
  }

  CallScript<Error> script_;
  std::atomic<bool> refuse_ = false;
  std::atomic<std::uint32_t> version_ = kProtocolVersion;
  std::atomic<bool> short_ = false;
  std::atomic<int> connections_ = 0;
  std::atomic<int> alive_ = 0;
  std::mutex mutex_;
  std::vector<UniqueFd> ends_;
  std::vector<std::jthread> threads_;
};

class ExecutorPoolTest : public ::testing::Test {
 protected:
  ExecutorPool Make(std::uint32_t lanes,
                    milliseconds deadline = milliseconds(60'000)) {
    // None of its plans counts as slow.
    return {executors_.connector(), {lanes, deadline, 16, deadline}};
  }
  // Threads that wait for one plan each.
  static std::vector<std::jthread> PrepareBases(ExecutorPool& pool, int count) {
    std::vector<std::jthread> planning;
    for (int i = 0; i < count; ++i) {
      planning.emplace_back(
          [&pool] { EXPECT_EQ(MessageOf(pool.PrepareBase()), "Ok"); });
    }
    return planning;
  }
  static AllocationPlan Allocation(const std::string& name) {
    return {ToWire(name), 1};
  }
  template <typename F>
  static bool Await(const F& condition) {
    const auto deadline = std::chrono::steady_clock::now() + kTestPatience;
    while (!condition()) {
      if (std::chrono::steady_clock::now() > deadline) {
        return false;
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
    return true;
  }
  bool AwaitAlive(int count) {
    return Await([&] { return executors_.alive() == count; });
  }
  // Whether the thread sleeps, as one does that waits for its turn: there is
  // nothing else to see of it.
  static bool IsAsleep(pid_t thread) {
    std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
    std::string line;
    std::getline(stat, line);
    const std::size_t name_end = line.rfind(") ");
    return name_end != std::string::npos && line[name_end + 2] == 'S';
  }

  FakeExecutors executors_;
};

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
  // A plan that failed is no fault of its executor.
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
  // It finds the end of its input.
  EXPECT_TRUE(Await([&] { return pool.stuck() == 0; }));
  EXPECT_EQ(executors_.alive(), 1);
}

TEST_F(ExecutorPoolTest, WhileTooManyAreStuckPlansAreRefused) {
  ExecutorPool pool(executors_.connector(), {4, milliseconds(1000), 2});
  executors_.script().Block(kPrepareBase);
  EXPECT_EQ(Outcome(pool.PrepareBase()), "DeadlineExceeded");
  EXPECT_EQ(Outcome(pool.PrepareBase()), "DeadlineExceeded");
  EXPECT_EQ(Outcome(pool.PrepareAllocation(Allocation("web"))), "Unavailable");
  EXPECT_EQ(Outcome(pool.CreateNetwork({}, -1)), "Unavailable");
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
  // What was begun can be undone, and others are not concerned.
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
        [&] { EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1)), "Ok"); });
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
        [&] { EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1)), "Ok"); });
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
  EXPECT_EQ(MessageOf(pool.CreateNetwork({}, -1)), "Ok");
  EXPECT_EQ(executors_.connections(), 5);
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
