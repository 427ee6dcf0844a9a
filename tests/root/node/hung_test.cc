// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Volumes on file systems whose servers do not answer, through a whole mountd:
// which calls wait, how long, and what is left.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/paths.h"
#include "tests/support/eventually.h"
#include "tests/support/naive.h"
#include "tests/support/node/node.h"
#include "tests/support/outcome.h"
#include "tests/support/private_namespaces.h"
#include "tests/support/raw_socket.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using agent::Propagation;
using std::chrono::milliseconds;

// The number exceeds the number of executors (limits.mount_executors).
constexpr int kServers = 6;

constexpr char kConfig[] = R"(
[host_volume.good]
path = "/run/host/good"
propagation = ["private", "host-to-task", "bidirectional"]
[host_volume.root0]
path = "/run/host/fuse0"
propagation = ["private", "host-to-task", "bidirectional"]
[[rule]]
users = ["agent"]
host_volumes = ["good", "root0", "dir0", "dir1", "dir2", "dir3", "dir4", "dir5"]
bidirectional = true
[timeouts]
)";

std::string At(int server) { return "/run/host/fuse" + std::to_string(server); }
std::string DirectoryIn(int server) { return "dir" + std::to_string(server); }

// Declares a directory of each file system as a volume.
std::string Config() {
  std::string text = kConfig;
  // All plans must be stuck before mountd gives up the first, which takes
  // longer in an emulated machine.
  text += std::getenv("MOUNTD_VM") != nullptr ? "plan_ms = 10000\n"
                                              : "plan_ms = 1000\n";
  for (int i = 0; i < kServers; ++i) {
    text +=
        "[host_volume." + DirectoryIn(i) + "]\npath = \"" + At(i) + "/dir\"\n";
  }
  return text;
}

void MountShared(const std::string& path, const std::function<bool()>& mount) {
  fs::create_directories(path);
  ASSERT_TRUE(mount()) << path << " " << errno;
  ASSERT_EQ(::mount(nullptr, path.c_str(), nullptr, MS_SHARED, nullptr), 0);
}

bool MountTmpfs(const std::string& path) {
  return ::mount("tmpfs", path.c_str(), "tmpfs", 0, nullptr) == 0;
}

std::string FirstLine(const fs::path& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

// Returns the number of executors in this mount namespace that wait for a FUSE
// server.
int StuckExecutors() {
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/ns/mnt");
  int stuck = 0;
  for (const auto& process : fs::directory_iterator("/proc", ignored)) {
    const fs::path& path = process.path();
    if (FirstLine(path / "comm") == "mountd-exec" &&
        fs::read_symlink(path / "ns/mnt", ignored) == own &&
        FirstLine(path / "wchan").find("request_wait_answer") !=
            std::string::npos) {
      ++stuck;
    }
  }
  return stuck;
}

class Hung : public PrivateNamespaces {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    MountShared("/run/host/good", [] { return MountTmpfs("/run/host/good"); });
    for (int i = 0; i < kServers; ++i) {
      MountShared(At(i), [&] {
        servers_.push_back(std::make_unique<FuseServer>(At(i)));
        return servers_.back()->valid();
      });
    }
    auto node = Node::Start(Config());
    ASSERT_TRUE(node) << node.error().Message();
    node_ = *std::move(node);
    for (int i = 0; i <= kServers; ++i) {
      clients_.push_back(Client());
      ASSERT_EQ(Outcome(clients_.back().PrepareAllocation(Allocation(i))),
                "Ok");
    }
  }
  void TearDown() override {
    servers_.clear();
    if (node_ && HasFailure()) {
      std::cerr << node_->Log();
    }
    node_.reset();
    PrivateNamespaces::TearDown();
  }

  agent::Client Client() {
    auto client = node_->Connect();
    EXPECT_TRUE(client) << client.error().Message();
    return *std::move(client);
  }
  // Kills mountd, and connects all clients again, as the agent.
  void KillMountd() {
    Node::Kill(Node::Processes("mountd"));
    for (agent::Client& client : clients_) {
      client = Client();
    }
  }
  void HangAll() {
    for (const auto& server : servers_) {
      server->Hang();
    }
  }
  static std::string Allocation(int i) { return "web" + std::to_string(i); }
  // True if a naive daemon, which asks the file system by a path, waits for its
  // server. The child that asks ends with the server.
  static bool NaiveWaits(int server) {
    return AwaitWaiting(StatInChild(At(server) + "/dir"));
  }

  // Binds with a client and an allocation of its own.
  std::string Bind(int i, const std::string& volume,
                   Propagation propagation = Propagation::kPrivate) {
    return Outcome(
        clients_.at(static_cast<std::size_t>(i))
            .BindMount(Allocation(i),
                       {.task = "app",
                        .name = volume,
                        .source_type = agent::SourceType::kHostVolume,
                        .source = volume,
                        .propagation = propagation}));
  }
  std::string Unmount(int i, const std::string& volume) {
    return Outcome(clients_.at(static_cast<std::size_t>(i))
                       .Unmount(Allocation(i), "app", volume));
  }

  std::vector<std::unique_ptr<FuseServer>> servers_;
  std::unique_ptr<Node> node_;
  std::vector<agent::Client> clients_;
};

TEST_F(Hung, TheRootOfAFileSystemIsMountedWithoutItsServer) {
  servers_[0]->Hang();
  EXPECT_NAIVE(NaiveWaits(0));
  for (const Propagation propagation :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    EXPECT_EQ(Bind(0, "root0", propagation), "Ok");
    EXPECT_EQ(Unmount(0, "root0"), "Ok");
  }
  EXPECT_EQ(StuckExecutors(), 0);
}

TEST_F(Hung, OthersGoOnWhileMoreHangThanThereAreExecutors) {
  HangAll();
  EXPECT_NAIVE(NaiveWaits(0));
  std::vector<std::future<std::string>> hung;
  for (int i = 0; i < kServers; ++i) {
    hung.push_back(std::async(std::launch::async,
                              [this, i] { return Bind(i, DirectoryIn(i)); }));
  }
  ASSERT_TRUE(Eventually([] { return StuckExecutors() == kServers; }));
  int done = 0;
  while (hung.front().wait_for(milliseconds(0)) != std::future_status::ready) {
    ASSERT_EQ(Bind(kServers, "good", Propagation::kHostToTask), "Ok");
    ASSERT_EQ(Unmount(kServers, "good"), "Ok");
    ++done;
  }
  EXPECT_GT(done, 10);
  for (auto& one : hung) {
    EXPECT_EQ(one.get(), "DeadlineExceeded");
  }
  const auto stuck = [&] {
    const auto capabilities = clients_.back().GetCapabilities();
    return capabilities ? capabilities->stuck_executors : ~0U;
  };
  EXPECT_EQ(stuck(), static_cast<std::uint32_t>(kServers));
  // While its executor is stuck, a volume gets no other executor.
  EXPECT_EQ(Bind(0, DirectoryIn(0)), "Unavailable");
  EXPECT_EQ(Bind(kServers, "good"), "Ok");
  EXPECT_EQ(Unmount(kServers, "good"), "Ok");
  // The executors end although no server ever answers.
  EXPECT_TRUE(Eventually([] { return StuckExecutors() == 0; }));
  EXPECT_TRUE(Eventually([&] { return stuck() == 0; }));
  for (int i = 0; i < kServers; ++i) {
    servers_[static_cast<std::size_t>(i)]->GoOn();
    EXPECT_TRUE(Eventually([&] { return Bind(i, DirectoryIn(i)) == "Ok"; }));
    EXPECT_EQ(Unmount(i, DirectoryIn(i)), "Ok");
    EXPECT_TRUE(
        Eventually([&] { return MountPointsUnder(At(i) + "/dir").empty(); }));
  }
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 0U);
}

TEST_F(Hung, ATearDownIsOwedAndDoneWhenTheServerHasDied) {
  ASSERT_EQ(Bind(0, "root0", Propagation::kHostToTask), "Ok");
  // The mount below can only be reached by asking the server.
  ASSERT_TRUE(MountTmpfs(At(0) + "/dir"));
  ASSERT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 2U);
  servers_[0]->Hang();
  EXPECT_NAIVE(NaiveWaits(0));
  EXPECT_EQ(Outcome(clients_[0].ReleaseAllocation(Allocation(0))),
            "DeadlineExceeded");
  const auto owed = clients_[0].ListOwed();
  ASSERT_TRUE(owed && owed->size() == 1U);
  EXPECT_EQ(owed->front().object, Allocation(0));
  EXPECT_EQ(Outcome(clients_[1].ReleaseAllocation(Allocation(1))), "Ok");
  servers_[0]->Die();
  EXPECT_TRUE(Eventually([&] {
    const auto left = clients_[0].RetryOwed();
    return left && *left == 0;
  }));
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 0U);
  EXPECT_EQ(MountPointsUnder(At(0) + "/dir").size(), 1U)
      << "the host's own stays";
}

// Does in a child what a naive daemon does with an fd. Returns the child's pid.
pid_t InChild(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::_exit(body());
  }
  return child;
}

// A caller may itself be the server of its fd's file system. A thread that asks
// such a file system waits, and must not be the one that serves everybody.
TEST_F(Hung, AnFdOfAFileSystemThatDoesNotAnswerHoldsNobodyUp) {
  const UniqueFd directory(
      ::open((At(0) + "/dir").c_str(), O_PATH | O_CLOEXEC));
  ASSERT_TRUE(directory.valid());
  servers_[0]->Hang();
  const pid_t naive = InChild([&] {
    struct stat file = {};
    return ::fstat(directory.get(), &file);
  });
  EXPECT_NAIVE(AwaitWaiting(naive));
  std::vector<std::future<std::string>> calls;
  const auto call = [&](auto verb) {
    calls.push_back(std::async(std::launch::async, [this, verb] {
      agent::Client client = Client();
      return verb(client);
    }));
  };
  const int fd = directory.get();
  call([fd](agent::Client& client) {
    return Outcome(client.PrepareAllocation("new", {.cgroup = fd}));
  });
  call([fd](agent::Client& client) {
    return Outcome(client.VerifyTask(Allocation(0), "app", fd));
  });
  call([fd](agent::Client& client) { return Outcome(client.RemoveTree(fd)); });
  call([fd](agent::Client& client) {
    return Outcome(client.BindMount(
        Allocation(0), {.task = "app",
                        .name = "good",
                        .source_type = agent::SourceType::kHostVolume,
                        .source = "good",
                        .directory = fd}));
  });
  for (auto& one : calls) {
    const std::string outcome = one.get();
    EXPECT_TRUE(outcome == "InvalidArgument" || outcome == "PermissionDenied" ||
                outcome == "FailedPrecondition")
        << outcome;
  }
  EXPECT_EQ(Bind(kServers, "good"), "Ok");
  EXPECT_EQ(Unmount(kServers, "good"), "Ok");
  servers_[0]->GoOn();
  EXPECT_EQ(ExitOf(naive), 0);
}

// A process that closes an open FUSE file waits unkillably for its server. Any
// message can bring such a file, even to a method without fds.
TEST_F(Hung, AnOpenFileThatItsServerDoesNotLetCloseHoldsNobodyUp) {
  const UniqueFd file(::open((At(0) + "/file").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(file.valid());
  servers_[0]->Hang();
  const pid_t naive = InChild([&] { return ::close(file.get()); });
  EXPECT_NAIVE(AwaitWaiting(naive));
  // mountd takes root's fds as they are, so the connection is the agent's.
  ASSERT_EQ(::seteuid(kAgentUid), 0);
  test::RawSocket raw{std::string(paths::kBusSocket)};
  ASSERT_EQ(::seteuid(0), 0);
  ASSERT_TRUE(raw.Write(test::kHandshake));
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(raw.ReadLine());
  }
  for (std::uint32_t serial = 1; serial <= 40; ++serial) {
    ASSERT_TRUE(
        raw.WriteWithFd(test::MarshalIntrospectWithFd(serial), file.get()));
    ASSERT_TRUE(raw.ReadMessage());
  }
  EXPECT_EQ(Bind(kServers, "good"), "Ok");
  EXPECT_EQ(Unmount(kServers, "good"), "Ok");
  servers_[0]->GoOn();
  EXPECT_EQ(ExitOf(naive), 0);
}

TEST_F(Hung, AnAnchorThatCannotGoGoesWhenTheServerAnswersAgain) {
  ASSERT_EQ(Bind(0, DirectoryIn(0)), "Ok");
  ASSERT_EQ(MountPointsUnder(At(0) + "/dir").size(), 1U);
  servers_[0]->Hang();
  EXPECT_NAIVE(NaiveWaits(0));
  EXPECT_EQ(Unmount(0, DirectoryIn(0)), "Ok");
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 0U);
  EXPECT_EQ(MountPointsUnder(At(0) + "/dir").size(), 1U);
  // No executor is in the kernel any more that could remove the anchor later.
  EXPECT_TRUE(Eventually([] { return StuckExecutors() == 0; }));
  servers_[0]->GoOn();
  EXPECT_TRUE(
      Eventually([] { return MountPointsUnder(At(0) + "/dir").empty(); }));
}

// Binds two volumes in one set: the first one is mounted when the second one
// hangs.
TEST_F(Hung, ASetWhoseLastHangsGoesWhenMountdIsKilledInIt) {
  auto client = node_->Connect({.reconnect = false});
  ASSERT_TRUE(client) << client.error().Message();
  servers_[0]->Hang();
  EXPECT_NAIVE(NaiveWaits(0));
  agent::BindMountSpec first;
  first.task = "app";
  first.name = "first";
  first.source_type = agent::SourceType::kHostVolume;
  first.source = "good";
  agent::BindMountSpec second = first;
  second.name = "second";
  second.source = DirectoryIn(0);
  auto told = std::async(std::launch::async, [&] {
    return Outcome(client->BindMounts(Allocation(0), {first, second}));
  });
  ASSERT_TRUE(Eventually([] { return StuckExecutors() == 1; }));
  ASSERT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 1U);
  KillMountd();
  EXPECT_EQ(told.get(), "Unavailable");
  // mountd has removed the set after its restart, and other calls need not wait
  // for the server.
  EXPECT_EQ(Bind(kServers, "good"), "Ok");
  const auto status = clients_[0].GetAllocation(Allocation(0));
  ASSERT_TRUE(status) << status.error().Message();
  EXPECT_TRUE(status->mounts.empty());
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 1U);
  EXPECT_EQ(Outcome(clients_[0].ReleaseAllocation(Allocation(0))), "Ok");
  servers_[0]->GoOn();
  EXPECT_EQ(Unmount(kServers, "good"), "Ok");
  EXPECT_TRUE(
      Eventually([] { return MountPointsUnder(At(0) + "/dir").empty(); }));
}

TEST_F(Hung, MountdStartsAndServesOthersWhileAServerHangs) {
  ASSERT_EQ(Bind(0, "root0", Propagation::kHostToTask), "Ok");
  ASSERT_TRUE(MountTmpfs(At(0) + "/dir"));
  ASSERT_EQ(Bind(1, DirectoryIn(1)), "Ok");
  HangAll();
  EXPECT_NAIVE(NaiveWaits(0));
  KillMountd();
  EXPECT_EQ(Bind(kServers, "good"), "Ok");
  EXPECT_EQ(Unmount(kServers, "good"), "Ok");
  // mountd still knows the mount that hangs, and did not wait for it.
  const auto status = clients_[0].GetAllocation(Allocation(0));
  ASSERT_TRUE(status && status->mounts.size() == 1U);
  EXPECT_EQ(status->mounts[0].state, "attached");
  EXPECT_EQ(StuckExecutors(), 0);
  EXPECT_EQ(Outcome(clients_[0].ReleaseAllocation(Allocation(0))),
            "DeadlineExceeded");
  EXPECT_EQ(Bind(kServers, "good"), "Ok");
  // The release stays pending over another start, and does not delay that
  // start.
  KillMountd();
  EXPECT_EQ(Bind(2, "good"), "Ok");
  const auto owed = clients_[0].ListOwed();
  ASSERT_TRUE(owed);
  const auto release =
      std::find_if(owed->begin(), owed->end(),
                   [](const auto& one) { return one.kind == "release"; });
  ASSERT_NE(release, owed->end());
  EXPECT_EQ(release->object, Allocation(0));
  servers_[0]->Die();
  EXPECT_TRUE(Eventually([&] {
    const auto left = clients_[0].RetryOwed();
    return left && *left == 0;
  }));
  EXPECT_EQ(Unmount(1, DirectoryIn(1)), "Ok");
  EXPECT_EQ(Unmount(2, "good"), "Ok");
  EXPECT_EQ(Unmount(kServers, "good"), "Ok");
  EXPECT_EQ(MountPointsUnder("/run/mountd/base/a").size(), 0U);
}

}  // namespace
}  // namespace mountd::testing
