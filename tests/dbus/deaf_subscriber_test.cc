// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <optional>
#include <utility>

#include "mountd/base/unique_fd.h"
#include "tests/dbus/peers_test.h"
#include "tests/support/eventually.h"

namespace mountd::test {
namespace {

// Each test ends the only subscriber at a certain moment of a fence's end.
class FenceSubscribers : public Peers {
 protected:
  using Tell = std::function<void()>;

  void SetUp() override {
    Peers::SetUp();
    options_.peers.stall_check = std::chrono::hours(1);
    options_.on_fence = [this](Tell tell) { on_fence_(std::move(tell)); };
  }
  // The loop's thread uses the members of this fixture until the server ends.
  void TearDown() override { Stop(); }
  // Fences the allocation "web" by the end of its lease's pipe.
  void Fence() {
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
  }
  // Tells the fence in the first turn of the loop in which the subscriber's
  // connection has ended, or has nothing left in its queue. mountd posts the
  // connection's removal after this closure, so this closure runs before it.
  void TellBeforeItsRemoval(const Tell& tell) {
    const FenceTeller::Ways ways = server().WaysToTellFences();
    if (ways.has_reader(::geteuid()) || !ways.has_subscriber(::geteuid())) {
      tell();
      return;
    }
    server().Post([this, tell] { TellBeforeItsRemoval(tell); });
  }
  void ExpectTheNextIsTold() {
    ASSERT_TRUE(OnlyTheWitnessIsLeft());
    ASSERT_TRUE(witness_->Call("Subscribe", "a{sv}", 0).ok());
    EXPECT_NE(witness_->AwaitSignal("FenceDone").text.find("web"),
              std::string::npos);
  }

  std::optional<RawSocket> subscriber_;
  // The loop's thread calls it.
  std::function<void(Tell)> on_fence_ = [](const Tell& tell) { tell(); };
};

// A frozen agent reads nothing, and may end before it has read FenceDone.
TEST_F(FenceSubscribers, AFenceThatADeafOneHasNotReadIsToldTheNext) {
  Begin();
  subscriber_ = DeafSubscriber();
  // The signals are far more than the socket takes.
  EmitSignals(100'000);
  ASSERT_NO_FATAL_FAILURE(Fence());
  subscriber_->Close();
  ExpectTheNextIsTold();
}

// mountd has not noticed the connection's end when it writes the signal.
TEST_F(FenceSubscribers, AFenceThatTheKernelDoesNotTakeIsToldTheNext) {
  Begin();
  subscriber_ = DeafSubscriber();
  on_fence_ = [&](const Tell& tell) {
    subscriber_->Close();
    tell();
  };
  ASSERT_NO_FATAL_FAILURE(Fence());
  ExpectTheNextIsTold();
}

// sd-bus empties the queue of a connection that has ended, before mountd
// removes the connection.
TEST_F(FenceSubscribers, AnEmptiedQueueIsNotRead) {
  Begin();
  subscriber_ = DeafSubscriber();
  EmitSignals(100'000);
  on_fence_ = [&](const Tell& tell) {
    subscriber_->Close();
    TellBeforeItsRemoval(tell);
  };
  ASSERT_NO_FATAL_FAILURE(Fence());
  ExpectTheNextIsTold();
}

}  // namespace
}  // namespace mountd::test
