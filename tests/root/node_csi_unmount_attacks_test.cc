// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Unmounts that are felt by others.
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>

#include "tests/root/node_csi_fixture.h"
#include "tests/support/fuse_server.h"
#include "tests/support/naive.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kOther = kAgentUid + 1;

// A plugin whose volumes are directories of one FUSE file system.
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
  // Its plugin binds what is at its id in hex.
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
  // Its path on the host.
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
    // Whose it is, and what, is no business of this user's.
    EXPECT_NE(MessageOf(refused).find("another user's"), std::string::npos);
    EXPECT_EQ(MessageOf(refused).find("db"), std::string::npos);
    EXPECT_TRUE(Answers(own));
    EXPECT_TRUE(Answers(others));
  }
  // What is not mounted in a task, but published, is used.
  ASSERT_EQ(Outcome(other->Unmount("db", "app", "data")), "Ok");
  EXPECT_EQ(Outcome(client_->Unmount("web", "app", "data",
                                     agent::UnmountMode::kAbort)),
            "PermissionDenied");
  EXPECT_EQ(Outcome(other->ReleaseAllocation("db")), "Ok");

  // The same of another allocation of the user's own, which it is told.
  const std::string second = Use(*client_, "cache", "x");
  const auto refused =
      client_->Unmount("web", "app", "data", agent::UnmountMode::kForce);
  EXPECT_EQ(Outcome(refused), "PermissionDenied");
  EXPECT_NE(MessageOf(refused).find("allocation cache"), std::string::npos)
      << MessageOf(refused);
  EXPECT_TRUE(Answers(second));

  // The naive way asks for users of the same volume, and then unmounts.
  ASSERT_EQ(::umount2(own.c_str(), MNT_FORCE), 0) << errno;
  EXPECT_NAIVE(!Answers(second));
  EXPECT_EQ(errno, ENOTCONN);

  // An administrator may, and the log says what was done.
  auto root = agent::Client::Connect();
  ASSERT_TRUE(root) << root.error().Message();
  EXPECT_EQ(Outcome(root->Unmount("cache", "app", "data",
                                  agent::UnmountMode::kAbort)),
            "Ok");
  EXPECT_GE(node_->Told("mode abort"), 1U);
}

// A volume that nobody else has anything of.
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
