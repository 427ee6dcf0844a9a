// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Nomad's own chain of CNI plugins on a whole node, as an ordinary user whose
// task driver has made the network namespace: mountd-cni is each plugin.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/eventually.h"
#include "tests/support/held_namespace.h"
#include "tests/support/net_probe.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/nomad_chain.h"
#include "tests/support/program.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kContainer[] = "3d3b6ae2-0e70-9c58-0f9b-0ba7d9c8e0f1";
constexpr char kNomadPlugins[] = "/run/nomad/cni";
// No rule has host_namespaces, because the namespaces are the user's own.
constexpr char kChainConfig[] = R"(
[network.default]
ipv4 = "10.88.0.0/16"
ipv6 = "fd88::/64"
[[rule]]
users = ["60002"]
networks = ["default"]
host_ports = ["8000-8999"]
)";

class CniChainNode : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    ::umask(S_IWGRP | S_IWOTH);
    fs::create_directories("/run/netns");
    fs::create_directories("/run/in");
    NomadChain::Install(MOUNTD_CNI, kNomadPlugins);
    StartNode(kChainConfig);
    if (HasFatalFailure()) {
      return;
    }
    // The first network makes the objects that stay for all later ones.
    Prepare();
    ASSERT_EQ(chain_.AddAll().status, 0);
    EXPECT_EQ(chain_.DelAll(), "");
    End();
    before_ = Everything();
    Prepare();
  }

  // Does what the task driver's CreateNetwork does.
  void Prepare() {
    ASSERT_EQ(
        Outcome(client_->PrepareAllocation(allocation_, {.scope = "nomad"})),
        "Ok");
    agent::NetworkSpec spec;
    spec.mode = "driver";
    spec.netns = held_.fd();
    const auto driver = client_->SetupNetwork(allocation_, spec);
    ASSERT_TRUE(driver) << driver.error().Message();
    chain_.set_netns(driver->netns_path);
    netns_ = driver->netns_path;
  }
  // Does what the task driver's DestroyNetwork does.
  void End() {
    EXPECT_EQ(Outcome(client_->ReleaseAllocation(allocation_)), "Ok");
  }

  static std::string Everything() {
    return test::RunProgram({"/bin/sh", "-c",
                             "ls /run/mountd/base/a /run/netns;"
                             "ip -o link | cut -d: -f2 | cut -d@ -f1;"
                             "nft -s list ruleset"})
        .out;
  }
  // Waits, because links disappear a little after their deletion.
  void ExpectNothingLeft() {
    EXPECT_TRUE(Eventually([this] { return Everything() == before_; }))
        << before_ << "\n-- now --\n"
        << Everything();
  }
  std::size_t NetworkCount() {
    const auto status = client_->GetAllocation(allocation_);
    return status ? status->networks.size() : 0;
  }

  const HeldNamespace held_{kAgentUid};
  const std::string allocation_ = std::string("cni-") + kContainer;
  NomadChain chain_{
      kNomadPlugins,
      "/run/in",
      kContainer,
      {"/usr/bin/setpriv", "--reuid=60002", "--regid=60002", "--clear-groups"}};
  std::string netns_;
  std::string before_;
};

TEST_F(CniChainNode, FromAddToNothingLeft) {
  const PluginAnswer added = chain_.AddAll();
  ASSERT_EQ(added.status, 0) << added.json << added.err;
  EXPECT_EQ(added.err, "");
  EXPECT_EQ(chain_.result()["cniVersion"], "0.4.0");
  ASSERT_EQ(chain_.result()["interfaces"].size(), 2U) << chain_.result();
  EXPECT_EQ(chain_.result()["interfaces"][1]["name"], "eth0");
  EXPECT_EQ(chain_.result()["interfaces"][1]["sandbox"], netns_);
  EXPECT_EQ(chain_.result()["ips"][0]["version"], "4");
  EXPECT_EQ(chain_.result()["ips"][0]["interface"], 1);
  {
    const Server tcp(held_.path(), 80, "hello");
    const Server udp(held_.path(), 80, "hello", Server::Transport::kUdp);
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
    EXPECT_EQ(AskUdp("127.0.0.1", 8080), "hello");
    EXPECT_EQ(AskFrom(held_.path(), "127.0.0.1", 80), "hello") << "lo is down";
  }
  EXPECT_EQ(chain_.CheckAll(), "");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(chain_.DelAll(), "");
    // The driver's namespace is still the allocation's.
    EXPECT_EQ(NetworkCount(), 1U);
  }
  EXPECT_EQ(chain_.Call("bridge", "CHECK", chain_.result()).json["code"], 3);
  EXPECT_EQ(chain_.Call("portmap", "CHECK", chain_.result()).json["code"], 3);
  End();
  ExpectNothingLeft();
  // Nomad may end the namespace, and the allocation with it, before a DEL.
  EXPECT_EQ(chain_.DelAll(), "");
  ExpectNothingLeft();
}

TEST_F(CniChainNode, AUdpPortThatIsTakenIsLeftOut) {
  const UniqueFd taken(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(8080);
  ASSERT_EQ(
      ::bind(taken.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)),
      0);
  const PluginAnswer added = chain_.AddAll();
  ASSERT_EQ(added.status, 0) << added.json << added.err;
  EXPECT_NE(added.err.find("8080/udp is not mapped"), std::string::npos)
      << added.err;
  {
    const Server tcp(held_.path(), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }
  EXPECT_EQ(chain_.CheckAll(), "");
  EXPECT_EQ(chain_.DelAll(), "");
  End();
  ExpectNothingLeft();
}

// Nomad repeats a failed ADD without a DEL.
TEST_F(CniChainNode, ATakenTcpPortIsRefusedUntilItIsFree) {
  UniqueFd taken(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_port = htons(8080);
  ASSERT_EQ(
      ::bind(taken.get(), reinterpret_cast<const sockaddr*>(&any), sizeof(any)),
      0);
  ASSERT_EQ(::listen(taken.get(), 1), 0);
  for (int i = 0; i < 2; ++i) {
    const PluginAnswer refused = chain_.AddAll();
    ASSERT_EQ(refused.status, 1);
    EXPECT_EQ(refused.json["code"], 102) << refused.json;
    // The interface is there, and portmap has not touched it.
    EXPECT_EQ(NetworkCount(), 2U);
  }
  taken.reset();
  const PluginAnswer added = chain_.AddAll();
  ASSERT_EQ(added.status, 0) << added.json;
  EXPECT_EQ(chain_.CheckAll(), "");
  // And once more, as if the runtime had lost the answer.
  const PluginAnswer again = chain_.AddAll();
  ASSERT_EQ(again.status, 0) << again.json;
  {
    const Server tcp(held_.path(), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }
  EXPECT_EQ(chain_.DelAll(), "");
  End();
  ExpectNothingLeft();
}

// An allocation whose tasks have not begun keeps its port, although no process
// is in its namespace.
TEST_F(CniChainNode, ADriversAllocationMakesNoRoom) {
  {
    const HeldNamespace other(kAgentUid);
    agent::NetworkSpec spec;
    spec.mode = "driver";
    spec.netns = other.fd();
    ASSERT_EQ(
        Outcome(client_->PrepareAllocation("cni-other", {.scope = "nomad"})),
        "Ok");
    ASSERT_EQ(Outcome(client_->SetupNetwork("cni-other", spec)), "Ok");
  }
  agent::NetworkSpec bridge;
  bridge.ports = {{.label = "0", .host = 8080, .container = 80}};
  ASSERT_EQ(Outcome(client_->SetupNetwork("cni-other", bridge)), "Ok");
  const PluginAnswer refused = chain_.AddAll();
  ASSERT_EQ(refused.status, 1);
  EXPECT_EQ(refused.json["code"], 102) << refused.json;
  const auto other = client_->GetAllocation("cni-other");
  ASSERT_TRUE(other) << other.error().Message();
  EXPECT_EQ(other->networks.size(), 2U);
  EXPECT_EQ(Outcome(client_->ReleaseAllocation("cni-other")), "Ok");
  EXPECT_EQ(chain_.AddAll().status, 0);
  EXPECT_EQ(chain_.DelAll(), "");
  End();
  ExpectNothingLeft();
}

// Nomad ends the network before the volumes, and the driver, too, keeps the
// allocation then.
TEST_F(CniChainNode, AnAllocationWithMountsOutlivesItsNetworks) {
  ASSERT_EQ(chain_.AddAll().status, 0);
  agent::BindMountSpec scratch;
  scratch.task = "server";
  scratch.name = "scratch";
  scratch.source_type = agent::SourceType::kTmpfs;
  scratch.tmpfs.emplace().size = 1U << 20U;
  const auto mounted = client_->BindMount(allocation_, scratch);
  ASSERT_TRUE(mounted) << mounted.error().Message();
  // Without the driver's namespace the bridge is the last network.
  EXPECT_EQ(chain_.DelAll(), "");
  ASSERT_EQ(Outcome(client_->TeardownNetwork(allocation_)), "Ok");
  EXPECT_EQ(chain_.DelAll(), "");
  const auto status = client_->GetAllocation(allocation_);
  ASSERT_TRUE(status) << status.error().Message();
  EXPECT_EQ(status->networks.size(), 0U);
  EXPECT_EQ(status->mounts.size(), 1U);
  ASSERT_EQ(Outcome(client_->Unmount(allocation_, "server", "scratch")), "Ok");
  // Now nothing is left, and the DEL may release the allocation.
  EXPECT_EQ(chain_.DelAll(), "");
  EXPECT_EQ(Outcome(client_->GetAllocation(allocation_)), "NotFound");
  ExpectNothingLeft();
}

// Nomad's configuration has the name of the driver's scope.
TEST_F(CniChainNode, GarbageIsNotTheDriversNamespace) {
  ASSERT_EQ(chain_.AddAll().status, 0);
  const Json none = {{"cniVersion", "1.1.0"},
                     {"cni.dev/valid-attachments", Json::array()}};
  for (const std::string& plugin : NomadChain::Plugins()) {
    const PluginAnswer collected = chain_.Call(plugin, "GC", nullptr, none);
    EXPECT_EQ(collected.status, 0) << plugin << collected.json;
    EXPECT_EQ(chain_.Call(plugin, "STATUS", nullptr, none).status, 0) << plugin;
  }
  const auto status = client_->GetAllocation(allocation_);
  ASSERT_TRUE(status) << status.error().Message();
  ASSERT_EQ(status->networks.size(), 1U);
  EXPECT_EQ(status->networks[0].interface, "lo");
  End();
  ExpectNothingLeft();
}

TEST_F(CniChainNode, ANamespaceOfTheHostIsRefused) {
  End();
  chain_.set_netns("/proc/self/ns/net");
  const PluginAnswer refused = chain_.Call("bridge", "ADD", nullptr);
  ASSERT_EQ(refused.status, 1);
  EXPECT_EQ(refused.json["code"], 104) << refused.json;
  // A failed ADD leaves no allocation.
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mountd::testing
