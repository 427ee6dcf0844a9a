// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/subscriber.h"

#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <vector>

#include "tests/agent/fake_manager.h"

namespace mountd::agent::test {
namespace {

// Handlers that write down what they are told, and a way to wait for it.
class Log {
 public:
  SignalHandlers Handlers() {
    SignalHandlers handlers;
    handlers.operation_done = [this](const SignalHandlers::Outcome& outcome) {
      Add("done " + outcome.operation + " " +
          std::string(CodeName(outcome.error.code)) + " " +
          outcome.error.detail);
    };
    handlers.plugin_changed = [this](const std::string& plugin,
                                     const std::string& state,
                                     const std::string& reason) {
      Add("plugin " + plugin + " " + state + " [" + reason + "]");
    };
    handlers.owed_changed = [this](std::uint32_t count) {
      Add("owed " + std::to_string(count));
    };
    handlers.lost = [this](const Error& error) {
      Add("lost " + std::string(CodeName(error.code)));
    };
    return handlers;
  }

  // What came, once there are `count` of them; less after half a minute.
  std::vector<std::string> Wait(std::size_t count) {
    std::unique_lock lock(mutex_);
    more_.wait_for(lock, std::chrono::seconds(30),
                   [&] { return lines_.size() >= count; });
    return lines_;
  }

 private:
  void Add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
    more_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable more_;
  std::vector<std::string> lines_;
};

TEST(Subscriber, GetsEachSignalWithItsValuesInOrder) {
  FakeServer server;
  Log log;
  const auto subscriber =
      Subscriber::Start({.address = server.address()}, log.Handlers());
  ASSERT_TRUE(subscriber) << subscriber.error().Message();
  ASSERT_TRUE(server.EmitSignals());
  EXPECT_EQ(log.Wait(3), (std::vector<std::string>{
                             "done op-1 Busy in use",
                             "plugin csi-local healthy []", "owed 2"}));
}

TEST(Subscriber, MayLeaveHandlersOut) {
  FakeServer server;
  Log log;
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
  Log log;
  const auto subscriber =
      Subscriber::Start({.address = server.address()}, log.Handlers());
  ASSERT_TRUE(subscriber);
  server.Stop();
  EXPECT_EQ(log.Wait(1), std::vector<std::string>{"lost Unavailable"});
}

TEST(Subscriber, EndsWithoutAWordWhenItIsDestroyed) {
  FakeServer server;
  Log log;
  {
    const auto subscriber =
        Subscriber::Start({.address = server.address()}, log.Handlers());
    ASSERT_TRUE(subscriber);
  }
  server.Stop();
  EXPECT_TRUE(log.Wait(0).empty());
}

TEST(Subscriber, IsUnavailableWhereNothingListens) {
  Log log;
  const auto subscriber =
      Subscriber::Start({.address = "/nowhere/bus"}, log.Handlers());
  ASSERT_FALSE(subscriber);
  EXPECT_EQ(subscriber.error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace mountd::agent::test
