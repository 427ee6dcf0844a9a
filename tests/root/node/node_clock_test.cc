// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The deadline of a lease goes by CLOCK_BOOTTIME, which counts while the
// machine is suspended. A test cannot suspend its machine. It starts mountd
// again in a time namespace (time_namespaces(7)) in which only one of the
// clocks has advanced: CLOCK_BOOTTIME as by a suspension, or CLOCK_MONOTONIC.
#include <fcntl.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>

#include "mountd/base/unique_fd.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

constexpr std::uint64_t kSecondUs = 1'000'000;
constexpr std::uint64_t kTimeoutS = 3600;

// Puts the children that this process makes into a time namespace while it
// lives. Never with threads in this process, as setns(2) demands.
class ChildrenInOtherTime {
 public:
  // `clock` is "boottime" or "monotonic", and is that many seconds ahead.
  ChildrenInOtherTime(const std::string& clock, std::uint64_t seconds)
      : before_(::open("/proc/self/ns/time", O_RDONLY | O_CLOEXEC)) {
    if (!before_.valid() || ::unshare(CLONE_NEWTIME) != 0) {
      return;
    }
    std::ofstream offsets("/proc/self/timens_offsets");
    offsets << clock << " " << seconds << " 0" << std::flush;
    valid_ = offsets.good();
  }
  ~ChildrenInOtherTime() {
    EXPECT_EQ(::setns(before_.get(), CLONE_NEWTIME), 0) << errno;
  }
  ChildrenInOtherTime(const ChildrenInOtherTime&) = delete;
  ChildrenInOtherTime& operator=(const ChildrenInOtherTime&) = delete;

  bool valid() const { return valid_; }

 private:
  const UniqueFd before_;
  bool valid_ = false;
};

class NodeClock : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    if (::access("/proc/self/ns/time", F_OK) != 0) {
      GTEST_SKIP() << "this kernel has no time namespaces";
    }
    MakeHostVolumes();
    ASSERT_NO_FATAL_FAILURE(StartNode(R"(
[host_volume.a]
path = "/run/host/a"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
)"));
    ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
    agent::LeaseSpec spec;
    spec.allocation = "web";
    spec.timeout_ms = kTimeoutS * 1000;
    const auto lease = client_->AcquireLease("agent", spec);
    ASSERT_EQ(MessageOf(lease), "Ok");
    deadline_ = lease->deadline_boottime;
  }

  // Ends mountd, and starts it again with that clock ahead.
  void StartAgain(const std::string& clock, std::uint64_t seconds) {
    client_.reset();
    Node::KillAll();
    node_.reset();
    Node::KillAll();
    {
      const ChildrenInOtherTime other(clock, seconds);
      ASSERT_TRUE(other.valid());
      auto node = Node::StartAgain();
      ASSERT_TRUE(node) << node.error().Message();
      node_ = *std::move(node);
    }
    Connect();
  }
  std::string Bind() {
    agent::BindMountSpec spec = HostVolumeSpec("m", "a");
    return Outcome(client_->BindMount("web", spec));
  }

  std::uint64_t deadline_ = 0;  // microseconds of CLOCK_BOOTTIME
};

// The timer of the lease comes seconds after the start. By CLOCK_MONOTONIC the
// timer would come in an hour.
TEST_F(NodeClock, ALeaseLapsesAfterASuspension) {
  ASSERT_NO_FATAL_FAILURE(StartAgain("boottime", kTimeoutS - 5));
  std::uint64_t lapsed = 0;
  EXPECT_TRUE(Eventually([&] {
    const auto fence = client_->GetFence("web");
    lapsed = fence ? fence->lapsed_boottime : 0;
    return fence && fence->state == "done";
  }));
  EXPECT_GE(lapsed, deadline_) << "too early";
  EXPECT_LT(lapsed, deadline_ + 60 * kSecondUs) << "too late";
  EXPECT_EQ(Outcome(client_->GetAllocation("web")), "NotFound");
}

// No call may use the allocation after a suspension that was longer than the
// lease, whether or not a timer has run.
TEST_F(NodeClock, ALeaseThatASuspensionOutlastsIsNotHeld) {
  ASSERT_NO_FATAL_FAILURE(StartAgain("boottime", kTimeoutS));
  EXPECT_NE(Bind(), "Ok");
  EXPECT_NE(Outcome(client_->RenewLease("agent")), "Ok");
}

TEST_F(NodeClock, TheMonotonicClockDoesNotCount) {
  ASSERT_NO_FATAL_FAILURE(StartAgain("monotonic", 2 * kTimeoutS));
  const auto leases = client_->ListLeases();
  ASSERT_EQ(MessageOf(leases), "Ok");
  ASSERT_EQ(leases->size(), 1U);
  EXPECT_EQ(leases->front().state, "held");
  EXPECT_EQ(leases->front().deadline_boottime, deadline_);
  EXPECT_EQ(Bind(), "Ok");
  const auto renewed = client_->RenewLease("agent");
  ASSERT_EQ(MessageOf(renewed), "Ok");
  EXPECT_GE(renewed->deadline_boottime, deadline_);
  EXPECT_LT(renewed->deadline_boottime, deadline_ + kTimeoutS * kSecondUs);
  EXPECT_EQ(Outcome(client_->GetFence("web")), "NotFound");
}

}  // namespace
}  // namespace mountd::testing
