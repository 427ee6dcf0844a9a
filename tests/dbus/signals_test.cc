// SPDX-License-Identifier: LGPL-2.1-or-later
// Signals go to subscribers that may see them, and to nobody else.
#include <fcntl.h>

#include <algorithm>

#include "tests/dbus/api_test.h"

namespace mountd::test {
namespace {

class Signals : public BothTransports {
 protected:
  void SetUp() override {
    BothTransports::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
  }
  static void Subscribe(BusClient& client) {
    const Answer answer = client.Call("Subscribe", "a{sv}", 0);
    ASSERT_TRUE(answer.ok()) << answer.message;
  }
  // Subscribes, and leaves an unpublish of "web"'s volume pending, which fails
  // until the script is cleared.
  void FailToUnpublish() {
    Publish(*client_);
    Subscribe(*client_);
    csi().FailNext("NodeUnpublishVolume", csi::RpcCode::kInternal,
                   FailWhen::kBefore, CallScript<csi::RpcError>::kAlways);
    ASSERT_FALSE(
        client_->Call("UnpublishVolume", "ssa{sv}", "web", "data", 0).ok());
  }
  static bool Has(const BusClient& client, const std::string& member) {
    return std::any_of(client.signals().begin(), client.signals().end(),
                       [&](const Signal& s) { return s.member == member; });
  }

  std::unique_ptr<BusClient> client_;
};

TEST_P(Signals, APluginsStatesReachASubscriber) {
  Subscribe(*client_);
  RegisterPlugin(*client_);
  EXPECT_EQ(client_->AwaitSignal("PluginChanged").text,
            R"("csi", "healthy", "")");
  csi().SetReady("csi", false);
  EXPECT_EQ(client_->AwaitSignal("PluginChanged").text,
            R"("csi", "unhealthy", "reports that it is not ready")");
  ASSERT_TRUE(client_->Call("UnregisterPlugin", "sa{sv}", "csi", 0).ok());
  EXPECT_EQ(client_->AwaitSignal("PluginChanged").text,
            R"("csi", "gone", "unregistered")");
}

// An agent hands these texts on unchanged.
TEST_P(Signals, APluginsTaskHasEventsInWords) {
  Subscribe(*client_);
  ASSERT_TRUE(client_->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
  ASSERT_TRUE(
      client_->Call("RegisterPlugin", "sssa{sv}", "csi", "node", "web", 0)
          .ok());
  EXPECT_EQ(client_->AwaitSignal("PluginEvent").text,
            R"("csi", "node", "web", "Plugin became healthy", "plugin: csi")");
  csi().SetReady("csi", false);
  EXPECT_EQ(client_->AwaitSignal("PluginEvent").text,
            R"("csi", "node", "web", "Plugin became unhealthy", )"
            R"("Error: reports that it is not ready")");
  csi().SetReady("csi", true);
  EXPECT_EQ(client_->AwaitSignal("PluginEvent").text,
            R"("csi", "node", "web", "Plugin became healthy", "plugin: csi")");
}

// GetPlugin has the same values as the signal.
TEST_P(Signals, WhatAPluginSaysOfTheNodeIsTold) {
  csi::FakeCsiClient::Plugin plugin = csi::FakeCsiClient::DefaultPlugin("csi");
  plugin.node = {"n1", 10, {{"zone", "a"}}};
  csi().SetPlugin("csi", plugin);
  Subscribe(*client_);
  RegisterPlugin(*client_);
  client_->AwaitSignal("PluginChanged");
  plugin.node = {"n2", 16, {{"zone", "a"}}};
  csi().SetPlugin("csi", plugin);
  EXPECT_EQ(client_->AwaitSignal("NodeInfoChanged").text,
            R"("csi", "node", "", {"node_id": "n2", "max_volumes": 16, )"
            R"("topology": {"zone": "a"}, "changed": ["node_id", )"
            R"("max_volumes"]}, "node_id n1 -> n2; max_volumes 10 -> 16")");
  const Answer now = client_->Call("GetPlugin", "sa{sv}", "csi", 0);
  EXPECT_EQ(now.values.at("node_id"), R"("n2")");
  EXPECT_EQ(now.values.at("max_volumes"), "16");
  EXPECT_NE(now.values.at("reason").find("its node id changed from n1 to n2"),
            std::string::npos);
}

TEST_P(Signals, WhatIsOwedIsCountedToSubscribers) {
  FailToUnpublish();
  EXPECT_EQ(client_->AwaitSignal("OwedChanged").text, "1");
  const auto owed = [&] {
    return client_
        ->CallOn("/org/mountd1", "org.freedesktop.DBus.Properties", "Get", "ss",
                 "org.mountd1.Manager", "Owed")
        .text;
  };
  EXPECT_EQ(owed().find("(1, 0)"), std::string::npos) << owed();
  EXPECT_NE(owed().find("(1, "), std::string::npos) << owed();
  csi().script().Clear();
  ASSERT_TRUE(
      client_->Call("UnpublishVolume", "ssa{sv}", "web", "data", 0).ok());
  EXPECT_EQ(client_->AwaitSignal("OwedChanged").text, "0");
  EXPECT_NE(owed().find("(0, 0)"), std::string::npos) << owed();
}

TEST_P(Signals, WhatIsOwedForTooLongIsTold) {
  FailToUnpublish();
  const std::string since = client_->Call("ListOwed", "a{sv}", 0).text;
  const std::string told = client_->AwaitSignal("OwedOverdue").text;
  ASSERT_TRUE(told.starts_with("1, ")) << told;
  EXPECT_NE(since.find(told.substr(3)), std::string::npos) << since;
}

// The tree never ends, so its signals come until the operation is cancelled.
// The same call on the same directory has joined the operation.
TEST_P(Signals, HowFarAnOperationIsReachesItsCaller) {
  const UniqueFd directory(open("/", O_PATH | O_CLOEXEC));
  const UniqueFd again(open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const auto other = Connect();
  Subscribe(*client_);
  executor().SetTree(UINT64_MAX);
  const Answer begun = client_->Call("RemoveTree", "ha{sv}", directory.get(), 1,
                                     "patience_ms", "u", 1);
  ASSERT_EQ(begun.error, "org.mountd1.Error.InProgress");
  const Answer joined = other->Call("RemoveTree", "ha{sv}", again.get(), 1,
                                    "patience_ms", "u", 1);
  EXPECT_EQ(joined.error, "org.mountd1.Error.InProgress");
  EXPECT_EQ(joined.message, begun.message);
  for (int i = 0; i < 2; ++i) {
    const Signal signal = client_->AwaitSignal("OperationProgress");
    EXPECT_TRUE(
        signal.text.starts_with("\"" + begun.message + "\", \"RemoveTree\", "))
        << signal.text;
  }
  ASSERT_TRUE(client_->Call("Cancel", "sa{sv}", begun.message.c_str(), 0).ok());
  EXPECT_TRUE(client_->AwaitSignal("OperationDone")
                  .text.starts_with("\"" + begun.message +
                                    "\", \"org.mountd1.Error.Aborted\""));
}

constexpr char kSampled[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST_P(Signals, ASampledOperationTellsItsSpansAtItsEnd) {
  Subscribe(*client_);
  ASSERT_TRUE(client_
                  ->Call("PrepareAllocation", "sa{sv}", "web", 2, "traceparent",
                         "s", kSampled, "request_id", "s", "r1")
                  .ok());
  const std::string text = client_->AwaitSignal("OperationStep").text;
  for (const char* part :
       {"\"step\": \"end\"", "\"request_id\": \"r1\"",
        "\"name\": \"PrepareAllocation\"", "\"kind\": \"server\"",
        "\"parent_span_id\": \"b7ad6b7169203331\"", "\"name\": \"queue\"",
        "\"spans_left_out\": 0"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  }
  EXPECT_NE(text.find(kSampled), std::string::npos) << text;
}

TEST_P(Signals, ListOperationsHasTheNamesOfACall) {
  executor().script().Block("PrepareAllocation");
  const Answer waiting =
      client_->Call("PrepareAllocation", "sa{sv}", "web", 3, "traceparent", "s",
                    kSampled, "request_id", "s", "r1", "patience_ms", "u", 1);
  ASSERT_EQ(waiting.error, "org.mountd1.Error.InProgress");
  const std::string text = client_->Call("ListOperations", "a{sv}", 0).text;
  EXPECT_NE(text.find(kSampled), std::string::npos) << text;
  EXPECT_NE(text.find("\"request_id\": \"r1\""), std::string::npos) << text;
  EXPECT_NE(text.find("\"span_id\": "), std::string::npos) << text;
  EXPECT_EQ(text.find("\"spans\""), std::string::npos) << text;
  executor().script().UnblockAll();
}

// Without a sampled trace nobody hears of an operation that ends at once.
TEST_P(Signals, WhatIsNotSampledTellsNothing) {
  Subscribe(*client_);
  const std::string unsampled = std::string(kSampled, 53) + "00";
  ASSERT_TRUE(client_
                  ->Call("PrepareAllocation", "sa{sv}", "web", 2, "traceparent",
                         "s", unsampled.c_str(), "request_id", "s", "r1")
                  .ok());
  const Answer receipt =
      client_->Call("ReleaseAllocation", "sa{sv}", "web", 2, "traceparent", "s",
                    unsampled.c_str(), "request_id", "s", "r2");
  ASSERT_TRUE(receipt.ok()) << receipt.message;
  EXPECT_EQ(receipt.values.at("traceparent"), "\"" + unsampled + "\"");
  EXPECT_EQ(receipt.values.at("request_id"), "\"r2\"");
  client_->Fence();
  EXPECT_FALSE(Has(*client_, "OperationStep"));
}

// The wish ends with its connection.
TEST_P(Signals, ASubscriberMayAskForTheSpansOfEachTrace) {
  auto asking = Connect();
  const Answer asked = asking->Call("Subscribe", "a{sv}", 1, "spans", "b", 1);
  if (GetParam() == Transport::kBus) {
    EXPECT_EQ(asked.error, "org.mountd1.Error.NotSupported");
    return;
  }
  ASSERT_TRUE(asked.ok()) << asked.message;
  const std::string unsampled = std::string(kSampled, 53) + "00";
  const auto call = [&](BusClient& client) {
    ASSERT_TRUE(client
                    .Call("PrepareAllocation", "sa{sv}", "web", 1,
                          "traceparent", "s", unsampled.c_str())
                    .ok());
  };
  call(*asking);
  EXPECT_NE(asking->AwaitSignal("OperationStep").text.find("\"spans\""),
            std::string::npos);
  // A call without a trace has no spans.
  ASSERT_TRUE(asking->Call("PrepareAllocation", "sa{sv}", "db", 0).ok());
  ASSERT_TRUE(asking->Call("Unsubscribe", "a{sv}", 0).ok());
  Subscribe(*asking);
  call(*asking);
  asking->Fence();
  EXPECT_FALSE(Has(*asking, "OperationStep"));
  const Answer again = client_->Call("Subscribe", "a{sv}", 1, "spans", "b", 1);
  ASSERT_TRUE(again.ok()) << again.message;
  client_.reset();
  EXPECT_TRUE(Eventually([&] {
    call(*asking);
    asking->Fence();
    const bool told = Has(*asking, "OperationStep");
    if (told) {
      asking->AwaitSignal("OperationStep");
    }
    return !told;
  }));
}

TEST_P(Signals, NobodyElseGetsThem) {
  const auto silent = Connect();
  const auto gone = Connect();
  Subscribe(*client_);
  Subscribe(*gone);
  ASSERT_TRUE(gone->Call("Unsubscribe", "a{sv}", 0).ok());
  // On the bus a match rule does not give a client signals that are sent to
  // others.
  if (GetParam() == Transport::kBus) {
    ASSERT_GE(
        sd_bus_match_signal(silent->raw(), nullptr, nullptr, nullptr,
                            "org.mountd1.Manager", nullptr, nullptr, nullptr),
        0);
  }
  RegisterPlugin(*client_);
  const Signal signal = client_->AwaitSignal("PluginChanged");
  EXPECT_EQ(signal.text, R"("csi", "healthy", "")");
  silent->Fence();
  gone->Fence();
  EXPECT_TRUE(silent->signals().empty());
  EXPECT_TRUE(gone->signals().empty());
  if (GetParam() == Transport::kBus) {
    const char* name = nullptr;
    ASSERT_GE(sd_bus_get_unique_name(client_->raw(), &name), 0);
    EXPECT_EQ(signal.destination, name);
  }
}

TEST_P(Signals, SubscribingTwiceIsSubscribingOnce) {
  Subscribe(*client_);
  Subscribe(*client_);
  RegisterPlugin(*client_);
  client_->AwaitSignal("PluginChanged");
  client_->Fence();
  EXPECT_FALSE(Has(*client_, "PluginChanged"));
  ASSERT_TRUE(client_->Call("Unsubscribe", "a{sv}", 0).ok());
  ASSERT_TRUE(client_->Call("UnregisterPlugin", "sa{sv}", "csi", 0).ok());
  client_->Fence();
  EXPECT_FALSE(Has(*client_, "PluginChanged"));
}

TEST_P(Signals, ASubscriberThatGoesIsForgotten) {
  Subscribe(*client_);
  const auto leaving = Connect();
  Subscribe(*leaving);
  sd_bus_close(leaving->raw());
  RegisterPlugin(*client_);
  EXPECT_EQ(client_->AwaitSignal("PluginChanged").member, "PluginChanged");
}

// ListVolumes has the same condition as the signal.
TEST_P(Signals, AVolumesConditionIsTold) {
  csi::FakeCsiClient::Plugin plugin = csi::FakeCsiClient::DefaultPlugin("csi");
  plugin.capabilities.node_rpcs = {1, 2, 4};
  plugin.stats.condition = csi::VolumeCondition{true, "its disk is slow"};
  csi().SetPlugin("csi", plugin);
  Publish(*client_);
  Subscribe(*client_);
  server().WatchConditions();
  EXPECT_EQ(client_->AwaitSignal("VolumeHealth").text,
            R"("csi", "vol", "abnormal", "its disk is slow")");
  const Answer bad = client_->Call("ListVolumes", "a{sv}", 0);
  EXPECT_EQ(bad.values.at("0.abnormal"), "true");
  EXPECT_EQ(bad.values.at("0.condition"), R"("its disk is slow")");
  plugin.stats.condition = csi::VolumeCondition{false, ""};
  csi().SetPlugin("csi", plugin);
  EXPECT_EQ(client_->AwaitSignal("VolumeHealth").text,
            R"("csi", "vol", "normal", "")");
  const Answer good = client_->Call("ListVolumes", "a{sv}", 0);
  EXPECT_EQ(good.values.at("0.abnormal"), "false");
}

// ---- Signals about other users ----

class SignalsOfOthers : public Signals {
 protected:
  void SetUp() override {
    if (!IsRoot()) {
      GTEST_SKIP() << "only root can connect as other users";
    }
    Signals::SetUp();
    alice_ = Connect(kAlice);
    bob_ = Connect(kBob);
    stranger_ = Connect(kStranger);
    for (BusClient* client : {alice_.get(), bob_.get(), stranger_.get()}) {
      ASSERT_NE(client, nullptr);
      Subscribe(*client);
    }
  }

  std::unique_ptr<BusClient> alice_;
  std::unique_ptr<BusClient> bob_;
  std::unique_ptr<BusClient> stranger_;
};

TEST_P(SignalsOfOthers, AnOperationIsItsCallersAlone) {
  Subscribe(*client_);
  executor().script().Block("PrepareAllocation");
  const Answer waiting = alice_->Call("PrepareAllocation", "sa{sv}", "web", 1,
                                      "patience_ms", "u", 1);
  ASSERT_EQ(waiting.error, "org.mountd1.Error.InProgress");
  executor().script().UnblockAll();
  EXPECT_EQ(alice_->AwaitSignal("OperationDone").text,
            "\"" + waiting.message + R"(", "", "")");
  for (BusClient* other : {bob_.get(), stranger_.get(), client_.get()}) {
    other->Fence();
    EXPECT_FALSE(Has(*other, "OperationDone"));
  }
}

TEST_P(SignalsOfOthers, WhatALongOneIsAtIsItsCallersAndAdministrators) {
  Subscribe(*client_);  // root
  executor().script().Block("PrepareAllocation");
  const Answer waiting = alice_->Call("PrepareAllocation", "sa{sv}", "web", 1,
                                      "patience_ms", "u", 1);
  ASSERT_EQ(waiting.error, "org.mountd1.Error.InProgress");
  for (BusClient* client : {alice_.get(), client_.get()}) {
    const Signal step = client->AwaitSignal("OperationStep");
    EXPECT_TRUE(step.text.starts_with("\"" + waiting.message + "\", {"))
        << step.text;
    EXPECT_NE(step.text.find("\"step\": \"work\""), std::string::npos)
        << step.text;
    EXPECT_NE(
        client->Call("ListOperations", "a{sv}", 0).text.find(waiting.message),
        std::string::npos);
  }
  executor().script().UnblockAll();
  EXPECT_NE(alice_->AwaitSignal("OperationStep").text.find("\"end\""),
            std::string::npos);
  for (BusClient* other : {bob_.get(), stranger_.get()}) {
    EXPECT_EQ(other->Call("ListOperations", "a{sv}", 0).text, "[]");
    EXPECT_FALSE(Has(*other, "OperationStep"));
  }
}

// A user who samples each call does not fill an administrator's queue, unless
// the administrator asks for spans.
TEST_P(SignalsOfOthers, SpansOfAShortOneAreItsCallersUnlessSomebodyAsks) {
  Subscribe(*client_);  // root
  const auto call = [&](const char* allocation) {
    ASSERT_TRUE(alice_
                    ->Call("PrepareAllocation", "sa{sv}", allocation, 1,
                           "traceparent", "s", kSampled)
                    .ok());
  };
  call("web");
  EXPECT_NE(alice_->AwaitSignal("OperationStep").text.find("\"spans\""),
            std::string::npos);
  for (BusClient* other : {client_.get(), bob_.get(), stranger_.get()}) {
    other->Fence();
    EXPECT_FALSE(Has(*other, "OperationStep"));
  }
  const auto asking = ConnectPeer();
  ASSERT_NE(asking, nullptr);
  ASSERT_TRUE(asking->Call("Subscribe", "a{sv}", 1, "spans", "b", 1).ok());
  call("db");
  EXPECT_NE(asking->AwaitSignal("OperationStep").text.find("\"spans\""),
            std::string::npos);
  for (BusClient* other : {bob_.get(), stranger_.get()}) {
    other->Fence();
    EXPECT_FALSE(Has(*other, "OperationStep"));
  }
}

TEST_P(SignalsOfOthers, APluginIsSeenByWhoMayUseIt) {
  RegisterPlugin(*alice_);
  EXPECT_EQ(alice_->AwaitSignal("PluginChanged").text,
            R"("csi", "healthy", "")");
  EXPECT_EQ(bob_->AwaitSignal("PluginChanged").text, R"("csi", "healthy", "")");
  EXPECT_EQ(bob_->AwaitSignal("PluginEvent").member, "PluginEvent");
  stranger_->Fence();
  EXPECT_FALSE(Has(*stranger_, "PluginChanged"));
  EXPECT_FALSE(Has(*stranger_, "PluginEvent"));
}

// Signals about a mount of alice's.
class MountSignals : public SignalsOfOthers {
 protected:
  void SetUp() override {
    SignalsOfOthers::SetUp();
    if (IsSkipped()) {
      return;
    }
    Subscribe(*client_);  // root, who may see all
    ASSERT_TRUE(alice_->Call("PrepareAllocation", "sa{sv}", "web", 0).ok());
    const Answer bound = alice_->Call("BindMount", "sssssbsa{sv}", "web", "app",
                                      "logs", "host", "data", 0, "private", 0);
    ASSERT_TRUE(bound.ok()) << bound.message;
    for (BusClient* other : {bob_.get(), stranger_.get()}) {
      Eavesdrop(*other);
    }
    server().WatchMounts();
  }
  static void Eavesdrop(BusClient& client) {
    if (GetParam() == Transport::kBus) {
      ASSERT_GE(
          sd_bus_match_signal(client.raw(), nullptr, nullptr, nullptr,
                              "org.mountd1.Manager", nullptr, nullptr, nullptr),
          0);
    }
  }
  // Expects the signal for the owner and for root. bob, who may use the same
  // volume, gets none.
  void ExpectAliceAndRootAreTold(const std::string& member,
                                 const std::string& text) {
    EXPECT_EQ(alice_->AwaitSignal(member).text, text);
    EXPECT_EQ(client_->AwaitSignal(member).text, text);
    for (BusClient* other : {bob_.get(), stranger_.get()}) {
      other->Fence();
      EXPECT_FALSE(Has(*other, member));
    }
  }
};

TEST_P(MountSignals, ThatItIsLostIsToldToItsOwner) {
  executor().LoseMount("web/app/logs");
  ExpectAliceAndRootAreTold("MountLost",
                            R"("web", "app", "logs", "no mount is there")");
}

TEST_P(MountSignals, HowItsFileSystemIsIsToldToItsOwner) {
  executor().SetHealth("data", exec::MountHealth::kHung);
  ExpectAliceAndRootAreTold(
      "MountHealth",
      R"("web", "app", "logs", "hung", "statfs did not answer in time")");
  executor().SetHealth("data", exec::MountHealth::kHealthy);
  ExpectAliceAndRootAreTold("MountHealth",
                            R"("web", "app", "logs", "healthy", "")");
}

TEST_P(MountSignals, NobodyWhoHasNotSubscribedIsTold) {
  const auto silent = Connect(kAlice);
  ASSERT_NE(silent, nullptr);
  ASSERT_TRUE(alice_->Call("Unsubscribe", "a{sv}", 0).ok());
  Eavesdrop(*silent);
  executor().LoseMount("web/app/logs");
  client_->AwaitSignal("MountLost");
  for (BusClient* other : {silent.get(), alice_.get()}) {
    other->Fence();
    EXPECT_FALSE(Has(*other, "MountLost"));
  }
}

MOUNTD_ON_BOTH_TRANSPORTS(Signals);
MOUNTD_ON_BOTH_TRANSPORTS(SignalsOfOthers);
MOUNTD_ON_BOTH_TRANSPORTS(MountSignals);

}  // namespace
}  // namespace mountd::test
