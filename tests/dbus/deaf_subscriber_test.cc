// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>

#include "mountd/base/unique_fd.h"
#include "tests/dbus/peers_test.h"
#include "tests/support/eventually.h"

namespace mountd::test {
namespace {

// A frozen agent reads nothing, and may end before it has read FenceDone.
TEST_F(Peers, AFenceThatADeafSubscriberHasNotReadIsToldTheNext) {
  options_.peers.stall_check = std::chrono::hours(1);
  Begin();
  RawSocket deaf = DeafSubscriber();
  // The signals are far more than the socket takes.
  EmitSignals(100'000);
  ASSERT_TRUE(witness_->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd reading(ends[0]);
  UniqueFd writing(ends[1]);
  const Answer acquired =
      witness_->Call("AcquireLease", "sa{sv}", "agent", 2, "allocation", "s",
                     "web", "pipe", "h", reading.get());
  ASSERT_TRUE(acquired.ok()) << acquired.message;
  writing.reset();
  ASSERT_TRUE(Eventually([&] {
    const Answer fence = witness_->Call("GetFence", "sa{sv}", "web", 0);
    return fence.ok() && fence.values.at("state") == R"("done")";
  }));
  deaf.Close();
  ASSERT_TRUE(Eventually([this] { return server().peer_count() == 1; }));
  ASSERT_TRUE(witness_->Call("Subscribe", "a{sv}", 0).ok());
  EXPECT_NE(witness_->AwaitSignal("FenceDone").text.find("web"),
            std::string::npos);
}

}  // namespace
}  // namespace mountd::test
