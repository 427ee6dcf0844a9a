// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A running mountd gets another configuration, for its own rules and its
// executors', completely or not at all.
#include <atomic>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "mountd/base/paths.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

constexpr char kFixed[] = R"(
[host_volume.a]
path = "/run/host/a"
)";
constexpr char kAdministrator[] = R"(
[[rule]]
users = ["agent"]
administer = true
)";
constexpr char kRuleForA[] = "host_volumes = [\"a\"]\n";
constexpr char kRuleForB[] = R"(host_volumes = ["b"]
[host_volume.b]
path = "/run/host/b"
)";

class NodeReload : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeHostVolumes();
    StartNode(std::string(kFixed) + kAdministrator + kRuleForA);
    ASSERT_TRUE(client_->PrepareAllocation("web"));
  }
  // Replaces the file in one step, as AcceptConfig does.
  static void WriteConfig(const std::string& text) {
    const std::string next = std::string(paths::kConfig) + ".new";
    std::ofstream(next) << text;
    std::filesystem::permissions(next, std::filesystem::perms(0644));
    std::filesystem::rename(next, paths::kConfig);
  }
  std::string Mount(const std::string& volume, const std::string& name) {
    return Outcome(client_->BindMount("web", HostVolumeSpec(name, volume)));
  }
};

TEST_F(NodeReload, OnTheSameConnectionTheNewRulesHold) {
  ASSERT_EQ(Mount("a", "first"), "Ok");
  ASSERT_EQ(Mount("b", "other"), "NotFound");
  WriteConfig(std::string(kAdministrator) + kRuleForB);
  EXPECT_EQ(Mount("b", "other"), "NotFound") << "nobody has asked for it";
  const auto reloaded = client_->Reload();
  ASSERT_TRUE(reloaded) << reloaded.error().Message();
  EXPECT_TRUE(reloaded->empty());
  EXPECT_EQ(Mount("b", "other"), "Ok");
  EXPECT_EQ(Mount("a", "second"), "NotFound");
  // A mount of a volume that is no longer declared still belongs to its owner.
  EXPECT_EQ(Outcome(client_->Unmount("web", "app", "first")), "Ok");
  EXPECT_EQ(Outcome(client_->ReleaseAllocation("web")), "Ok");
}

TEST_F(NodeReload, ABrokenOneIsRefusedAndTheOldOneStays) {
  WriteConfig(std::string(kFixed) + kAdministrator + "host_volumes = 3\n");
  const auto refused = client_->Reload();
  EXPECT_EQ(Outcome(refused), "InvalidArgument");
  EXPECT_NE(MessageOf(refused).find(paths::kConfig), std::string::npos)
      << MessageOf(refused);
  // The executors that run carry this out. An executor that starts now would
  // read the broken file, which AcceptConfig prevents.
  EXPECT_EQ(Mount("a", "first"), "Ok");
}

TEST_F(NodeReload, ForASectionThatIsForLifeItStartsAgain) {
  ASSERT_EQ(Mount("a", "first"), "Ok");
  WriteConfig(std::string(kFixed) + kAdministrator + kRuleForB +
              "[limits]\nmounts_per_allocation = 1\n");
  const auto reloaded = client_->Reload();
  ASSERT_TRUE(reloaded) << reloaded.error().Message();
  EXPECT_EQ(*reloaded, std::vector<std::string>{"limits"});
  ASSERT_TRUE(Eventually([&] {
    auto client = node_->Connect();
    if (!client || !client->GetAllocation("web")) {
      return false;
    }
    client_.emplace(*std::move(client));
    return Mount("b", "other") == "ResourceExhausted";
  }));
  EXPECT_EQ(Outcome(client_->Unmount("web", "app", "first")), "Ok");
  EXPECT_EQ(Mount("b", "other"), "Ok");
}

TEST_F(NodeReload, NoCallFailsThatBothConfigurationsAllow) {
  const std::string one =
      std::string(kFixed) + kAdministrator + "host_volumes = [\"a\", \"b\"]\n";
  const std::string other = one + "[host_volume.b]\npath = \"/run/host/b\"\n";
  std::atomic<bool> stop = false;
  std::string failed;
  int rounds = 0;
  auto mounter = node_->Connect();
  ASSERT_TRUE(mounter);
  std::thread mounting([&] {
    const agent::BindMountSpec spec = HostVolumeSpec("data", "a");
    for (; !stop && failed.empty(); ++rounds) {
      if (const auto mounted = mounter->BindMount("web", spec); !mounted) {
        failed = MessageOf(mounted);
      } else if (const auto gone = mounter->Unmount("web", "app", "data");
                 !gone) {
        failed = MessageOf(gone);
      }
    }
  });
  constexpr int kReloads = 20;
  for (int i = 0; i < kReloads; ++i) {
    WriteConfig(i % 2 == 0 ? other : one);
    EXPECT_EQ(Outcome(client_->Reload()), "Ok");
    EXPECT_EQ(Mount("b", "b" + std::to_string(i)),
              i % 2 == 0 ? "Ok" : "NotFound");
  }
  stop = true;
  mounting.join();
  EXPECT_EQ(failed, "");
  EXPECT_GT(rounds, 0);
}

}  // namespace
}  // namespace mountd::testing
