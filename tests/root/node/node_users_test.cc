// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The share that one user of a whole mountd may take of resources that all
// users share.
#include <fcntl.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <fstream>
#include <optional>
#include <string>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/support/naive.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

constexpr char kRules[] = R"(
[[rule]]
users = ["agent", "60012"]
)";
constexpr uid_t kOther = 60012;

class NodeUsers : public NodeFixture {
 protected:
  // Connects as another user with the agent's primary group.
  std::optional<agent::Client> ConnectOther() {
    std::optional<Result<agent::Client>> client;
    std::thread([&] {
      ::syscall(SYS_setgroups, 0, nullptr);
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kOther, kOther, kOther);
      client = agent::Client::Connect({.reconnect = false});
    }).join();
    EXPECT_EQ(MessageOf(*client), "Ok");
    return *client ? std::optional(**std::move(client)) : std::nullopt;
  }

  // Returns some 124 KiB of hosts, which need no right.
  static agent::NetworkSpec ManyHosts() {
    agent::NetworkSpec spec;
    spec.mode = "host";
    const std::string label(60, 'a');
    const std::string name = label + "." + label + "." + label + "." + label;
    spec.hosts.assign(256, {"192.0.2.1", {name, name}});
    return spec;
  }
  // Makes up to 600 such networks. Returns why it could make no more.
  std::string Fill() {
    for (int i = 0; i < 600; ++i) {
      const std::string id = "fill" + std::to_string(i);
      const auto prepared = client_->PrepareAllocation(id);
      if (!prepared) {
        return MessageOf(prepared);
      }
      const auto made = client_->SetupNetwork(id, ManyHosts());
      if (!made) {
        EXPECT_EQ(MessageOf(client_->ReleaseAllocation(id)), "Ok");
        return MessageOf(made);
      }
    }
    return "Ok";
  }
  static std::uint64_t FreeOfBase() {
    struct statvfs st = {};
    EXPECT_EQ(::statvfs("/run/mountd/base", &st), 0);
    return st.f_bavail * st.f_frsize;
  }
  bool NobodyHasRoomAfter(const std::string& filled) {
    auto other = ConnectOther();
    return filled.find("ENOSPC") != std::string::npos &&
           FreeOfBase() < 128U << 10U && other &&
           SetUpNetwork(&*other, "last") != "Ok";
  }
  static std::string SetUpNetwork(agent::Client* client,
                                  const std::string& id) {
    EXPECT_EQ(MessageOf(client->PrepareAllocation(id)), "Ok");
    return Outcome(client->SetupNetwork(id, ManyHosts()));
  }
};

TEST_F(NodeUsers, OneUserDoesNotFillTheBase) {
  // A naive limit bounds the files of an allocation, and not those of a user.
  ASSERT_NO_FATAL_FAILURE(
      StartNode(std::string(kRules) +
                "[limits]\nnetwork_file_bytes_per_uid = 1073741824\n"));
  EXPECT_NAIVE(NobodyHasRoomAfter(Fill()));
  std::ofstream("/etc/mountd/mountd.toml") << kRules;
  ASSERT_NO_FATAL_FAILURE(Reboot());
  EXPECT_NE(Fill().find("limits.network_file_bytes_per_uid"),
            std::string::npos);
  EXPECT_GT(FreeOfBase(), 50U << 20U);
  auto other = ConnectOther();
  ASSERT_TRUE(other);
  EXPECT_EQ(SetUpNetwork(&*other, "theirs"), "Ok");
  // mountd counts the existing files when it starts again.
  client_.reset();
  other.reset();
  Node::Kill(Node::Processes("mountd"));
  Connect();
  EXPECT_EQ(SetUpNetwork(&*client_, "more"), "ResourceExhausted");
  // The space of a released allocation is available again.
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("fill0")), "Ok");
  EXPECT_EQ(SetUpNetwork(&*client_, "more"), "Ok");
  EXPECT_EQ(SetUpNetwork(&*client_, "too-many"), "ResourceExhausted");
}

// True if a naive maker of namespaces runs out of them: it makes them for all
// users without counting by user, so one user's `kMost` calls reach the
// kernel's limit (namespaces(7)). The limit is set in a user namespace.
bool NaiveMakerIsExhausted() {
  constexpr int kMost = 3;
  const pid_t naive = ::fork();
  if (naive == 0) {
    bool ok = ::unshare(CLONE_NEWUSER) == 0;
    std::ofstream limit("/proc/sys/user/max_net_namespaces");
    limit << kMost << std::flush;
    ok = ok && limit.good();
    for (int i = 0; i < kMost; ++i) {
      ok = ok && ::unshare(CLONE_NEWNET) == 0 &&
           ::open("/proc/self/ns/net", O_RDONLY) >= 0;  // pinned
    }
    ::_exit(ok && ::unshare(CLONE_NEWNET) == -1 && errno == ENOSPC ? 0 : 1);
  }
  int status = 1;
  ::waitpid(naive, &status, 0);
  return status == 0;
}

TEST_F(NodeUsers, OneUserDoesNotTakeAllNamespaces) {
  EXPECT_NAIVE(NaiveMakerIsExhausted());
  ASSERT_NO_FATAL_FAILURE(
      StartNode(std::string(kRules) + "[limits]\nnamespaces_per_uid = 3\n"));
  agent::NetworkSpec none;
  none.mode = "none";
  const auto set_up = [&none](agent::Client* client, const std::string& id) {
    EXPECT_EQ(MessageOf(client->PrepareAllocation(id)), "Ok");
    return MessageOf(client->SetupNetwork(id, none));
  };
  for (const char* id : {"a", "b", "c"}) {
    EXPECT_EQ(set_up(&*client_, id), "Ok");
  }
  EXPECT_NE(set_up(&*client_, "d").find("limits.namespaces_per_uid"),
            std::string::npos);
  auto other = ConnectOther();
  ASSERT_TRUE(other);
  EXPECT_EQ(set_up(&*other, "theirs"), "Ok");
  EXPECT_EQ(MessageOf(client_->TeardownNetwork("a")), "Ok");
  EXPECT_EQ(set_up(&*client_, "d"), "Ok");
}

// A process of the agent keeps the fd, while mountd ends and starts again.
TEST_F(NodeUsers, ADescriptorThatOutlivesTheReleaseIsListed) {
  ASSERT_EQ(::mkdir("/run/shared", 0777), 0);
  ASSERT_NO_FATAL_FAILURE(StartNode(std::string(kRules) + R"(
host_volumes = ["shared"]
detached = true
[host_volume.shared]
path = "/run/shared"
)"));
  ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
  agent::BindMountSpec spec;
  spec.source_type = agent::SourceType::kHostVolume;
  spec.source = "shared";
  auto tree = client_->OpenTree("web", spec);
  ASSERT_EQ(MessageOf(tree), "Ok");
  const pid_t keeper = ::fork();
  if (keeper == 0) {
    if (::setuid(kAgentUid) == 0) {
      ::pause();
    }
    ::_exit(1);
  }
  const std::string kept =
      "/proc/" + std::to_string(keeper) + "/fd/" + std::to_string(tree->get());
  tree->reset();
  // mountd itself has the fd until it has sent its answer and forgotten it.
  const auto is_told = [&](const agent::HandedOutList& list) {
    return !list.complete ||
           (list.descriptors.size() == 1 &&
            list.descriptors[0].holders.holders.size() == 1 &&
            !list.descriptors[0].holders.holders[0].how.empty());
  };
  EXPECT_TRUE(Eventually([&] {
    const auto list = client_->ListHandedOut("web");
    return list && is_told(*list);
  }));
  ASSERT_EQ(MessageOf(client_->ReleaseAllocation("web")), "Ok");
  // A naive list contains only what allocations have.
  EXPECT_NAIVE(Outcome(client_->GetAllocation("web")) == "NotFound" &&
               UniqueFd(::creat((kept + "/file").c_str(), 0600)).valid());
  Node::Kill(Node::Processes("mountd"));
  const auto list = client_->ListHandedOut("web");
  ASSERT_EQ(MessageOf(list), "Ok");
  const auto capabilities = client_->GetCapabilities();
  ASSERT_EQ(MessageOf(capabilities), "Ok");
  EXPECT_EQ(list->complete, capabilities->features.at("unique-mount-ids"));
  if (list->complete) {
    ASSERT_EQ(list->descriptors.size(), 1U);
    EXPECT_EQ(list->descriptors[0].kind, "detached");
    EXPECT_EQ(list->descriptors[0].source_type, "host");
    EXPECT_EQ(list->descriptors[0].source, "shared");
    const agent::Holders& holders = list->descriptors[0].holders;
    ASSERT_EQ(holders.holders.size(), 1U);
    EXPECT_EQ(holders.holders[0].pid, static_cast<std::uint32_t>(keeper));
    EXPECT_EQ(holders.holders[0].how.substr(0, 3), "fd ");
  }
  auto other = ConnectOther();
  ASSERT_TRUE(other);
  EXPECT_EQ(Outcome(other->ListHandedOut("web")), "PermissionDenied");
  ::kill(keeper, SIGKILL);
  ::waitpid(keeper, nullptr, 0);
  const auto none = client_->ListHandedOut("web");
  ASSERT_EQ(MessageOf(none), "Ok");
  EXPECT_TRUE(none->descriptors.empty());
}

}  // namespace
}  // namespace mountd::testing
