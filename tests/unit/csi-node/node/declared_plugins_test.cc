// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/declared_plugins.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/support/fakes/core.h"
#include "tests/support/outcome.h"

namespace mountd::csi {
namespace {

using Texts = std::vector<std::string>;

class DeclaredPluginsTest : public ::testing::Test {
 protected:
  DeclaredPluginsTest() {
    PluginConfig plugin;
    plugin.type = "monolith";
    plugin.command = {"/opt/csi"};
    declared_.emplace("nfs", plugin);
  }
  std::string Settle() {
    DeclaredPlugins plugins(declared_, *core_.executor, *core_.plugins);
    return Outcome(plugins.Settle("nfs"));
  }
  std::size_t Calls(const std::string& text) {
    return core_.executor->script().Count(text);
  }

  std::map<std::string, PluginConfig> declared_;
  Core core_;
};

TEST_F(DeclaredPluginsTest, AreRegisteredAsRootsAndStarted) {
  EXPECT_EQ(Settle(), "Ok");
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  const PluginStatus status = core_.plugins->Get("nfs").value();
  EXPECT_EQ(status.record.uid, 0U);
  EXPECT_EQ(status.record.type, "monolith");
  EXPECT_EQ(Calls("StartPlugin nfs"), 1U);
  // Users that may use the plugin see it, but no user can unregister it.
  EXPECT_EQ(Outcome(core_.services->plugins.GetPlugin(Core::By(Core::kAgent),
                                                      NameOf("nfs"))),
            "Ok");
  EXPECT_EQ(Outcome(core_.services->plugins.UnregisterPlugin(
                Core::By(Core::kAgent), NameOf("nfs"))),
            "PermissionDenied");
  EXPECT_EQ(Settle(), "Ok");
  EXPECT_EQ(core_.events.All(), Texts{"nfs healthy 1"});
}

TEST_F(DeclaredPluginsTest, WhyOneCannotBeStartedIsItsReason) {
  core_.executor->SetListening("nfs", false);
  core_.executor->script().FailNext(
      "StartPlugin", MakeError(Code::kNotSupported, "start", "nfs",
                               "systemd does not run here"));
  EXPECT_EQ(Settle(), "NotSupported");
  const auto reason = [&] { return core_.plugins->Get("nfs")->reason; };
  const auto deadline = Clock::now() + kTestPatience;
  while (reason().find("systemd does not run here") == std::string::npos &&
         Clock::now() < deadline) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_NE(reason().find("systemd does not run here"), std::string::npos);
  core_.executor->SetListening("nfs", true);
  EXPECT_TRUE(core_.events.Await("nfs healthy 1"));
}

TEST_F(DeclaredPluginsTest, OneThatIsDeclaredNoLongerIsLetGo) {
  ASSERT_EQ(Settle(), "Ok");
  core_.Restart();
  ASSERT_EQ(MessageOf(core_.plugins->Recover()), "Ok");
  declared_.clear();
  DeclaredPlugins plugins(declared_, *core_.executor, *core_.plugins);
  EXPECT_EQ(plugins.Names(), Texts{"nfs"});
  EXPECT_EQ(Settle(), "Ok");
  EXPECT_EQ(Calls("StopPlugin nfs"), 1U);
  EXPECT_FALSE(core_.plugins->Get("nfs").has_value());
  EXPECT_TRUE(plugins.Names().empty());
}

TEST_F(DeclaredPluginsTest, OneThatCannotBeStoppedStaysUntilItCan) {
  ASSERT_EQ(Settle(), "Ok");
  declared_.clear();
  core_.executor->FailNext("StopPlugin", Code::kUnavailable);
  EXPECT_EQ(Settle(), "Unavailable");
  EXPECT_TRUE(core_.plugins->Get("nfs").has_value());
  EXPECT_EQ(Settle(), "Ok");
  EXPECT_FALSE(core_.plugins->Get("nfs").has_value());
}

TEST_F(DeclaredPluginsTest, OneThatAUserRegisteredIsNotTaken) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  EXPECT_EQ(Settle(), "AlreadyExists");
  EXPECT_EQ(Calls("StartPlugin"), 0U);
  declared_.clear();
  EXPECT_EQ(Settle(), "Ok");
  EXPECT_TRUE(core_.plugins->Get("nfs").has_value());
}

TEST_F(DeclaredPluginsTest, OneDeclaredOtherwiseIsRegisteredAnew) {
  ASSERT_EQ(Settle(), "Ok");
  declared_.at("nfs").type = "node";
  EXPECT_EQ(Settle(), "Ok");
  EXPECT_EQ(core_.plugins->Get("nfs")->record.type, "node");
  EXPECT_EQ(core_.plugins->Get("nfs")->instances.size(), 1U);
}

}  // namespace
}  // namespace mountd::csi
