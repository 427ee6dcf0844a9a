// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Plugins of mountd.toml under a real systemd, which tests/systemd/boot has
// booted for this program alone.
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <string>

#include "mountd/base/number.h"
#include "tests/support/eventually.h"
#include "tests/support/node/node.h"
#include "tests/support/outcome.h"

namespace mountd::testing {
namespace {

constexpr char kUnit[] = "mountd-plugin-local.service";

constexpr char kConfig[] = R"(
[[rule]]
users = ["agent"]
plugins = ["*"]
register_plugins = ["*"]
administer = true
[timeouts]
probe_starting_ms = 100
)";

std::string Declaration() {
  return std::string("[plugin.local]\ntype = \"node\"\ncommand = [\"") +
         CSI_LOCAL +
         "\", \"--data-dir\", \"/srv/local\", \"--node-id\", \"node-1\", "
         "\"--create-on-stage\"]\n";
}

// Returns a property of the unit, as systemd prints it.
std::string Property(const std::string& name) {
  const std::string command =
      "systemctl show --property=" + name + " --value " + kUnit;
  std::string text;
  std::FILE* const pipe = ::popen(command.c_str(), "re");
  std::array<char, 256> line{};
  while (pipe != nullptr &&
         std::fgets(line.data(), line.size(), pipe) != nullptr) {
    text += line.data();
  }
  if (pipe != nullptr) {
    ::pclose(pipe);
  }
  return text.substr(0, text.find('\n'));
}

// Returns 0 if the unit does not run.
pid_t MainPid() { return ParseNumber<pid_t>(Property("MainPID")).value_or(0); }

class DeclaredPluginsTest : public ::testing::Test {
 protected:
  void SetUp() override {
    // The test uses the whole machine that it runs on.
    ASSERT_NE(std::getenv("MOUNTD_BOOTED"), nullptr)
        << "run it by tests/systemd/boot";
    std::filesystem::create_directories("/srv/local");
    auto node = Node::Start(Declaration() + kConfig);
    ASSERT_TRUE(node) << node.error().Message();
    node_ = *std::move(node);
    Connect();
  }
  void TearDown() override {
    if (HasFailure() && node_) {
      std::cerr << node_->Log();
    }
    client_.reset();
    node_.reset();
  }

  // Ends all of mountd, which starts again with the next call.
  void Restart() {
    Node::KillAll();
    Connect();
  }
  void Connect() {
    auto client = node_->Connect();
    ASSERT_TRUE(client) << client.error().Message();
    client_.emplace(*std::move(client));
  }
  bool AwaitState(const std::string& state) {
    return Eventually([&] {
      const auto plugin = client_->GetPlugin("local");
      return plugin && plugin->state == state;
    });
  }

  std::unique_ptr<Node> node_;
  std::optional<agent::Client> client_;
};

// The steps follow one another, as on a real node, because systemd's units
// outlive mountd.
TEST_F(DeclaredPluginsTest, LiveByTheirDeclaration) {
  ASSERT_TRUE(AwaitState("healthy"));
  EXPECT_EQ(Property("ActiveState"), "active");
  EXPECT_EQ(Property("Slice"), "mountd-plugins.slice");
  EXPECT_EQ(Property("Restart"), "always");
  const pid_t first = MainPid();
  ASSERT_GT(first, 1);

  // A mount that the plugin makes in its unit is visible on the host.
  ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
  agent::VolumeSpec spec;
  spec.alias = "data";
  spec.volume = "v";
  spec.plugin = "local";
  const auto published = client_->PublishVolume("web", spec);
  ASSERT_EQ(MessageOf(published), "Ok");
  EXPECT_EQ(MountPointsUnder(published->host_path).size(), 1U);

  // systemd starts the killed plugin again, and mountd goes on with it.
  ASSERT_EQ(::kill(first, SIGKILL), 0);
  EXPECT_TRUE(Eventually([&] { return MainPid() > 1 && MainPid() != first; }));
  ASSERT_TRUE(AwaitState("healthy"));
  const pid_t second = MainPid();

  // The plugin outlives mountd.
  Restart();
  ASSERT_TRUE(AwaitState("healthy"));
  EXPECT_EQ(MainPid(), second);
  EXPECT_EQ(MessageOf(client_->UnpublishVolume("web", "data")), "Ok");

  // An agent cannot remove a plugin that root has declared.
  EXPECT_EQ(Outcome(client_->UnregisterPlugin("local", {.force = true})),
            "FailedPrecondition");
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("web")), "Ok");

  // The configuration does not declare the plugin any more.
  std::ofstream("/etc/mountd/mountd.toml") << kConfig;
  Restart();
  EXPECT_TRUE(Eventually([&] {
    return Outcome(client_->GetPlugin("local")) == "NotFound" &&
           Property("ActiveState") == "inactive";
  })) << Property("ActiveState");
}

}  // namespace
}  // namespace mountd::testing
