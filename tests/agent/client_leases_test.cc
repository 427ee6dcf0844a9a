// SPDX-License-Identifier: LGPL-2.1-or-later
// The client's calls on leases and fences.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <string>
#include <vector>

#include "tests/agent/client_test.h"

namespace mountd::agent::test {
namespace {

class ClientLeasesTest : public ClientTest {};

TEST_F(ClientLeasesTest, AcquireLeaseSendsAHeartbeatOrAPipe) {
  LeaseSpec spec;
  spec.allocation = "web";
  spec.timeout_ms = 5000;
  const Lease lease = client_->AcquireLease("agent", spec).value();
  EXPECT_EQ(script().last_call(),
            "AcquireLease agent {allocation=web;timeout_ms=t5000;}");
  EXPECT_EQ(lease.lease, "agent");
  EXPECT_EQ(lease.uid, 1000U);
  EXPECT_EQ(lease.allocation, "web");
  EXPECT_EQ(lease.kind, "heartbeat");
  EXPECT_EQ(lease.timeout_ms, 5000U);
  EXPECT_EQ(lease.stop_tasks, "kill");
  EXPECT_EQ(lease.state, "lapsed");
  EXPECT_EQ(lease.deadline_boottime, 7'000'000U);
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  const UniqueFd writing(ends[1]);
  LeaseSpec pipe;
  pipe.scope = "prod";
  pipe.pipe = reading.get();
  pipe.keep = true;
  ASSERT_TRUE(client_->AcquireLease("agent", pipe));
  const std::string call = script().last_call();
  EXPECT_NE(call.find("on_lapse=keep;pipe="), std::string::npos) << call;
  EXPECT_EQ(call.find("timeout_ms"), std::string::npos) << call;
}

TEST_F(ClientLeasesTest, TheOtherCallsNameTheLease) {
  ASSERT_TRUE(client_->RenewLease("agent"));
  EXPECT_EQ(script().last_call(), "RenewLease agent {}");
  ASSERT_TRUE(client_->ReleaseLease("agent"));
  EXPECT_EQ(script().last_call(), "ReleaseLease agent {}");
  ASSERT_TRUE(client_->ReleaseLease("agent", 7U));
  EXPECT_EQ(script().last_call(), "ReleaseLease agent {uid=u7;}");
  EXPECT_EQ(client_->ListLeases().value().size(), 1U);
  AllocationOptions options;
  options.lease_required = true;
  ASSERT_TRUE(client_->PrepareAllocation("web", options));
  EXPECT_EQ(script().last_call(),
            "PrepareAllocation web {lease_required=true;}");
}

TEST_F(ClientLeasesTest, GetFenceAnswersEachStep) {
  const Fence fence = client_->GetFence("web").value();
  EXPECT_EQ(fence.state, "done");
  EXPECT_TRUE(fence.volumes_detached);
  EXPECT_TRUE(fence.had_tasks);
  EXPECT_EQ(fence.handed_out, 1U);
  EXPECT_EQ(fence.attempts, 2U);
  EXPECT_EQ(fence.lapsed_boottime, 7'000'000U);
  EXPECT_EQ(fence.done_boottime, 10'000'000U);
  EXPECT_EQ(fence.done_at - fence.lapsed_at, 3'000'000U);
}

}  // namespace
}  // namespace mountd::agent::test
