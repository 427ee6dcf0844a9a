// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/rpc_slots.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/current_user.h"
#include "tests/support/asleep.h"
#include "tests/support/eventually.h"

namespace mountd::csi {
namespace {

using SlotPtr = std::unique_ptr<RpcSlots::Slot>;

SlotPtr Take(RpcSlots& slots, std::uint32_t uid, const std::string& plugin) {
  const CurrentUser user(uid);
  return std::make_unique<RpcSlots::Slot>(slots, plugin);
}

// Waits with a thread of the user for a slot, and notes the name in `order`.
class Waiters {
 public:
  explicit Waiters(RpcSlots& slots) : slots_(slots) {}

  void Add(std::uint32_t uid, const std::string& name) {
    std::promise<pid_t> started;
    threads_.emplace_back([this, &started, uid, name] {
      started.set_value(gettid());
      const SlotPtr slot = Take(slots_, uid, "nfs");
      const std::lock_guard lock(mutex_);
      order_.push_back(name);
    });
    const pid_t thread = started.get_future().get();
    EXPECT_TRUE(testing::Eventually([&] { return testing::IsAsleep(thread); }));
  }
  std::vector<std::string> Join() {
    threads_.clear();
    return order_;
  }

 private:
  RpcSlots& slots_;
  std::mutex mutex_;
  std::vector<std::string> order_;  // mutex_
  std::vector<std::jthread> threads_;
};

TEST(RpcSlotsTest, OneUserLeavesRoomForOthers) {
  RpcSlots slots(2);
  std::vector<SlotPtr> under_way;
  under_way.push_back(Take(slots, 1000, "nfs"));
  under_way.push_back(Take(slots, 1000, "nfs"));
  Waiters waiters(slots);
  waiters.Add(1000, "third");
  under_way.push_back(Take(slots, 1001, "nfs"));
  under_way.push_back(Take(slots, 1000, "other"));
  under_way.clear();
  EXPECT_EQ(waiters.Join(), (std::vector<std::string>{"third"}));
}

TEST(RpcSlotsTest, AllUsersTogetherAreBoundedAndTakeTurns) {
  RpcSlots slots(1);
  std::vector<SlotPtr> under_way;
  under_way.push_back(Take(slots, 1000, "nfs"));
  under_way.push_back(Take(slots, 1001, "nfs"));
  Waiters waiters(slots);
  waiters.Add(1001, "b1");
  waiters.Add(1002, "c1");
  under_way.erase(under_way.begin());
  // c1 has had its turn before, because b1's user still has a call under way.
  EXPECT_NE(Take(slots, 1003, "nfs"), nullptr);
  under_way.clear();
  EXPECT_EQ(waiters.Join(), (std::vector<std::string>{"c1", "b1"}));
}

}  // namespace
}  // namespace mountd::csi
