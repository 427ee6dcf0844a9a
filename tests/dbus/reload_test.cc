// SPDX-License-Identifier: LGPL-2.1-or-later
// Connections stay while the configuration changes.
#include <atomic>

#include "tests/dbus/methods.h"

namespace mountd::test {
namespace {

class Reload : public Methods {
 protected:
  void SetUp() override {}

  // Starts a server whose Reload answers as `reload` says.
  void StartWith(
      std::function<Result<std::vector<std::string>>(LiveConfig&)> reload) {
    if (GetParam() == Transport::kBus) {
      StartBus();
    }
    ApiServerOptions options;
    options.config = DefaultConfig();
    RuleConfig administrators;
    administrators.uids = {::geteuid(), kAlice};
    administrators.administer = true;
    options.config.rules.push_back(administrators);
    options.system_bus = GetParam() == Transport::kBus;
    options.reload = std::move(reload);
    ApiTest::Start(std::move(options));
    ASSERT_TRUE(GetParam() == Transport::kPeer ||
                Eventually([this] { return ServedOnTheBus(); }));
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
  }
};

Result<std::vector<std::string>> WithoutRules(LiveConfig& live) {
  Config next = *live.Get();
  next.rules.clear();
  live.ReplaceLive(std::move(next));
  return std::vector<std::string>{};
}

TEST_P(Reload, WhoIsConnectedIsHeldToTheNewRules) {
  StartWith(&WithoutRules);
  MustPrepare();
  const Answer reloaded = client_->Call("Reload", "a{sv}", 0);
  EXPECT_EQ(reloaded.signature, "as");
  EXPECT_EQ(reloaded.text, "[]");
  const Answer denied = client_->Call("PrepareAllocation", "sa{sv}", "db", 0);
  EXPECT_EQ(denied.error, "org.mountd1.Error.PermissionDenied");
  // The owner may still see and release what was made before.
  EXPECT_TRUE(client_->Call("GetAllocation", "sa{sv}", "web", 0).ok());
  EXPECT_TRUE(client_->Call("ReleaseAllocation", "sa{sv}", "web", 0).ok());
}

TEST_P(Reload, WhatIsWrongWithItIsTheAnswer) {
  StartWith([](LiveConfig&) -> Result<std::vector<std::string>> {
    return MakeError(Code::kInvalidArgument, "config", "mountd.toml:3",
                     "has the wrong type");
  });
  const Answer refused = client_->Call("Reload", "a{sv}", 0);
  EXPECT_EQ(refused.error, "org.mountd1.Error.InvalidArgument");
  EXPECT_NE(refused.message.find("mountd.toml:3"), std::string::npos)
      << refused.message;
  MustPrepare();
}

TEST_P(Reload, IsForAdministrators) {
  if (!IsRoot()) {
    GTEST_SKIP() << "only root can call as others";
  }
  std::atomic<int> reloads = 0;
  StartWith([&](LiveConfig&) {
    ++reloads;
    return std::vector<std::string>{"limits"};
  });
  for (const uid_t uid : {kStranger, kBob}) {
    const auto other = Connect(uid);
    ASSERT_NE(other, nullptr);
    EXPECT_EQ(other->Call("Reload", "a{sv}", 0).error,
              "org.mountd1.Error.PermissionDenied");
  }
  EXPECT_EQ(reloads, 0);
  const auto alice = Connect(kAlice);
  ASSERT_NE(alice, nullptr);
  EXPECT_EQ(alice->Call("Reload", "a{sv}", 0).text, R"(["limits"])");
  EXPECT_EQ(client_->Call("Reload", "a{sv}", 0).text, R"(["limits"])");
  EXPECT_EQ(reloads, 2);
}

MOUNTD_ON_BOTH_TRANSPORTS(Reload);

}  // namespace
}  // namespace mountd::test
