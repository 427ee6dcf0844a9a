// SPDX-License-Identifier: LGPL-2.1-or-later
// org.mountd1.Plugin: the objects of plugins' instances.
#include "tests/dbus/api_test.h"

namespace mountd::test {
namespace {

constexpr char kPluginInterface[] = "org.mountd1.Plugin";
constexpr char kPropertiesInterface[] = "org.freedesktop.DBus.Properties";
constexpr char kObject[] = "/org/mountd1/plugin/csi/0";

class PluginObjectsTest : public BothTransports {
 protected:
  void SetUp() override {
    BothTransports::SetUp();
    client_ = Connect();
    ASSERT_NE(client_, nullptr);
    RegisterPlugin(*client_);
  }
  static Answer GetAll(BusClient& client, const char* path = kObject) {
    return client.CallOn(path, kPropertiesInterface, "GetAll", "s",
                         kPluginInterface);
  }
  static std::string Introspect(BusClient& client, const char* path) {
    return client
        .CallOn(path, "org.freedesktop.DBus.Introspectable", "Introspect", "")
        .text;
  }

  std::unique_ptr<BusClient> client_;
};

TEST_P(PluginObjectsTest, ItsPropertiesAreReadAndNotWritten) {
  ASSERT_TRUE(Eventually(
      [&] { return GetAll(*client_).values["State"] == R"("healthy")"; }));
  Answer all = GetAll(*client_);
  EXPECT_EQ(all.values["NodeId"], R"("node-csi")");
  EXPECT_EQ(all.values["Topology"], R"({"zone": "z1"})");
  EXPECT_EQ(all.values["Provider"], R"("fake.example")");
  EXPECT_EQ(all.values["Uid"], std::to_string(::geteuid()));
  EXPECT_EQ(all.types["NodeCapabilities"], "ai");
  EXPECT_EQ(client_
                ->CallOn(kObject, kPropertiesInterface, "Get", "ss",
                         kPluginInterface, "Type")
                .text,
            R"("node")");
  EXPECT_EQ(client_
                ->CallOn(kObject, kPropertiesInterface, "Set", "ssv",
                         kPluginInterface, "Type", "s", "x")
                .error,
            "org.freedesktop.DBus.Error.PropertyReadOnly");
}

TEST_P(PluginObjectsTest, ThereIsOneForEachInstance) {
  ASSERT_TRUE(
      client_->Call("RegisterPlugin", "sssa{sv}", "my.csi", "controller", "", 0)
          .ok());
  const Answer plugin = client_->Call("GetPlugin", "sa{sv}", "my.csi", 0);
  std::string path = plugin.values.at("instances.0.object");
  path = path.substr(1, path.size() - 2);
  EXPECT_TRUE(path.starts_with("/org/mountd1/plugin/my_2ecsi/")) << path;
  EXPECT_EQ(GetAll(*client_, path.c_str()).values["Type"], R"("controller")");
  EXPECT_NE(Introspect(*client_, "/org/mountd1/plugin").find("my_2ecsi"),
            std::string::npos);
  for (const char* none :
       {"/org/mountd1/plugin/csi/1", "/org/mountd1/plugin/csi",
        "/org/mountd1/plugin/other/0", "/org/mountd1/plugin/csi/0/0",
        "/org/mountd1/plugin/my_2ecsi/0", "/org/mountd1/plugin/_2f/0"}) {
    EXPECT_FALSE(GetAll(*client_, none).ok()) << none;
  }
}

TEST_P(PluginObjectsTest, WhatBecomesOfThemIsTold) {
  ASSERT_TRUE(client_->Call("Subscribe", "a{sv}", 0).ok());
  ASSERT_TRUE(
      client_->Call("RegisterPlugin", "sssa{sv}", "two", "node", "", 0).ok());
  EXPECT_EQ(client_->AwaitSignal("PluginAdded").text,
            R"("two", "node", "", "/org/mountd1/plugin/two/0")");
  std::string changed;
  while (changed.find(R"("two")") == std::string::npos) {
    const Signal signal = client_->AwaitSignal("PropertiesChanged");
    ASSERT_FALSE(signal.member.empty());
    changed = signal.text;
  }
  EXPECT_NE(changed.find(R"("State": "healthy")"), std::string::npos)
      << changed;
  EXPECT_NE(changed.find(R"("NodeId": "node-two")"), std::string::npos);
  ASSERT_TRUE(client_->Call("UnregisterPlugin", "sa{sv}", "two", 0).ok());
  EXPECT_EQ(client_->AwaitSignal("PluginRemoved").text,
            R"("two", "node", "", "/org/mountd1/plugin/two/0")");
  EXPECT_FALSE(GetAll(*client_, "/org/mountd1/plugin/two/0").ok());
}

TEST_P(PluginObjectsTest, WhoMayNotSeeThePluginFindsNone) {
  if (!IsRoot()) {
    GTEST_SKIP() << "only root can connect as other users";
  }
  const auto bob = Connect(kBob);
  const auto stranger = Connect(kStranger);
  ASSERT_NE(bob, nullptr);
  ASSERT_NE(stranger, nullptr);
  EXPECT_TRUE(GetAll(*bob).ok());
  EXPECT_FALSE(GetAll(*stranger).ok());
  EXPECT_EQ(Introspect(*stranger, "/org/mountd1/plugin").find("csi"),
            std::string::npos);
  ASSERT_TRUE(stranger->Call("Subscribe", "a{sv}", 0).ok());
  ASSERT_TRUE(bob->Call("Subscribe", "a{sv}", 0).ok());
  csi().SetReady("csi", false);
  EXPECT_EQ(bob->AwaitSignal("PropertiesChanged").member, "PropertiesChanged");
  ASSERT_TRUE(client_->Call("UnregisterPlugin", "sa{sv}", "csi", 0).ok());
  EXPECT_EQ(bob->AwaitSignal("PluginRemoved").member, "PluginRemoved");
  stranger->Fence();
  EXPECT_TRUE(stranger->signals().empty());
}

MOUNTD_ON_BOTH_TRANSPORTS(PluginObjectsTest);

}  // namespace
}  // namespace mountd::test
