// SPDX-License-Identifier: LGPL-2.1-or-later
//
// What one user of a whole mountd may take of what all of them share.
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <optional>
#include <string>
#include <thread>

#include "tests/support/node_fixture.h"

namespace mountd::testing {
namespace {

constexpr char kRules[] = R"(
[[rule]]
users = ["agent", "60012"]
)";
constexpr uid_t kOther = 60012;

class NodeUsers : public NodeFixture {
 protected:
  // A client of the other user's, whose primary group is the agent's.
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

  // Some 124 KiB of hosts, which no right is needed for.
  static agent::NetworkSpec ManyHosts() {
    agent::NetworkSpec spec;
    spec.mode = "host";
    const std::string label(60, 'a');
    const std::string name = label + "." + label + "." + label + "." + label;
    spec.hosts.assign(256, {"192.0.2.1", {name, name}});
    return spec;
  }
  // As many of these as there can be, 600 at most: why there was no more.
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
  static std::string SetUp(agent::Client* client, const std::string& id) {
    EXPECT_EQ(MessageOf(client->PrepareAllocation(id)), "Ok");
    return Outcome(client->SetupNetwork(id, ManyHosts()));
  }
};

// What an allocation's files were at first: bounded each, and not in all.
TEST_F(NodeUsers, WithoutALimitOneUserFillsTheBase) {
  ASSERT_NO_FATAL_FAILURE(
      StartNode(std::string(kRules) +
                "[limits]\nnetwork_file_bytes_per_uid = 1073741824\n"));
  EXPECT_NE(Fill().find("ENOSPC"), std::string::npos);
  EXPECT_LT(FreeOfBase(), 128U << 10U);
  auto other = ConnectOther();
  ASSERT_TRUE(other);
  EXPECT_NE(SetUp(&*other, "theirs"), "Ok");
}

TEST_F(NodeUsers, OneUserDoesNotFillTheBase) {
  ASSERT_NO_FATAL_FAILURE(StartNode(kRules));
  EXPECT_NE(Fill().find("limits.network_file_bytes_per_uid"),
            std::string::npos);
  EXPECT_GT(FreeOfBase(), 50U << 20U);
  auto other = ConnectOther();
  ASSERT_TRUE(other);
  EXPECT_EQ(SetUp(&*other, "theirs"), "Ok");
  // A mountd that starts again counts what is there.
  client_.reset();
  other.reset();
  Node::Kill(Node::Processes("mountd"));
  Connect();
  EXPECT_EQ(SetUp(&*client_, "more"), "ResourceExhausted");
  // What is released may be had again.
  EXPECT_EQ(MessageOf(client_->ReleaseAllocation("fill0")), "Ok");
  EXPECT_EQ(SetUp(&*client_, "more"), "Ok");
  EXPECT_EQ(SetUp(&*client_, "too-many"), "ResourceExhausted");
}

TEST_F(NodeUsers, OneUserDoesNotTakeAllNamespaces) {
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

}  // namespace
}  // namespace mountd::testing
