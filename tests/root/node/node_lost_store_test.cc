// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A whole mountd with stores that are damaged, belong to a newer release, or
// lie on a full or read-only disk. No mount is lost by that, and nothing is
// left after the release.
#include <poll.h>
#include <sqlite3.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "mountd/base/paths.h"
#include "mountd/exec/restrict_memory.h"
#include "tests/support/eventually.h"
#include "tests/support/node/host_volumes.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;

constexpr char kConfig[] = R"(
[host_volume.a]
path = "/run/host/a"
propagation = ["private", "host-to-task"]
[host_volume.b]
path = "/run/host/b"
propagation = ["private", "host-to-task"]
[network.default]
ipv4 = "10.88.0.0/24"
ipv6 = "fd88::/64"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
networks = ["*"]
host_ports = ["20000-20999"]
)";

constexpr char kWeb[] = "/run/mountd/base/a/web";

agent::BindMountSpec Spec(const std::string& name, const std::string& source) {
  agent::BindMountSpec spec = HostVolumeSpec(name, source);
  spec.propagation = agent::Propagation::kHostToTask;
  return spec;
}

agent::NetworkSpec Network(std::uint16_t port) {
  agent::NetworkSpec spec;
  spec.ports = {{"http", port, 80, "tcp"}, {"dns", 20053, 53, "tcp+udp", 3}};
  return spec;
}

std::string TextIn(const std::string& path) {
  std::string text;
  std::ifstream(path) >> text;
  return text;
}

class NodeLostStore : public NodeFixture {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    MakeHostVolumes();
    ASSERT_NO_FATAL_FAILURE(StartNode(kConfig));
    for (const char* id : {"web", "db"}) {
      ASSERT_EQ(Outcome(client_->PrepareAllocation(id)), "Ok");
    }
    ASSERT_EQ(MessageOf(client_->BindMount("web", Spec("d", "a"))), "Ok");
    ASSERT_EQ(MessageOf(client_->BindMount("web", Spec("e", "b"))), "Ok");
  }
  void SetUpNetwork() {
    const auto made = client_->SetupNetwork("web", Network(20080));
    ASSERT_EQ(MessageOf(made), "Ok");
    network_ = *made;
  }

  // Ends mountd, and changes the store's file before the next call starts
  // mountd again.
  void Change(const std::string& store, const std::string& text) {
    client_.reset();
    Node::Kill(Node::Processes("mountd"));
    std::ofstream(store, std::ios::trunc) << text;
    fs::remove(store + "-wal");
    Connect();
  }
  void Damage(const std::string& store) {
    Change(store, std::string(8192, 'x'));
  }
  std::vector<std::string> SetAside() {
    const auto capabilities = client_->GetCapabilities();
    EXPECT_EQ(MessageOf(capabilities), "Ok");
    return capabilities ? capabilities->stores_set_aside
                        : std::vector<std::string>();
  }
  std::vector<std::string> StatesOf(const std::string& allocation) {
    std::vector<std::string> states;
    const auto status = client_->GetAllocation(allocation);
    EXPECT_EQ(MessageOf(status), "Ok");
    if (status) {
      for (const auto& mount : status->mounts) {
        states.push_back(mount.name + " " + mount.state);
      }
    }
    return states;
  }
  static std::vector<std::string> Mounted() { return MountPointsUnder(kWeb); }

  void ReleaseAll() {
    for (const char* id : {"web", "db"}) {
      EXPECT_EQ(MessageOf(client_->ReleaseAllocation(id)), "Ok");
    }
    ExpectNothingIsLeft();
  }
  void ExpectNothingIsLeft() {
    EXPECT_TRUE(Eventually([] {
      return MountPointsUnder("/run/mountd/base").size() == 1 &&
             MountPointsUnder("/run/host").empty() &&
             !fs::exists("/run/netns/web") &&
             fs::is_empty("/run/mountd/base/n") &&
             fs::is_empty("/run/mountd/base/a");
    }));
    const auto owed = client_->ListOwed();
    EXPECT_TRUE(owed && owed->empty());
    EXPECT_TRUE(Eventually([&] {
      const auto usage = client_->GetCapabilities()->addresses.at("default");
      return usage.free == usage.capacity;
    }));
  }

  agent::NetworkStatus network_;
};

TEST_F(NodeLostStore, MountsOutliveTheBootStoreAndAreTakenOver) {
  const std::vector<std::string> before = Mounted();
  ASSERT_EQ(before.size(), 2U);
  Damage(paths::kBootStore);
  ASSERT_EQ(SetAside().size(), 1U);
  EXPECT_TRUE(
      SetAside()[0].starts_with(std::string(paths::kBootStore) + ".corrupt-"));
  EXPECT_EQ(StatesOf("web"), (std::vector<std::string>{"d found", "e found"}));
  EXPECT_EQ(Mounted(), before);
  // The call asks for just the mount that is there.
  EXPECT_EQ(MessageOf(client_->BindMount("web", Spec("d", "a"))), "Ok");
  EXPECT_EQ(StatesOf("web"),
            (std::vector<std::string>{"d attached", "e found"}));
  EXPECT_EQ(Mounted(), before);
  // The source keeps its anchor, because later mounts in it would not arrive
  // otherwise.
  EXPECT_EQ(MountPointsUnder("/run/host").size(), 2U);
  // This call asks for another mount than the one that is there, which stays.
  EXPECT_EQ(Outcome(client_->BindMount("web", Spec("e", "a"))),
            "AlreadyExists");
  EXPECT_EQ(TextIn(std::string(kWeb) + "/app/e/version"), "b");
  EXPECT_EQ(Mounted(), before);
  EXPECT_TRUE(SetAside().size() == 1U);
  ReleaseAll();
}

TEST_F(NodeLostStore, AMountWithoutARecordIsUnmountedOrReplaced) {
  Damage(paths::kBootStore);
  EXPECT_EQ(MessageOf(client_->Unmount("web", "app", "d")), "Ok");
  EXPECT_EQ(Mounted().size(), 1U);
  const auto capabilities = client_->GetCapabilities();
  if (capabilities && capabilities->features.at("mount-beneath")) {
    EXPECT_EQ(MessageOf(client_->ReplaceMount("web", Spec("e", "a"))), "Ok");
    EXPECT_EQ(TextIn(std::string(kWeb) + "/app/e/version"), "a");
  }
  ReleaseAll();
}

// The next start finds the records that this start has made.
TEST_F(NodeLostStore, WhatWasFoundIsKnownAtTheNextStart) {
  Damage(paths::kBootStore);
  ASSERT_EQ(SetAside().size(), 1U);
  Node::Kill(Node::Processes("mountd"));
  Connect();
  EXPECT_TRUE(SetAside().empty());
  EXPECT_EQ(StatesOf("web"), (std::vector<std::string>{"d found", "e found"}));
  ReleaseAll();
}

TEST_F(NodeLostStore, ANetworkOutlivesTheBootStoreAndIsTakenOver) {
  ASSERT_NO_FATAL_FAILURE(SetUpNetwork());
  Damage(paths::kBootStore);
  // Another allocation gets neither its addresses nor its ports.
  const auto other = client_->SetupNetwork("db", Network(20081));
  EXPECT_EQ(Outcome(other), "AlreadyExists");
  agent::NetworkSpec bare;
  const auto made = client_->SetupNetwork("db", bare);
  ASSERT_EQ(MessageOf(made), "Ok");
  EXPECT_NE(made->address, network_.address);
  EXPECT_NE(made->address6, network_.address6);
  // A call that asks for something else leaves the network as it is.
  EXPECT_EQ(Outcome(client_->SetupNetwork("web", Network(20082))),
            "FailedPrecondition");
  const auto again = client_->SetupNetwork("web", Network(20080));
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(again->netns_inode, network_.netns_inode);
  EXPECT_EQ(again->address, network_.address);
  EXPECT_EQ(again->address6, network_.address6);
  EXPECT_EQ(again->interface, network_.interface);
  ReleaseAll();
}

TEST_F(NodeLostStore, ANetworkThatNobodyAsksForGoesWithItsAllocation) {
  ASSERT_NO_FATAL_FAILURE(SetUpNetwork());
  Damage(paths::kBootStore);
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("web")), "Ok");
  // Its ports are free again, too.
  EXPECT_EQ(MessageOf(client_->SetupNetwork("db", Network(20080))), "Ok");
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("db")), "Ok");
  ExpectNothingIsLeft();
}

TEST_F(NodeLostStore, AllocationsOutliveTheStateStore) {
  const std::vector<std::string> before = Mounted();
  Damage(paths::kStateStore);
  ASSERT_EQ(SetAside().size(), 1U);
  // The allocation's directory tells mountd the owner.
  EXPECT_EQ(StatesOf("web"),
            (std::vector<std::string>{"d attached", "e attached"}));
  EXPECT_EQ(Mounted(), before);
  EXPECT_EQ(Outcome(client_->PrepareAllocation("web")), "Ok");
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("web")), "Ok");
  EXPECT_TRUE(Mounted().empty());
  EXPECT_EQ(MessageOf(client_->PrepareAllocation("db")), "Ok");
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("db")), "Ok");
  ExpectNothingIsLeft();
}

TEST_F(NodeLostStore, BothStoresLostLoseNoMount) {
  ASSERT_NO_FATAL_FAILURE(SetUpNetwork());
  const std::vector<std::string> before = Mounted();
  client_.reset();
  Node::Kill(Node::Processes("mountd"));
  for (const std::string store : {paths::kStateStore, paths::kBootStore}) {
    fs::remove(store);
    fs::remove(store + "-wal");
  }
  Connect();
  EXPECT_TRUE(SetAside().empty());
  EXPECT_EQ(Mounted(), before);
  EXPECT_TRUE(fs::exists("/run/netns/web"));
  EXPECT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
  for (const char* id : {"web", "db"}) {
    EXPECT_EQ(MessageOf(client_->ReleaseAllocation(id)), "Ok");
  }
  ExpectNothingIsLeft();
}

// Callers see that mountd does not start, and the log says why.
class NodeBadState : public NodeLostStore {
 protected:
  void ExpectNoStart(const std::string& why) {
    auto client = node_->Connect(
        {.connect_timeout = std::chrono::seconds(2), .reconnect = false});
    EXPECT_FALSE(client && client->GetCapabilities());
    EXPECT_TRUE(Eventually([&] {
      return node_->Log().find(why) != std::string::npos;
    })) << node_->Log();
    EXPECT_EQ(Mounted().size(), 2U);
  }
  void ExpectAllIsWell() {
    ASSERT_TRUE(Eventually([&] {
      auto client = node_->Connect();
      const bool serves = client && client->GetCapabilities();
      if (serves) {
        client_.emplace(*std::move(client));
      }
      return serves;
    }));
    EXPECT_EQ(StatesOf("web"),
              (std::vector<std::string>{"d attached", "e attached"}));
    ReleaseAll();
  }
  static bool RemountState(const char* options) {
    return ::mount(nullptr, "/var/lib", nullptr, MS_REMOUNT, options) == 0;
  }
};

TEST_F(NodeBadState, ANewerStoreIsRefusedAndLeftAlone) {
  client_.reset();
  Node::Kill(Node::Processes("mountd"));
  const std::string store = paths::kStateStore;
  const std::string kept = store + ".kept";
  fs::rename(store, kept);
  fs::rename(store + "-wal", kept + "-wal");
  {
    sqlite3* raw = nullptr;
    ASSERT_EQ(sqlite3_open(paths::kStateStore, &raw), SQLITE_OK);
    EXPECT_EQ(sqlite3_exec(raw, "PRAGMA user_version=1000", nullptr, nullptr,
                           nullptr),
              SQLITE_OK);
    sqlite3_close(raw);
  }
  ASSERT_EQ(::chown(paths::kStateStore, kMountdUid, kMountdUid), 0);
  ExpectNoStart("has schema 1000, but this mountd knows");
  fs::rename(kept + "-wal", store + "-wal");
  fs::rename(kept, store);
  ExpectAllIsWell();
}

TEST_F(NodeBadState, AReadOnlyDirectoryIsToldAtTheStart) {
  client_.reset();
  Node::Kill(Node::Processes("mountd"));
  ASSERT_EQ(
      ::mount(nullptr, "/var/lib", nullptr, MS_REMOUNT | MS_RDONLY, nullptr),
      0);
  ExpectNoStart("critical");
  ASSERT_TRUE(RemountState(nullptr));
  ExpectAllIsWell();
}

// Mounts come and go, because the records of this boot are on another file
// system. A release needs room for its receipt, and goes on once there is some.
TEST_F(NodeBadState, AFullDiskRefusesWhatCannotBeWrittenDown) {
  struct statvfs used = {};
  ASSERT_EQ(::statvfs("/var/lib", &used), 0);
  const std::string size =
      "size=" + std::to_string((used.f_blocks - used.f_bfree) * used.f_frsize);
  ASSERT_TRUE(RemountState(size.c_str()));
  std::string told;
  for (int i = 0; i < 2000 && told != "ResourceExhausted"; ++i) {
    told = Outcome(client_->PrepareAllocation("full" + std::to_string(i)));
  }
  EXPECT_EQ(told, "ResourceExhausted");
  EXPECT_EQ(MessageOf(client_->Unmount("web", "app", "d")), "Ok");
  EXPECT_EQ(MessageOf(client_->BindMount("web", Spec("d", "a"))), "Ok");
  EXPECT_EQ(MessageOf(client_->GetAllocation("web")), "Ok");
  const std::string released = Outcome(client_->ReleaseAllocation("web"));
  EXPECT_TRUE(released == "Ok" || released == "ResourceExhausted") << released;
  ASSERT_TRUE(RemountState("size=64m"));
  const auto all = client_->ListAllocations();
  ASSERT_TRUE(all);
  for (const auto& allocation : *all) {
    EXPECT_EQ(Outcome(client_->ReleaseAllocation(allocation.id)), "Ok");
  }
  ExpectNothingIsLeft();
}

// Lowers limits of running processes, so that any call may be the first to
// reach one.
class NodeScarce : public NodeLostStore {
 protected:
  static constexpr std::uint64_t kPage = 4096;
  // Makes calls under the limit. No call may end with another error.
  void CallOften(int times = 20) {
    for (int i = 0; i < times; ++i) {
      const std::string name = "n" + std::to_string(i);
      for (const std::string& told :
           {Outcome(client_->BindMount("db", Spec(name, "a"))),
            Outcome(client_->Unmount("db", "app", name)),
            Outcome(client_->SetupNetwork("db", Network(20090))),
            Outcome(client_->TeardownNetwork("db"))}) {
        EXPECT_TRUE(told == "Ok" || told == "ResourceExhausted" ||
                    told == "Unavailable" || told == "Internal" ||
                    told == "FailedPrecondition")
            << told;
        refused_ += told == "Ok" ? 0 : 1;
      }
    }
  }
  void ExpectServedAgain() {
    EXPECT_TRUE(Eventually([&] {
      return Outcome(client_->BindMount("db", Spec("d", "a"))) == "Ok";
    }));
    EXPECT_TRUE(Eventually(
        [&] { return Outcome(client_->ReleaseAllocation("db")) == "Ok"; }));
    EXPECT_EQ(MessageOf(client_->PrepareAllocation("db")), "Ok");
    ReleaseAll();
  }
  int refused_ = 0;
};

using NodeFewFds = NodeScarce;

TEST_F(NodeFewFds, ExecutorsRefuseWhatTheyCannotOpen) {
  for (rlim_t fds = 4; fds < 12; ++fds) {
    SCOPED_TRACE(fds);
    ASSERT_TRUE(Node::Limit("mountd-exec", RLIMIT_NOFILE, fds));
    CallOften();
  }
  EXPECT_GT(refused_, 0);
  ASSERT_TRUE(Node::Limit("mountd-exec", RLIMIT_NOFILE, 1024));
  ExpectServedAgain();
}

// mountd starts again before it has too few fds to serve anybody.
TEST_F(NodeFewFds, MountdComesBackByItself) {
  ASSERT_TRUE(Node::Limit("mountd", RLIMIT_NOFILE, 30));
  CallOften();
  ExpectServedAgain();
}

class NodeFewBytes : public NodeScarce {
 protected:
  // Runs `call` as the agent, because a client connects again as its thread's
  // user.
  template <typename F>
  static void AsAgent(const F& call) {
    std::thread([&] {
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
      call();
    }).join();
  }
  void ExpectAllIsThere() {
    EXPECT_TRUE(Eventually(
        [&] { return Outcome(client_->GetAllocation("web")) == "Ok"; }));
    EXPECT_EQ(StatesOf("web"),
              (std::vector<std::string>{"d attached", "e attached"}));
    ExpectServedAgain();
  }
};

// mountd keeps the memory that it has but gets no more, until an answer is too
// large.
TEST_F(NodeFewBytes, MountdEndsAndComesBackByItself) {
  const std::string padding(100, 'x');
  std::vector<std::string> many;
  for (int i = 0; i < 500; ++i) {
    many.push_back("a" + std::to_string(i) + padding);
    ASSERT_EQ(Outcome(client_->PrepareAllocation(many.back())), "Ok");
  }
  const std::vector<UniqueFd> before = Node::Processes("mountd");
  ASSERT_EQ(before.size(), 1U);
  ASSERT_TRUE(Node::Limit("mountd", RLIMIT_DATA, kPage));
  EXPECT_TRUE(Eventually([&] {
    AsAgent([&] {
      CallOften(1);
      const std::string told = Outcome(client_->ListAllocations());
      EXPECT_TRUE(told == "Ok" || told == "Unavailable" ||
                  told == "ResourceExhausted")
          << told;
    });
    pollfd entry = {before.front().get(), POLLIN, 0};
    return ::poll(&entry, 1, 0) > 0;
  }));
  Connect();
  for (const std::string& id : many) {
    ASSERT_TRUE(Eventually(
        [&] { return Outcome(client_->ReleaseAllocation(id)) == "Ok"; }));
  }
  ExpectAllIsThere();
}

#ifndef MOUNTD_SANITIZED
bool BoundsItself(const UniqueFd& executor) {
  rlimit own{};
  rlimit limit{};
  return ::getrlimit(RLIMIT_DATA, &own) == 0 &&
         ::prlimit(Node::PidOf(executor), RLIMIT_DATA, nullptr, &limit) == 0 &&
         limit.rlim_cur == exec::kMaxMemory && limit.rlim_max == own.rlim_max;
}

// An executor that reaches its bound ends as in the next test, and mountd
// starts another one, with the same bound.
TEST_F(NodeFewBytes, EachExecutorBoundsItself) {
  for (int i = 0; i < 2; ++i) {
    EXPECT_TRUE(Eventually([] {
      const std::vector<UniqueFd> executors = Node::Processes("mountd-exec");
      return !executors.empty() &&
             std::all_of(executors.begin(), executors.end(), BoundsItself);
    }));
    Node::Kill(Node::Processes("mountd-exec"));
    EXPECT_TRUE(Eventually([&] {
      return Outcome(client_->BindMount("db", Spec("d", "a"))) == "Ok";
    }));
  }
  ExpectAllIsThere();
}
#endif

// The executor gets less and less memory from its start on, so it ends at many
// different places.
TEST_F(NodeFewBytes, ExecutorsEndAndOthersGoOn) {
  const std::uint64_t needed = Node::DataOf("mountd-exec");
  ASSERT_GT(needed, 0U);
  for (std::uint64_t less = 0; less < 64 * kPage; less += 2 * kPage) {
    SCOPED_TRACE(less);
    ASSERT_TRUE(Node::Limit("mountd-launcher", RLIMIT_DATA, needed - less));
    Node::Kill(Node::Processes("mountd-exec"));
    AsAgent([&] { CallOften(1); });
  }
  EXPECT_GT(node_->Told("mountd-exec: out of memory"), 0U);
  ASSERT_TRUE(Node::Limit("mountd-launcher", RLIMIT_DATA, RLIM_INFINITY));
  Node::Kill(Node::Processes("mountd-exec"));
  ExpectAllIsThere();
}

}  // namespace
}  // namespace mountd::testing
