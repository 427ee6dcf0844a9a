// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/subscriber.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/agent/fake_manager.h"
#include "tests/agent/signal_log.h"

namespace mountd::agent::test {
namespace {

TEST(Subscriber, GetsEachSignalWithItsValuesInOrder) {
  FakeServer server;
  SignalLog log;
  const auto subscriber =
      Subscriber::Start({.address = server.address()}, log.Handlers());
  ASSERT_TRUE(subscriber) << subscriber.error().Message();
  ASSERT_TRUE(server.EmitSignals());
  EXPECT_EQ(log.Wait(16),
            (std::vector<std::string>{
                "done op-1 Busy in use", "progress op-1 RemoveTree 7",
                "step op-1 stage 3 Unavailable", "added csi-local node web",
                "plugin csi-local healthy []", "removed csi-local node web",
                "owed 2", "overdue 2 1700000000000000", "stuck 1",
                "lost web/app/data why", "health web/app/data hung why",
                "event csi-local node web Plugin became unhealthy, Error: why",
                "node csi-local node web n1 16 a max_volumes, "
                "max_volumes 10 -> 16",
                "lapsed agent 1000 why", "fenced web agent",
                "lease agent 1000 fenced why web "
                "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01 r1"}));
}

TEST(Subscriber, MayLeaveHandlersOut) {
  FakeServer server;
  SignalLog log;
  SignalHandlers handlers;
  handlers.owed_changed = log.Handlers().owed_changed;
  const auto subscriber =
      Subscriber::Start({.address = server.address()}, std::move(handlers));
  ASSERT_TRUE(subscriber);
  ASSERT_TRUE(server.EmitSignals());
  EXPECT_EQ(log.Wait(1), std::vector<std::string>{"owed 2"});
}

TEST(Subscriber, TellsOnceWhenTheDaemonIsGone) {
  FakeServer server;
  SignalLog log;
  const auto subscriber =
      Subscriber::Start({.address = server.address()}, log.Handlers());
  ASSERT_TRUE(subscriber);
  server.Stop();
  EXPECT_EQ(log.Wait(1),
            std::vector<std::string>{"lost Unavailable restarting"});
}

TEST(Subscriber, EndsWithoutAWordWhenItIsDestroyed) {
  FakeServer server;
  SignalLog log;
  {
    const auto subscriber =
        Subscriber::Start({.address = server.address()}, log.Handlers());
    ASSERT_TRUE(subscriber);
  }
  server.Stop();
  EXPECT_TRUE(log.Wait(0).empty());
}

TEST(Subscriber, IsUnavailableWhereNothingListens) {
  SignalLog log;
  const auto subscriber =
      Subscriber::Start({.address = "/nowhere/bus"}, log.Handlers());
  ASSERT_FALSE(subscriber);
  EXPECT_EQ(subscriber.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace mountd::agent::test
