// SPDX-License-Identifier: LGPL-2.1-or-later
// Calls that outlast their caller's patience, or their caller.
#include <regex>

#include "tests/dbus/api_test.h"

namespace mountd::test {
namespace {

constexpr char kInProgress[] = "org.mountd1.Error.InProgress";

class Patience : public BothTransports {
 protected:
  void SetUp() override {
    BothTransports::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
    executor().script().Block("PrepareAllocation");
  }
  // Makes a call that is answered at once. Returns the operation's id.
  std::string PrepareImpatiently(BusClient& client) {
    const Answer answer = client.Call("PrepareAllocation", "sa{sv}", "web", 1,
                                      "patience_ms", "u", 1);
    EXPECT_EQ(answer.error, kInProgress) << answer.message;
    return answer.message;
  }
  std::uint64_t SendPrepare(BusClient& client) {
    return client.Send("PrepareAllocation", "sa{sv}", "web", 0);
  }
  void Unblock() { executor().script().Unblock("PrepareAllocation"); }

  std::unique_ptr<BusClient> client_;
};

TEST_P(Patience, InProgressTellsTheOperationsIdAlone) {
  const std::string id = PrepareImpatiently(*client_);
  EXPECT_TRUE(std::regex_match(id, std::regex(R"([0-9]+\.[0-9]+)"))) << id;
  EXPECT_EQ(PrepareImpatiently(*client_), id);
}

TEST_P(Patience, TheSameCallJoinsTheWorkUnderWay) {
  PrepareImpatiently(*client_);
  const auto second = Connect();
  const auto again = SendPrepare(*client_);
  const auto from_another = SendPrepare(*second);
  client_->Fence();
  second->Fence();
  EXPECT_EQ(server().running(), 1U);
  EXPECT_FALSE(client_->answered(again));
  Unblock();
  const Answer answer = client_->Await(again);
  EXPECT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(second->Await(from_another).text, answer.text);
  EXPECT_EQ(executor().script().Count("PrepareAllocation"), 1U);
}

TEST_P(Patience, OtherArgumentsAreAnotherOperation) {
  const std::string id = PrepareImpatiently(*client_);
  const Answer other =
      client_->Call("PrepareAllocation", "sa{sv}", "web", 2, "patience_ms", "u",
                    1, "scope", "s", "other");
  EXPECT_EQ(other.error, kInProgress);
  EXPECT_NE(other.message, id);
}

// The calls of each pair have the same words in the same order, in other lists.
TEST_P(Patience, OtherNamesOrAddressesAreAnotherOperation) {
  PrepareImpatiently(*client_);
  constexpr char kTypes[] = "ssa(ssqqqs)a{sv}";
  const Answer two_hosts = client_->Call(
      "SetupNetwork", kTypes, "web", "bridge", 0, 2, "patience_ms", "u", 1,
      "hosts", "a(sas)", 2, "10.0.0.8", 1, "a", "10.0.0.9", 1, "b");
  const Answer one_host = client_->Call(
      "SetupNetwork", kTypes, "web", "bridge", 0, 2, "patience_ms", "u", 1,
      "hosts", "a(sas)", 1, "10.0.0.8", 4, "a", "", "10.0.0.9", "b");
  EXPECT_EQ(two_hosts.error, kInProgress) << two_hosts.message;
  EXPECT_EQ(one_host.error, kInProgress) << one_host.message;
  EXPECT_NE(one_host.message, two_hosts.message);

  const Answer an_argument = client_->Call(
      "SetupNetwork", kTypes, "web", "cni/net", 0, 3, "patience_ms", "u", 1,
      "cni_args", "a{ss}", 1, "", "x", "mac", "s", "y");
  const Answer no_argument = client_->Call(
      "SetupNetwork", kTypes, "web", "cni/net", 0, 3, "patience_ms", "u", 1,
      "mac", "s", "x", "ips", "as", 2, "", "y");
  EXPECT_EQ(an_argument.error, kInProgress) << an_argument.message;
  EXPECT_EQ(no_argument.error, kInProgress) << no_argument.message;
  EXPECT_NE(no_argument.message, an_argument.message);
}

TEST_P(Patience, ACallThatIsOverAnswersTheSameAgain) {
  const auto first = SendPrepare(*client_);
  Unblock();
  const Answer answer = client_->Await(first);
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(client_->Call("PrepareAllocation", "sa{sv}", "web", 0).text,
            answer.text);
  EXPECT_EQ(server().running(), 0U);
}

TEST_P(Patience, OperationDoneTellsItsCaller) {
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  const std::string id = PrepareImpatiently(*client_);
  EXPECT_TRUE(client_->signals().empty());
  Unblock();
  EXPECT_EQ(client_->AwaitSignal("OperationDone").text,
            "\"" + id + R"(", "", "")");
}

TEST_P(Patience, OperationDoneTellsTheError) {
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  executor().script().FailNext("PrepareAllocation",
                               ErrnoError(ENOSPC, "mkdirat", "web"));
  const std::string id = PrepareImpatiently(*client_);
  Unblock();
  EXPECT_EQ(client_->AwaitSignal("OperationDone").text,
            "\"" + id +
                "\", \"org.mountd1.Error.ResourceExhausted\", "
                "\"mkdirat web (ENOSPC)\"");
}

TEST_P(Patience, WhatWasAnsweredInTimeIsNotSignalled) {
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  const auto first = SendPrepare(*client_);
  Unblock();
  ASSERT_TRUE(client_->Await(first).ok());
  client_->Fence();
  EXPECT_TRUE(client_->signals().empty());
}

TEST_P(Patience, CancelAnswersTheWaitersAndLetsTheStepEnd) {
  const std::string id = PrepareImpatiently(*client_);
  const auto waiting = SendPrepare(*client_);
  ASSERT_TRUE(client_->Call("Cancel", "sa{sv}", id.c_str(), 0).ok());
  const Answer aborted = client_->Await(waiting);
  EXPECT_EQ(aborted.error, "org.mountd1.Error.Aborted");
  EXPECT_EQ(server().running(), 1U);
  Unblock();
  EXPECT_TRUE(Eventually([&] { return server().running() == 0; }));
  EXPECT_EQ(client_->Call("Cancel", "sa{sv}", id.c_str(), 0).error,
            "org.mountd1.Error.NotFound");
  // The step's effect is recorded.
  EXPECT_TRUE(client_->Call("GetAllocation", "sa{sv}", "web", 0).ok());
}

TEST_P(Patience, ACallerThatGoesLeavesTheOperationToEnd) {
  SendPrepare(*client_);
  ASSERT_TRUE(executor().script().AwaitBlocked("PrepareAllocation"));
  client_.reset();
  ASSERT_TRUE(Eventually([&] {
    return GetParam() == Transport::kBus || server().peer_count() == 0;
  }));
  EXPECT_EQ(server().running(), 1U);
  Unblock();
  EXPECT_TRUE(Eventually([&] { return server().running() == 0; }));
  EXPECT_EQ(executor().Existing(), std::vector<std::string>{"allocation web"});
  EXPECT_TRUE(Connect()->Call("GetAllocation", "sa{sv}", "web", 0).ok());
}

TEST_P(Patience, OperationsOfAUserAreBounded) {
  const std::uint32_t limit = LimitsConfig().operations_per_uid;
  std::vector<std::uint64_t> calls;
  for (std::uint32_t i = 0; i < limit; ++i) {
    calls.push_back(client_->Send("PrepareAllocation", "sa{sv}",
                                  ("a" + std::to_string(i)).c_str(), 0));
  }
  const Answer refused =
      client_->Call("PrepareAllocation", "sa{sv}", "more", 0);
  EXPECT_EQ(refused.error, "org.mountd1.Error.ResourceExhausted");
  EXPECT_EQ(server().running(), limit);
  Unblock();
  for (const std::uint64_t call : calls) {
    EXPECT_TRUE(client_->Await(call).ok());
  }
  EXPECT_TRUE(client_->Call("PrepareAllocation", "sa{sv}", "more", 0).ok());
}

TEST_P(Patience, WaitersOfAnOperationAreBounded) {
  std::vector<std::uint64_t> calls;
  for (std::uint32_t i = 0; i < Operations::kMaxWaiters; ++i) {
    calls.push_back(SendPrepare(*client_));
  }
  EXPECT_EQ(client_->Call("PrepareAllocation", "sa{sv}", "web", 0).error,
            "org.mountd1.Error.ResourceExhausted");
  Unblock();
  for (const std::uint64_t call : calls) {
    EXPECT_TRUE(client_->Await(call).ok());
  }
  EXPECT_EQ(executor().script().Count("PrepareAllocation"), 1U);
}

// The configured patience is the longest that a call may have.
TEST_F(ApiTest, PatienceIsCappedByTheConfiguration) {
  ApiServerOptions options;
  options.config = DefaultConfig();
  options.config.timeouts.patience = std::chrono::milliseconds(20);
  Start(std::move(options));
  const auto client = ConnectPeer();
  ASSERT_NE(client, nullptr);
  executor().script().Block("PrepareAllocation");
  for (const unsigned asked : {0U, 4000000000U}) {
    EXPECT_EQ(client
                  ->Call("PrepareAllocation", "sa{sv}", "web", 1, "patience_ms",
                         "u", asked)
                  .error,
              kInProgress);
  }
}

MOUNTD_ON_BOTH_TRANSPORTS(Patience);

}  // namespace
}  // namespace mountd::test
