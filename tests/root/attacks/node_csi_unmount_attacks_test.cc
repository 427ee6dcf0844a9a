// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Unmounts that would affect other users.
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/root/node/node_csi_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = kAgentUid + 1;

// Owns a plugin whose volumes are directories of one FUSE file system.
class UnmountModeAttacks : public NodeCsi {
 protected:
  void SetUp() override {
    for (std::size_t at = config_.find("\"agent\""); at != std::string::npos;
         at = config_.find("\"agent\"", at + 1)) {
      config_.replace(at, 7, "\"agent\", \"" + std::to_string(kOther) + "\"");
    }
    NodeCsi::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    fs::create_directories(kServed);
    server_ = std::make_unique<FuseServer>(kServed);
    if (!server_->valid()) {
      GTEST_SKIP() << "FUSE: errno " << errno;
    }
    PutVolume("v", "/dir");
    PutVolume("w", "/dir/inner");
    PutVolume("x", "/dir");
  }
  void TearDown() override {
    server_.reset();
    NodeCsi::TearDown();
  }
  // Binds a directory at the volume's id in hex, which the plugin then
  // publishes.
  static void PutVolume(const std::string& id, const std::string& part) {
    constexpr char kHex[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(id[0]);
    const std::string data =
        std::string(kFaults) + "/data/" + kHex[byte >> 4U] + kHex[byte & 0xFU];
    fs::create_directories(data);
    ASSERT_EQ(::mount((kServed + part).c_str(), data.c_str(), nullptr, MS_BIND,
                      nullptr),
              0);
  }
  // Publishes and mounts the volume. Returns its path on the host.
  static std::string Use(agent::Client& client, const std::string& allocation,
                         const std::string& volume) {
    EXPECT_EQ(Outcome(client.PrepareAllocation(allocation)), "Ok");
    EXPECT_EQ(MessageOf(client.PublishVolume(allocation, Volume(volume))),
              "Ok");
    agent::BindMountSpec spec;
    spec.task = "app";
    spec.name = "data";
    spec.source_type = agent::SourceType::kVolume;
    spec.source = "data";
    const auto mount = client.BindMount(allocation, spec);
    EXPECT_EQ(MessageOf(mount), "Ok");
    return mount ? mount->host_path : "";
  }
  static bool Answers(const std::string& path) {
    struct stat file {};
    return ::stat((path + "/.").c_str(), &file) == 0;
  }

  static inline const std::string kServed = "/run/host/served";
  std::unique_ptr<FuseServer> server_;
};

TEST_F(UnmountModeAttacks, AnotherUsersVolumeOfTheSameServerIsNotFelled) {
  auto other = node_->ConnectAs(kOther);
  ASSERT_TRUE(other) << other.error().Message();
  const std::string own = Use(*client_, "web", "v");
  const std::string others = Use(*other, "db", "w");
  ASSERT_TRUE(Answers(own));
  ASSERT_TRUE(Answers(others));
  for (const auto& [mode, name] :
       {std::pair(agent::UnmountMode::kForce, "force"),
        std::pair(agent::UnmountMode::kAbort, "abort")}) {
    SCOPED_TRACE(name);
    const auto refused = client_->Unmount("web", "app", "data", mode);
    EXPECT_EQ(Outcome(refused), "PermissionDenied");
    EXPECT_NE(MessageOf(refused).find(std::string("mode ") + name),
              std::string::npos)
        << MessageOf(refused);
    // The error must not name the other user or the object.
    EXPECT_NE(MessageOf(refused).find("another user's"), std::string::npos);
    EXPECT_EQ(MessageOf(refused).find("db"), std::string::npos);
    EXPECT_TRUE(Answers(own));
    EXPECT_TRUE(Answers(others));
  }
  // A volume that is published but not mounted in a task is in use, too.
  ASSERT_EQ(Outcome(other->Unmount("db", "app", "data")), "Ok");
  EXPECT_EQ(Outcome(client_->Unmount("web", "app", "data",
                                     agent::UnmountMode::kAbort)),
            "PermissionDenied");
  EXPECT_EQ(Outcome(other->ReleaseAllocation("db")), "Ok");

  // The other allocation belongs to the same user, so the error names it.
  const std::string second = Use(*client_, "cache", "x");
  const auto refused =
      client_->Unmount("web", "app", "data", agent::UnmountMode::kForce);
  EXPECT_EQ(Outcome(refused), "PermissionDenied");
  EXPECT_NE(MessageOf(refused).find("allocation cache"), std::string::npos)
      << MessageOf(refused);
  EXPECT_TRUE(Answers(second));

  // The naive way looks for users of the same volume, and then unmounts.
  ASSERT_EQ(::umount2(own.c_str(), MNT_FORCE), 0) << errno;
  EXPECT_NAIVE(!Answers(second));
  EXPECT_EQ(errno, ENOTCONN);

  // An administrator may do it, and the log records what was done.
  auto root = agent::Client::Connect();
  ASSERT_TRUE(root) << root.error().Message();
  EXPECT_EQ(Outcome(root->Unmount("cache", "app", "data",
                                  agent::UnmountMode::kAbort)),
            "Ok");
  EXPECT_GE(node_->Told("mode abort"), 1U);
}

// No other user has anything of this volume.
TEST_F(UnmountModeAttacks, AUserAloneMayForce) {
  const std::string own = Use(*client_, "web", "v");
  ASSERT_TRUE(Answers(own));
  EXPECT_EQ(Outcome(client_->Unmount("web", "app", "data",
                                     agent::UnmountMode::kForce)),
            "Ok");
  EXPECT_GE(node_->Told("mode force"), 1U);
}

}  // namespace
}  // namespace mountd::testing
