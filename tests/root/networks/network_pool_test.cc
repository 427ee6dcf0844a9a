// SPDX-License-Identifier: LGPL-2.1-or-later
#include <linux/netlink.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <vector>

#include "netns/plans/namespace_pool.h"
#include "netns/plans/netlink.h"
#include "netns/plans/veth.h"
#include "tests/root/networks/network_fixture.h"

namespace mountd::testing {
namespace {

using exec::PlanKind;
using netns::NamespacePool;

class NetworkPool : public ExecutorFixture {
 protected:
  void Fill() {
    while (pool_.WantsMore()) {
      ASSERT_TRUE(pool_.Add(kernel_).has_value());
    }
  }
  bool HasLoopbackUp(const exec::NetNamespace& one) {
    auto socket = real_.OpenNetlinkIn(one.fd.get(), NETLINK_ROUTE);
    EXPECT_TRUE(socket.has_value());
    netns::Channel inside(real_, std::move(socket).value());
    const auto link = netns::FindLink(&inside, "lo");
    return link.has_value() && link->up;
  }

  NamespacePool pool_;
};

TEST_F(NetworkPool, WantsNoneBeforeItIsStarted) {
  EXPECT_FALSE(pool_.WantsMore());
  pool_.Start();
  EXPECT_TRUE(pool_.WantsMore());
  pool_.Start();
  EXPECT_EQ(pool_.target(), NamespacePool::kLeast);
}

TEST_F(NetworkPool, OneOfItHasItsLoopbackUpAndIsTakenOnce) {
  pool_.Start();
  Fill();
  EXPECT_EQ(pool_.size(), NamespacePool::kLeast);
  std::vector<UniqueFd> taken;
  for (std::size_t i = 0; i < NamespacePool::kLeast + 2; ++i) {
    auto one = pool_.Take(kernel_);
    ASSERT_TRUE(one.has_value());
    EXPECT_TRUE(HasLoopbackUp(*one));
    // The socket belongs to that namespace.
    netns::Channel route(real_, UniqueFd(::dup(one->route.get())));
    const auto link = netns::FindLink(&route, "lo");
    EXPECT_TRUE(link.has_value() && link->up);
    taken.push_back(std::move(one->fd));
  }
  std::set<std::uint64_t> inodes;
  for (const UniqueFd& fd : taken) {
    inodes.insert(real_.Stat(fd.get(), "")->inode);
  }
  EXPECT_EQ(inodes.size(), taken.size());
  EXPECT_EQ(pool_.size(), 0U);
}

TEST_F(NetworkPool, ItGrowsWhenItIsEmptyAndShrinksWhenNothingIsTaken) {
  pool_.Start();
  std::size_t target = NamespacePool::kLeast;
  while (target < NamespacePool::kMost) {
    ASSERT_TRUE(pool_.Take(kernel_).has_value());
    target = std::min(target * 2, NamespacePool::kMost);
    EXPECT_EQ(pool_.target(), target);
  }
  ASSERT_TRUE(pool_.Take(kernel_).has_value());
  EXPECT_EQ(pool_.target(), NamespacePool::kMost);
  for (int i = 0; i < 10; ++i) {
    ASSERT_TRUE(pool_.Add(kernel_).has_value());
  }
  // Taking a namespace that is ready does not make the pool larger.
  ASSERT_TRUE(pool_.Take(kernel_).has_value());
  EXPECT_EQ(pool_.size(), 9U);
  while (target > NamespacePool::kLeast) {
    pool_.Shrink();
    target /= 2;
    EXPECT_EQ(pool_.target(), target);
    EXPECT_LE(pool_.size(), target);
  }
  EXPECT_EQ(pool_.size(), NamespacePool::kLeast);
  pool_.Shrink();
  EXPECT_EQ(pool_.target(), NamespacePool::kLeast);
  EXPECT_EQ(pool_.size(), NamespacePool::kLeast);
}

TEST_F(NetworkPool, OneThatCannotBeMadeLeavesItAsItWas) {
  pool_.Start();
  kernel_.FailAt(0, 0);
  Fill();
  const std::size_t calls = kernel_.calls().size() / NamespacePool::kLeast;
  pool_ = NamespacePool();
  pool_.Start();
  const Inventory before = Inventory::Take();
  for (std::size_t k = 1; k <= calls; ++k) {
    kernel_.FailAt(k, EMFILE);
    EXPECT_FALSE(pool_.Add(kernel_).has_value()) << k;
    EXPECT_EQ(pool_.size(), 0U);
    EXPECT_EQ(Difference(before, Inventory::Take()), "") << k;
  }
}

// ---- The executor's pool ----

using NetworksAhead = Networks;

TEST_F(NetworksAhead, TheExecutorMakesSomeAndNetworksComeOfThem) {
  const auto ahead = [&] {
    std::size_t made = 0;
    while (dispatcher_->MakeAhead()) {
      ++made;
    }
    return made;
  };
  EXPECT_EQ(ahead(), NamespacePool::kLeast);
  EXPECT_EQ(ahead(), 0U);
  kernel_.FailAt(0, 0);
  for (std::uint8_t i = 0; i < NamespacePool::kLeast; ++i) {
    Create(Plan("n" + std::to_string(i), static_cast<std::uint8_t>(2 + i),
                static_cast<std::uint16_t>(18080 + i)));
  }
  const auto& calls = kernel_.calls();
  EXPECT_EQ(std::count(calls.begin(), calls.end(), "NewNetNamespace"), 0);
  EXPECT_EQ(ahead(), NamespacePool::kLeast);
  for (std::uint8_t i = 0; i < NamespacePool::kLeast; ++i) {
    Delete(Plan("n" + std::to_string(i), static_cast<std::uint8_t>(2 + i),
                static_cast<std::uint16_t>(18080 + i)));
  }
}

TEST_F(NetworksAhead, NothingOfThemIsLeftWhenTheExecutorEnds) {
  dispatcher_.emplace(kernel_, config_);
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  dispatcher_.reset();
  const Inventory before = Inventory::Take();
  dispatcher_.emplace(kernel_, config_);
  EXPECT_FALSE(dispatcher_->MakeAhead()) << "this one makes no networks";
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareNetworks)), "");
  while (dispatcher_->MakeAhead()) {
  }
  EXPECT_NE(Difference(before, Inventory::Take()), "");
  dispatcher_.reset();
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

}  // namespace
}  // namespace mountd::testing
