// SPDX-License-Identifier: LGPL-2.1-or-later
//
// An NFS server that is gone, under a hard mount, through a whole mountd.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/node/node.h"
#include "tests/support/outcome.h"
#include "tests/support/private_namespaces.h"
#include "tests/support/servers/nfs_server.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using agent::Propagation;
using agent::SourceType;
using agent::UnmountMode;
using std::chrono::milliseconds;

constexpr char kTasks[] = "/run/mountd/base/a";
constexpr char kFilesystem[] = "/run/mountd/base/f/nfs/fs";
constexpr char kTarget[] = "/run/mountd/base/a/web/app/nfs";

// The client caches nothing, so every path asks the server.
constexpr char kConfig[] = R"(
[filesystem.nfs]
type = "nfs4"
source = "192.0.2.2:/"
options = ["vers=4.2", "hard", "noac", "timeo=10"]
propagation = ["private", "host-to-task", "bidirectional"]
[host_volume.good]
path = "/run/host/good"
[host_volume.dir]
path = "/run/host/nfs/dir"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
filesystems = ["nfs"]
bidirectional = true
[timeouts]
plan_ms = 5000
probe_mounts_ms = 200
probe_answer_ms = 2000
)";

class Nfs : public PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    if (const std::string missing = NfsServer::Missing(); !missing.empty()) {
      GTEST_SKIP() << missing << ": ./test --only nfs runs this test";
    }
    server_.emplace();
    ASSERT_TRUE(server_->valid());
    fs::create_directories("/run/host/good");
    auto node = Node::Start(kConfig);
    ASSERT_TRUE(node) << node.error().Message();
    node_ = *std::move(node);
    for (const char* allocation : {"web", "other"}) {
      clients_.push_back(Client());
      ASSERT_EQ(Outcome(clients_.back().PrepareAllocation(allocation)), "Ok");
    }
  }
  void TearDown() override {
    if (server_) {
      server_->Restore();
    }
    if (node_ && HasFailure()) {
      std::cerr << node_->Log();
    }
    node_.reset();
    // The mounts go before their server, because an unmount at the namespace's
    // end would wait for a server that is gone.
    if (server_) {
      for (const std::string& place :
           {std::string(kTarget) + "/dir", std::string(kTarget),
            std::string(kFilesystem) + "/dir", std::string(kFilesystem),
            std::string("/run/host/nfs")}) {
        ::umount2(place.c_str(), 0);
      }
    }
    server_.reset();
    PrivateNamespaces::TearDown();
  }

  agent::Client Client() {
    auto client = node_->Connect();
    EXPECT_TRUE(client) << client.error().Message();
    return *std::move(client);
  }
  agent::Client& Web() { return clients_[0]; }
  agent::Client& Other() { return clients_[1]; }

  std::string BindNfs(Propagation propagation = Propagation::kPrivate) {
    const auto bound =
        Web().BindMount("web", {.task = "app",
                                .name = "nfs",
                                .source_type = SourceType::kFilesystem,
                                .source = "nfs",
                                .propagation = propagation});
    return bound ? "Ok" : bound.error().Message();
  }
  std::string BindVolume(agent::Client& client, const std::string& allocation,
                         const std::string& volume) {
    return Outcome(
        client.BindMount(allocation, {.task = "app",
                                      .name = volume,
                                      .source_type = SourceType::kHostVolume,
                                      .source = volume}));
  }
  std::string UnmountNfs(UnmountMode mode = UnmountMode::kPlain) {
    return Outcome(Web().Unmount("web", "app", "nfs", mode));
  }
  // Makes another caller's calls meanwhile. Returns their outcome.
  std::string UseAnother() {
    const std::string outcome = BindVolume(Other(), "other", "good");
    return outcome == "Ok" ? Outcome(Other().Unmount("other", "app", "good"))
                           : outcome;
  }
  // Repeats UseAnother until `stuck` has ended. Returns how often.
  template <typename T>
  int UseAnotherDuring(std::future<T>* stuck) {
    int done = 0;
    while (stuck->wait_for(milliseconds(0)) != std::future_status::ready) {
      EXPECT_EQ(UseAnother(), "Ok");
      ++done;
    }
    return done;
  }
  bool BecomesHealth(const std::string& health) {
    return Eventually([&] {
      const auto status = Web().GetAllocation("web");
      return status && status->mounts.at(0).health == health;
    });
  }
  bool NothingIsLeft() {
    return Eventually([&] {
      const auto owed = Web().RetryOwed();
      return owed && *owed == 0 && MountPointsUnder(kTasks).empty() &&
             MountPointsUnder(kFilesystem).empty();
    });
  }

  std::optional<NfsServer> server_;
  std::unique_ptr<Node> node_;
  std::vector<agent::Client> clients_;
};

TEST_F(Nfs, IsMountedForItsUsersAndGoesWithTheLast) {
  for (const Propagation propagation :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    ASSERT_EQ(BindNfs(propagation), "Ok");
    EXPECT_TRUE(fs::exists(std::string(kTarget) + "/mark"));
    std::ofstream(std::string(kTarget) + "/written") << "content";
    EXPECT_EQ(fs::file_size(std::string(kFilesystem) + "/written"), 7U);
    EXPECT_TRUE(BecomesHealth("healthy"));
    EXPECT_TRUE(Eventually([&] { return UnmountNfs() == "Ok"; }));
    EXPECT_TRUE(NothingIsLeft());
  }
}

TEST_F(Nfs, OthersGoOnWhileItsServerIsGone) {
  fs::create_directories("/run/host/nfs");
  ASSERT_EQ(::system("mount -t nfs4 -o vers=4.2,hard,noac,timeo=10 "
                     "192.0.2.2:/ /run/host/nfs"),
            0);
  ASSERT_EQ(BindNfs(), "Ok");
  ASSERT_TRUE(server_->Cut());
  EXPECT_TRUE(BecomesHealth("hung"));
  auto stuck = std::async(std::launch::async,
                          [this] { return BindVolume(Web(), "web", "dir"); });
  EXPECT_GT(UseAnotherDuring(&stuck), 3);
  EXPECT_EQ(stuck.get(), "DeadlineExceeded");
  EXPECT_EQ(UseAnother(), "Ok");
  ASSERT_TRUE(server_->Restore());
  EXPECT_TRUE(BecomesHealth("healthy"));
  EXPECT_TRUE(
      Eventually([&] { return BindVolume(Web(), "web", "dir") == "Ok"; }));
  EXPECT_EQ(Outcome(Web().Unmount("web", "app", "dir")), "Ok");
  EXPECT_TRUE(Eventually([&] { return UnmountNfs() == "Ok"; }));
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(Nfs, AnUnmountThatHangsIsOwedUntilTheServerIsBack) {
  ASSERT_EQ(BindNfs(Propagation::kHostToTask), "Ok");
  // The mount below can only be reached by asking the server.
  const std::string inside = std::string(kFilesystem) + "/dir";
  ASSERT_EQ(::mount("tmpfs", inside.c_str(), "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(MountPointsUnder(kTasks).size(), 2U);
  ASSERT_TRUE(server_->Cut());
  auto stuck = std::async(std::launch::async, [this] { return UnmountNfs(); });
  EXPECT_GT(UseAnotherDuring(&stuck), 3);
  EXPECT_EQ(stuck.get(), "DeadlineExceeded");
  const auto owed = Web().ListOwed();
  ASSERT_TRUE(owed);
  ASSERT_EQ(owed->size(), 1U);
  EXPECT_EQ(owed->front().object, "web/app/nfs");
  EXPECT_EQ(UseAnother(), "Ok");
  ASSERT_TRUE(server_->Restore());
  ASSERT_TRUE(Eventually([&] { return MountPointsUnder(kTasks).empty(); }));
  EXPECT_EQ(MountPointsUnder(inside).size(), 1U) << "the host's own stays";
  ASSERT_EQ(::umount2(inside.c_str(), 0), 0);
  EXPECT_TRUE(NothingIsLeft());
}

TEST_F(Nfs, AMountThatIsWaitedInGoesByForceWithoutItsServer) {
  ASSERT_EQ(BindNfs(), "Ok");
  ASSERT_TRUE(server_->Cut());
  const std::string file = std::string(kTarget) + "/mark";
  const pid_t waiting = ::fork();
  if (waiting == 0) {
    struct stat st = {};
    ::_exit(::stat(file.c_str(), &st) == 0 ? 0 : 1);
  }
  ASSERT_TRUE(Eventually([&] {
    std::string where;
    std::ifstream("/proc/" + std::to_string(waiting) + "/wchan") >> where;
    return where.find("rpc") != std::string::npos;
  }));
  EXPECT_EQ(UnmountNfs(), "Busy");
  // Forcing the unmount affects all users of the file system.
  EXPECT_EQ(UnmountNfs(UnmountMode::kForce), "PermissionDenied");
  auto root = agent::Client::Connect();
  ASSERT_TRUE(root) << root.error().Message();
  // A process that waited may ask once more before it gets its error.
  EXPECT_TRUE(Eventually([&] {
    return root->Unmount("web", "app", "nfs", UnmountMode::kForce).has_value();
  }));
  int status = 0;
  ::waitpid(waiting, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 1);
  EXPECT_EQ(MountPointsUnder(kTasks).size(), 0U);
  EXPECT_EQ(UseAnother(), "Ok");
  ASSERT_TRUE(server_->Restore());
  EXPECT_TRUE(NothingIsLeft());
}

}  // namespace
}  // namespace mountd::testing
