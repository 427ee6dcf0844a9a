// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Nomad's own chain of CNI plugins on a whole node, as an ordinary user whose
// task driver has made the network namespace: mountd-cni is each plugin.
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/held_namespace.h"
#include "tests/support/net_probe.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/program.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kContainer[] = "3d3b6ae2-0e70-9c58-0f9b-0ba7d9c8e0f1";
constexpr char kNomadPlugins[] = "/run/nomad/cni/";
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
const std::vector<std::string> kChain = {"loopback", "bridge", "firewall",
                                         "portmap"};

// The plugins' configurations in Nomad 2.0.
Json ConfigOf(const std::string& plugin) {
  Json conf = {{"cniVersion", "0.4.0"}, {"name", "nomad"}, {"type", plugin}};
  if (plugin == "bridge") {
    conf.update({{"bridge", "nomad"},
                 {"ipMasq", true},
                 {"isGateway", true},
                 {"forceAddress", true},
                 {"hairpinMode", false}});
    conf["ipam"] = {
        {"type", "host-local"},
        {"ranges",
         Json::array({Json::array({{{"subnet", "172.26.64.0/20"}}})})},
        {"routes", Json::array({{{"dst", "0.0.0.0/0"}}})}};
  }
  if (plugin == "firewall") {
    conf.update(
        {{"backend", "iptables"}, {"iptablesAdminChainName", "NOMAD-ADMIN"}});
  }
  if (plugin == "portmap") {
    conf.update({{"snat", true}, {"capabilities", {{"portMappings", true}}}});
    // Nomad's struct has no JSON names.
    Json tcp = {{"HostPort", 8080},
                {"ContainerPort", 80},
                {"Protocol", "tcp"},
                {"HostIP", ""}};
    Json udp = tcp;
    udp["Protocol"] = "udp";
    conf["runtimeConfig"]["portMappings"] = Json::array({tcp, udp});
  }
  return conf;
}

struct Said {
  int status = 0;
  Json json;  // null if nothing was printed
  std::string err;
};

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
    fs::create_directories(kNomadPlugins);
    fs::copy_file(MOUNTD_CNI, "/run/nomad/mountd-cni");
    for (const std::string& name : kChain) {
      fs::create_symlink("../mountd-cni", kNomadPlugins + name);
    }
    StartNode(kChainConfig);
    if (HasFatalFailure()) {
      return;
    }
    // The first network makes the objects that stay for all later ones.
    Prepare();
    ASSERT_EQ(AddAll().status, 0);
    Del();
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
    netns_ = driver->netns_path;
  }
  // Does what the task driver's DestroyNetwork does.
  void End() {
    EXPECT_EQ(Outcome(client_->ReleaseAllocation(allocation_)), "Ok");
  }

  Said Call(const std::string& plugin, const std::string& verb,
            const Json& prev, const Json& more = Json::object()) const {
    Json conf = ConfigOf(plugin);
    conf.update(more);
    if (!prev.is_null()) {
      conf["prevResult"] = prev;
    }
    const std::string input = "/run/in/" + plugin + "-" + verb;
    std::ofstream(input) << conf.dump();
    const std::string netns = verb == "DEL" ? "" : " CNI_NETNS=" + netns_;
    const auto outcome = test::RunProgram(
        {"/bin/sh", "-c",
         "exec setpriv --reuid=60002 --regid=60002 --clear-groups env -i"
         " CNI_COMMAND=" +
             verb + " CNI_CONTAINERID=" + kContainer + netns +
             " CNI_IFNAME=eth0 CNI_PATH=" + kNomadPlugins +
             " MOUNTD_CNI_NETWORK=default " + kNomadPlugins + plugin + " <" +
             input});
    Said said{outcome.status, nullptr, outcome.err};
    if (!outcome.out.empty()) {
      said.json = Json::parse(outcome.out, nullptr, false);
    }
    return said;
  }

  // Runs the chain as libcni does. Ends at the first error, and returns it.
  Said AddAll() {
    Said said;
    std::string lines;
    result_ = nullptr;
    for (const std::string& plugin : kChain) {
      said = Call(plugin, "ADD", result_);
      lines += said.err;
      if (said.status != 0) {
        break;
      }
      result_ = said.json;
    }
    said.err = lines;
    return said;
  }
  void Check() const {
    for (const std::string& plugin : kChain) {
      const Said said = Call(plugin, "CHECK", result_);
      EXPECT_EQ(said.status, 0) << plugin << said.json;
      EXPECT_TRUE(said.json.is_null());
    }
  }
  void Del() const {
    for (auto plugin = kChain.rbegin(); plugin != kChain.rend(); ++plugin) {
      const Said said = Call(*plugin, "DEL", result_);
      EXPECT_EQ(said.status, 0) << *plugin << said.json;
      EXPECT_TRUE(said.json.is_null());
    }
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
  std::string netns_;
  Json result_;
  std::string before_;
};

TEST_F(CniChainNode, FromAddToNothingLeft) {
  const Said added = AddAll();
  ASSERT_EQ(added.status, 0) << added.json << added.err;
  EXPECT_EQ(added.err, "");
  EXPECT_EQ(result_["cniVersion"], "0.4.0");
  ASSERT_EQ(result_["interfaces"].size(), 2U) << result_;
  EXPECT_EQ(result_["interfaces"][1]["name"], "eth0");
  EXPECT_EQ(result_["interfaces"][1]["sandbox"], netns_);
  EXPECT_EQ(result_["ips"][0]["version"], "4");
  EXPECT_EQ(result_["ips"][0]["interface"], 1);
  {
    const Server tcp(held_.path(), 80, "hello");
    const Server udp(held_.path(), 80, "hello", Server::Transport::kUdp);
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
    EXPECT_EQ(AskUdp("127.0.0.1", 8080), "hello");
    EXPECT_EQ(AskFrom(held_.path(), "127.0.0.1", 80), "hello") << "lo is down";
  }
  Check();
  for (int i = 0; i < 2; ++i) {
    Del();
    // The driver's namespace is still the allocation's.
    EXPECT_EQ(NetworkCount(), 1U);
  }
  EXPECT_EQ(Call("bridge", "CHECK", result_).json["code"], 3);
  EXPECT_EQ(Call("portmap", "CHECK", result_).json["code"], 3);
  End();
  ExpectNothingLeft();
  // Nomad may end the namespace, and the allocation with it, before a DEL.
  Del();
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
  const Said added = AddAll();
  ASSERT_EQ(added.status, 0) << added.json << added.err;
  EXPECT_NE(added.err.find("8080/udp is not mapped"), std::string::npos)
      << added.err;
  {
    const Server tcp(held_.path(), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }
  Check();
  Del();
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
    const Said refused = AddAll();
    ASSERT_EQ(refused.status, 1);
    EXPECT_EQ(refused.json["code"], 102) << refused.json;
    // The interface is there, and portmap has not touched it.
    EXPECT_EQ(NetworkCount(), 2U);
  }
  taken.reset();
  const Said added = AddAll();
  ASSERT_EQ(added.status, 0) << added.json;
  Check();
  // And once more, as if the runtime had lost the answer.
  const Said again = AddAll();
  ASSERT_EQ(again.status, 0) << again.json;
  {
    const Server tcp(held_.path(), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }
  Del();
  End();
  ExpectNothingLeft();
}

// Nomad ends the network before the volumes, and the driver, too, keeps the
// allocation then.
TEST_F(CniChainNode, AnAllocationWithMountsOutlivesItsNetworks) {
  ASSERT_EQ(AddAll().status, 0);
  agent::BindMountSpec scratch;
  scratch.task = "server";
  scratch.name = "scratch";
  scratch.source_type = agent::SourceType::kTmpfs;
  scratch.tmpfs.emplace().size = 1U << 20U;
  const auto mounted = client_->BindMount(allocation_, scratch);
  ASSERT_TRUE(mounted) << mounted.error().Message();
  // Without the driver's namespace the bridge is the last network.
  Del();
  ASSERT_EQ(Outcome(client_->TeardownNetwork(allocation_)), "Ok");
  Del();
  const auto status = client_->GetAllocation(allocation_);
  ASSERT_TRUE(status) << status.error().Message();
  EXPECT_EQ(status->networks.size(), 0U);
  EXPECT_EQ(status->mounts.size(), 1U);
  ASSERT_EQ(Outcome(client_->Unmount(allocation_, "server", "scratch")), "Ok");
  // Now nothing is left, and the DEL may release the allocation.
  Del();
  EXPECT_EQ(Outcome(client_->GetAllocation(allocation_)), "NotFound");
  ExpectNothingLeft();
}

// Nomad's configuration has the name of the driver's scope.
TEST_F(CniChainNode, GarbageIsNotTheDriversNamespace) {
  ASSERT_EQ(AddAll().status, 0);
  const Json none = {{"cniVersion", "1.1.0"},
                     {"cni.dev/valid-attachments", Json::array()}};
  for (const std::string& plugin : kChain) {
    const Said collected = Call(plugin, "GC", nullptr, none);
    EXPECT_EQ(collected.status, 0) << plugin << collected.json;
    EXPECT_EQ(Call(plugin, "STATUS", nullptr, none).status, 0) << plugin;
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
  netns_ = "/proc/self/ns/net";
  const Said refused = Call("bridge", "ADD", nullptr);
  ASSERT_EQ(refused.status, 1);
  EXPECT_EQ(refused.json["code"], 104) << refused.json;
  // A failed ADD leaves no allocation.
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mountd::testing
