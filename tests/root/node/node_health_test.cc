// SPDX-License-Identifier: LGPL-2.1-or-later
//
//
// Mounts that go, and file systems that stop answering: a whole mountd notifies
// an agent of them. Trees of files that mountd removes for the agent.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "agent/subscriber.h"
#include "tests/support/node/node.h"
#include "tests/support/private_namespaces.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = R"(
[host_volume.good]
path = "/run/host/good"
[host_volume.fuse]
path = "/run/host/fuse"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
alloc_roots = ["/run/host/alloc"]
ids = ["100000-165535"]
[timeouts]
probe_mounts_ms = 50
probe_answer_ms = 200
)";

template <typename T>
std::string Outcome(const Result<T>& result) {
  return result ? "Ok" : std::string(CodeName(result.error().code));
}

// Records the signals that the subscriber got. Thread-safe.
class Told {
 public:
  void Add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.insert(line);
    came_.notify_all();
  }
  bool Await(const std::string& line) {
    std::unique_lock lock(mutex_);
    return came_.wait_for(lock, std::chrono::seconds(60),
                          [&] { return lines_.contains(line); });
  }
  bool Has(const std::string& line) {
    const std::lock_guard lock(mutex_);
    return lines_.contains(line);
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::set<std::string> lines_;
};

class NodeHealth : public PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* path :
         {"/run/host/good", "/run/host/fuse", "/run/host/alloc/web"}) {
      fs::create_directories(path);
    }
    server_ = std::make_unique<FuseServer>("/run/host/fuse");
    ASSERT_TRUE(server_->valid());
    auto node = Node::Start(kConfig);
    ASSERT_TRUE(node) << node.error().Message();
    node_ = *std::move(node);
    auto client = node_->Connect();
    ASSERT_TRUE(client) << client.error().Message();
    client_.emplace(*std::move(client));
    ASSERT_EQ(Outcome(client_->PrepareAllocation("web")), "Ok");
    Subscribe();
  }
  void TearDown() override {
    subscriber_.reset();
    server_.reset();
    if (node_ && HasFailure()) {
      std::cerr << node_->Log();
    }
    node_.reset();
    PrivateNamespaces::TearDown();
  }

  // Subscribes as the agent, whom the signals are for.
  void Subscribe() {
    agent::SignalHandlers handlers;
    handlers.mount_lost = [this](const auto& mount, const auto& reason) {
      told_.Add(mount.name + " lost: " + reason);
    };
    handlers.mount_health = [this](const auto& mount, const auto& state,
                                   const auto& /*reason*/) {
      told_.Add(mount.name + " " + state);
    };
    std::optional<Result<agent::Subscriber>> started;
    std::thread([&] {
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
      started = agent::Subscriber::Start({}, std::move(handlers));
    }).join();
    ASSERT_TRUE(*started) << started->error().Message();
    subscriber_.emplace(**std::move(started));
  }
  void Bind(const std::string& volume) {
    ASSERT_EQ(Outcome(client_->BindMount(
                  "web", {.task = "app",
                          .name = volume,
                          .source_type = agent::SourceType::kHostVolume,
                          .source = volume})),
              "Ok");
  }
  agent::MountStatus StatusOf(const std::string& name) {
    const auto status = client_->GetAllocation("web");
    if (status) {
      for (const agent::MountStatus& mount : status->mounts) {
        if (mount.name == name) {
          return mount;
        }
      }
    }
    ADD_FAILURE() << "no mount " << name;
    return {};
  }

  std::unique_ptr<FuseServer> server_;
  std::unique_ptr<Node> node_;
  std::optional<agent::Client> client_;
  Told told_;
  std::optional<agent::Subscriber> subscriber_;
};

TEST_F(NodeHealth, AMountThatOthersTakeAwayIsLost) {
  Bind("good");
  ASSERT_EQ(::umount2("/run/mountd/base/a/web/app/good", 0), 0);
  EXPECT_TRUE(told_.Await("good lost: no mount is there"));
  EXPECT_EQ(StatusOf("good").state, "lost");
  // The contract says that the same call mounts it again.
  Bind("good");
  EXPECT_EQ(StatusOf("good").state, "attached");
  // mountd reports no loss of a mount that it has unmounted itself.
  ASSERT_EQ(Outcome(client_->Unmount("web", "app", "good")), "Ok");
  Bind("good");
  ASSERT_EQ(
      ::mount("tmpfs", "/run/mountd/base/a/web/app/good", "tmpfs", 0, nullptr),
      0);
  ASSERT_EQ(::umount2("/run/mountd/base/a/web/app/good", 0), 0);
  EXPECT_EQ(StatusOf("good").state, "attached");
}

TEST_F(NodeHealth, AFileSystemThatHangsOrDiesIsTold) {
  Bind("fuse");
  Bind("good");
  server_->Hang();
  EXPECT_TRUE(told_.Await("fuse hung"));
  EXPECT_EQ(StatusOf("fuse").health, "hung");
  server_->GoOn();
  EXPECT_TRUE(told_.Await("fuse healthy"));
  server_->Die();
  EXPECT_TRUE(told_.Await("fuse dead"));
  EXPECT_EQ(StatusOf("fuse").health, "dead");
  EXPECT_EQ(StatusOf("good").health, "healthy");
  EXPECT_FALSE(told_.Has("good hung") || told_.Has("good dead"));
}

// Tasks have left files of other users, which the agent cannot remove.
TEST_F(NodeHealth, ATreeOfOthersFilesIsRemovedForTheAgent) {
  const std::string web = "/run/host/alloc/web";
  for (const char* path : {"/task/local", "/task/secrets"}) {
    fs::create_directories(web + path);
    std::ofstream(web + path + "/file") << "x";
    ASSERT_EQ(::chown((web + path).c_str(), 100000, 100000), 0);
    ASSERT_EQ(::chmod((web + path).c_str(), 0), 0);
  }
  ASSERT_EQ(::chown(web.c_str(), kAgentUid, kAgentUid), 0);
  const UniqueFd directory(
      ::open(web.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  const auto given = client_->ChownTree(directory.get(), 100001, 100001);
  ASSERT_TRUE(given) << given.error().Message();
  EXPECT_EQ(given->done, 2U);
  EXPECT_EQ(given->left, 3U);  // root owns the task's directory and its files
  const auto removed = client_->RemoveTree(directory.get());
  ASSERT_TRUE(removed) << removed.error().Message();
  EXPECT_EQ(removed->done, 5U);
  EXPECT_TRUE(fs::is_empty(web));
  const UniqueFd other(
      ::open("/run/host/good", O_PATH | O_DIRECTORY | O_CLOEXEC));
  EXPECT_EQ(Outcome(client_->RemoveTree(other.get())), "PermissionDenied");
}

}  // namespace
}  // namespace mountd::testing
