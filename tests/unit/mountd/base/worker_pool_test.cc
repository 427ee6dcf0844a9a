// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/worker_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <future>
#include <new>
#include <optional>
#include <system_error>
#include <thread>
#include <vector>

#include "mountd/base/current_user.h"
#include "tests/support/asleep.h"
#include "tests/support/eventually.h"
#include "tests/support/no_threads.h"

namespace mountd {
namespace {

constexpr std::chrono::seconds kPatience{30};

bool Came(std::promise<void>& promise) {
  return promise.get_future().wait_for(kPatience) == std::future_status::ready;
}

TEST(WorkerPoolTest, TheEndWaitsForAllJobs) {
  std::atomic<int> done = 0;
  {
    WorkerPool pool(2);
    for (int i = 0; i < 100; ++i) {
      pool.Submit([&] { ++done; });
    }
  }
  EXPECT_EQ(done, 100);
}

TEST(WorkerPoolTest, StuckJobsDoNotHoldUpOthers) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::promise<void> ran;
  WorkerPool pool(4);
  for (int i = 0; i < 3; ++i) {
    pool.Submit([released] { released.wait(); });
  }
  pool.Submit([&] { ran.set_value(); });
  EXPECT_TRUE(Came(ran));
  EXPECT_LE(pool.thread_count(), 4U);
  release.set_value();
}

TEST(WorkerPoolTest, TheThreadThatWasBusyLastIsBusyFirst) {
  WorkerPool pool(3);
  const auto thread_of_next = [&] {
    std::promise<std::thread::id> ran;
    pool.Submit([&] { ran.set_value(std::this_thread::get_id()); });
    return ran.get_future().get();
  };
  std::vector<std::promise<void>> release(3);
  std::vector<std::promise<void>> began(3);
  for (std::size_t i = 0; i < 3; ++i) {
    pool.Submit([&, i, released = release[i].get_future().share()] {
      began[i].set_value();
      released.wait();
    });
    ASSERT_TRUE(Came(began[i]));
  }
  for (std::promise<void>& one : release) {
    one.set_value();
  }
  // With threads in turn two jobs in a row would never run on the same thread.
  // A thread that is not idle yet may come in between, so the test repeats.
  std::thread::id last;
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (int same = 0; same < 20;) {
    ASSERT_LT(std::chrono::steady_clock::now(), deadline);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    const std::thread::id now = thread_of_next();
    same = now == last ? same + 1 : 0;
    last = now;
  }
}

TEST(WorkerPoolTest, ThereAreNeverMoreThreadsThanTheBound) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::atomic<int> at_once = 0;
  std::atomic<int> most = 0;
  {
    WorkerPool pool(3);
    for (int i = 0; i < 30; ++i) {
      pool.Submit([&, released] {
        most = std::max<int>(most, ++at_once);
        released.wait();
        --at_once;
      });
    }
    EXPECT_EQ(pool.thread_count(), 3U);
    release.set_value();
  }
  EXPECT_LE(most, 3);
}

TEST(WorkerPoolTest, WithoutMoreThreadsThoseThereAreDoAll) {
  std::promise<void> began;
  std::promise<void> release;
  std::promise<void> second;
  std::promise<void> third;
  WorkerPool pool(4);
  pool.Submit([&, released = release.get_future().share()] {
    began.set_value();
    released.wait();
  });
  ASSERT_TRUE(Came(began));
  {
    const testing::NoThreads none;
    pool.Submit([&] { second.set_value(); });
  }
  EXPECT_EQ(pool.thread_count(), 1U);
  // Threads are available again, and one of them does the waiting job.
  pool.Submit([&] { third.set_value(); });
  EXPECT_TRUE(Came(second));
  EXPECT_TRUE(Came(third));
  EXPECT_EQ(pool.thread_count(), 2U);
  release.set_value();
}

TEST(WorkerPoolTest, ANewPoolNeedsNoThreadForItsFirstJob) {
  std::promise<void> ran;
  WorkerPool pool(4);
  const testing::NoThreads none;
  pool.Submit([&] { ran.set_value(); });
  EXPECT_TRUE(Came(ran));
  EXPECT_EQ(pool.thread_count(), 1U);
}

// Callers choose when the pool is idle, and when there can be no other thread.
TEST(WorkerPoolTest, TheLastThreadStaysAndServesWithoutOthers) {
  constexpr std::chrono::milliseconds kIdle{20};
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::promise<void> ran;
  std::vector<std::promise<void>> began(3);
  WorkerPool pool(4, kIdle);
  for (std::promise<void>& one : began) {
    pool.Submit([&one, released] {
      one.set_value();
      released.wait();
    });
  }
  for (std::promise<void>& one : began) {
    ASSERT_TRUE(Came(one));
  }
  EXPECT_EQ(pool.thread_count(), 3U);
  release.set_value();
  EXPECT_TRUE(testing::Eventually([&] { return pool.thread_count() == 1; }));
  std::this_thread::sleep_for(5 * kIdle);
  EXPECT_EQ(pool.thread_count(), 1U);
  const testing::NoThreads none;
  pool.Submit([&] { ran.set_value(); });
  EXPECT_TRUE(Came(ran));
}

// A job that no thread would ever run must not wait for ever.
TEST(WorkerPoolTest, WithoutAnyThreadThereIsNoPool) {
  const testing::NoThreads none;
  EXPECT_THROW(WorkerPool(4), std::system_error);
}

// An exception in a job must not leave a lock or a queue half done for others.
TEST(WorkerPoolDeathTest, AJobThatThrowsEndsTheProcess) {
  EXPECT_DEATH(
      {
        WorkerPool pool(1);
        Strands strands(pool);
        strands.Submit("key", [] { throw std::bad_alloc(); });
        strands.Submit("key", [] { std::_Exit(0); });
      },
      "");
}

TEST(StrandsTest, JobsOfOneKeyRunOneByOneInOrder) {
  std::vector<int> order;  // unguarded, because the strand is the guard
  std::atomic<int> at_once = 0;
  bool alone = true;
  {
    WorkerPool pool(4);
    Strands strands(pool);
    for (int i = 0; i < 200; ++i) {
      strands.Submit("key", [&, i] {
        alone = alone && ++at_once == 1;
        order.push_back(i);
        --at_once;
      });
    }
  }
  ASSERT_EQ(order.size(), 200U);
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
  }
  EXPECT_TRUE(alone);
}

TEST(StrandsTest, OneKeyDoesNotHoldUpAnother) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::promise<void> other;
  std::promise<void> keyless;
  std::atomic<bool> second_ran = false;
  {
    WorkerPool pool(4);
    Strands strands(pool);
    strands.Submit("stuck", [released] { released.wait(); });
    strands.Submit("stuck", [&] { second_ran = true; });
    strands.Submit("other", [&] { other.set_value(); });
    strands.Submit("", [&] { keyless.set_value(); });
    EXPECT_TRUE(Came(other));
    EXPECT_TRUE(Came(keyless));
    EXPECT_FALSE(second_ran);
    release.set_value();
  }
  EXPECT_TRUE(second_ran);
}

// A strand gives its thread back between two of its jobs.
TEST(StrandsTest, ABusyKeyDoesNotStarveOthersOfTheOnlyThread) {
  std::vector<std::string> order;
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  {
    WorkerPool pool(1);
    Strands strands(pool);
    strands.Submit("busy", [released] { released.wait(); });
    for (int i = 0; i < 10; ++i) {
      strands.Submit("busy", [&] { order.emplace_back("busy"); });
    }
    strands.Submit("other", [&] { order.emplace_back("other"); });
    release.set_value();
  }
  ASSERT_EQ(order.size(), 11U);
  EXPECT_EQ(order.front(), "other");
}

TEST(StrandsTest, QuickJobsRunWhenThePoolIsHeldUp) {
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  std::promise<void> quick_ran;
  WorkerPool pool(1);
  WorkerPool quick(1);
  {
    Strands strands(pool, &quick);
    strands.Submit("stuck", [released] { released.wait(); });
    strands.Submit("", [&] { quick_ran.set_value(); });
    EXPECT_TRUE(Came(quick_ran));
    release.set_value();
  }
}

TEST(StrandsTest, TheEndWaitsForJobsThatStillWait) {
  std::vector<int> order;
  WorkerPool pool(1);
  {
    Strands strands(pool);
    for (int i = 0; i < 50; ++i) {
      strands.Submit("key", [&order, i] { order.push_back(i); });
    }
  }
  EXPECT_EQ(order.size(), 50U);
}

TEST(StrandsTest, AJobMaySubmitToItsOwnKey) {
  std::vector<int> order;
  {
    WorkerPool pool(2);
    Strands strands(pool);
    std::promise<void> inner;
    strands.Submit("key", [&] {
      strands.Submit("key", [&] {
        order.push_back(2);
        inner.set_value();
      });
      order.push_back(1);
    });
    EXPECT_TRUE(Came(inner));
  }
  EXPECT_EQ(order, (std::vector<int>{1, 2}));
}

TEST(KeyedLocksTest, OneHolderOfAKeyAndAnyOfOthers) {
  KeyedLocks locks;
  std::atomic<int> inside = 0;
  std::atomic<bool> alone = true;
  std::atomic<int> entered = 0;
  {
    WorkerPool pool(4);
    std::optional<KeyedLocks::Guard> other(locks.Lock("other"));
    for (int i = 0; i < 100; ++i) {
      pool.Submit([&] {
        const KeyedLocks::Guard guard = locks.Lock("key");
        alone = alone && ++inside == 1;
        ++entered;
        --inside;
      });
    }
  }
  EXPECT_EQ(entered, 100);
  EXPECT_TRUE(alone);
}

TEST(KeyedLocksTest, AMovedGuardUnlocksOnce) {
  KeyedLocks locks;
  {
    KeyedLocks::Guard first = locks.Lock("key");
    const KeyedLocks::Guard second = std::move(first);
  }
  std::promise<void> locked;
  WorkerPool pool(1);
  pool.Submit([&] {
    const KeyedLocks::Guard guard = locks.Lock("key");
    locked.set_value();
  });
  EXPECT_TRUE(Came(locked));
}

// Waits with a thread of the user for the key, and notes the name in `order`.
std::jthread WaitsFor(KeyedLocks& locks, std::uint32_t user,
                      const std::string& name,
                      std::vector<std::string>& order) {
  std::promise<pid_t> started;
  std::jthread waiting([&locks, &order, &started, user, name] {
    const CurrentUser current(user);
    started.set_value(gettid());
    const KeyedLocks::Guard guard = locks.Lock("key");
    order.push_back(name);
  });
  const pid_t thread = started.get_future().get();
  EXPECT_TRUE(testing::Eventually([&] { return testing::IsAsleep(thread); }));
  return waiting;
}

// Many locks of one user come before another's single one.
TEST(KeyedLocksTest, UsersTakeTurns) {
  KeyedLocks locks;
  std::vector<std::string> order;
  {
    std::optional<KeyedLocks::Guard> held;
    {
      const CurrentUser user(1000);
      held.emplace(locks.Lock("key"));
    }
    std::vector<std::jthread> waiting;
    waiting.push_back(WaitsFor(locks, 1000, "a1", order));
    waiting.push_back(WaitsFor(locks, 1000, "a2", order));
    waiting.push_back(WaitsFor(locks, 1001, "b1", order));
    waiting.push_back(WaitsFor(locks, 1001, "b2", order));
    held.reset();
  }
  EXPECT_EQ(order, (std::vector<std::string>{"b1", "a1", "b2", "a2"}));
}

}  // namespace
}  // namespace mountd
