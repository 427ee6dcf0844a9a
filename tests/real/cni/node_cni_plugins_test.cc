// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The CNI project's own plugins through a whole mountd, as an agent asks for
// them.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <optional>
#include <thread>

#include "tests/real/cni/debian_plugins.h"
#include "tests/root/node/node_cni_fixture.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

using cni::Lines;
using cni::WhatPluginsLeft;

class NodeCniPlugins : public NodeCniFixture {
 protected:
  void SetUp() override {
    NodeCniFixture::SetUp();
    for (const std::string& why :
         {cni::WhyNoPlugins(), cni::WhyNoLink("bridge")}) {
      if (!why.empty()) {
        GTEST_SKIP() << why;
      }
    }
    WriteReal(
        cni::NomadsPlugins(cni::HostLocal("172.26.64.0/20", "fd00:26::/64")));
  }

  std::string Config() const override {
    return R"(
[cni]
config_dirs = ["/run/networks"]
plugin_dirs = ["/usr/lib/cni", "/run/plugins"]
[[rule]]
users = ["agent"]
networks = ["cni/net"]
host_ports = ["20000-20999"]
)";
  }

  static void WriteReal(const std::vector<Json>& plugins) {
    Json network = Network("net", plugins);
    network["cniVersion"] = "0.4.0";
    WriteNetwork("1.conflist", network);
  }

  static agent::NetworkSpec WithPort(std::uint16_t host = 20080) {
    agent::NetworkSpec spec = Cni();
    spec.ports.push_back({.label = "http", .host = host, .container = 80});
    return spec;
  }

  // Returns what the first attachment leaves for all (chains, the bridge).
  Lines AfterOthers() {
    EXPECT_EQ(MessageOf(SetUpNetwork("first", WithPort(20999))), "Ok");
    Release("first");
    return WhatPluginsLeft();
  }
};

TEST_F(NodeCniPlugins, NomadsChainGivesAnAddressAndPortsThatAnswer) {
  const Lines before = AfterOthers();
  const auto made = SetUpNetwork("web", WithPort());
  ASSERT_EQ(MessageOf(made), "Ok");
  EXPECT_EQ(made->address.find("172.26."), 0U) << made->address;
  EXPECT_EQ(made->address6.find("fd00:26::"), 0U) << made->address6;
  EXPECT_EQ(made->gateway, "172.26.64.1");
  EXPECT_EQ(made->mac.size(), 17U);
  EXPECT_TRUE(made->default_route);
  {
    const Server server(made->netns_path, 80, "hello");
    EXPECT_EQ(Ask(made->address, 80), "hello");
    EXPECT_EQ(Ask("172.26.64.1", 20080), "hello");
  }
  EXPECT_NE(WhatPluginsLeft(), before);
  Release("web");
  EXPECT_EQ(WhatPluginsLeft(), before);
  EXPECT_EQ(LeftOf("web"), "");
}

TEST_F(NodeCniPlugins, ManyAtOnceHaveAddressesOfTheirOwn) {
  const Lines before = AfterOthers();
  std::vector<std::string> addresses(6);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < addresses.size(); ++i) {
    threads.emplace_back([&, i] {
      auto client = node_->Connect();
      ASSERT_EQ(MessageOf(client), "Ok");
      const std::string id = "web" + std::to_string(i);
      ASSERT_EQ(MessageOf(client->PrepareAllocation(id)), "Ok");
      const auto made = client->SetupNetwork(
          id, WithPort(static_cast<std::uint16_t>(20100 + i)));
      ASSERT_EQ(MessageOf(made), "Ok");
      addresses[i] = made->address;
      EXPECT_EQ(MessageOf(client->ReleaseAllocation(id)), "Ok");
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(std::count(addresses.begin(), addresses.end(), ""), 0);
  EXPECT_EQ(WhatPluginsLeft(), before);
}

// host-local's list of leases outlives mountd, and the second network asks for
// a port that the first one still has.
TEST_F(NodeCniPlugins, OneThatIsKilledMeanwhileLeavesNothing) {
  const Lines before = AfterOthers();
  for (const char* victim : {"mountd", "mountd-exec"}) {
    SCOPED_TRACE(victim);
    ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
    std::thread caller([&] {
      auto client = node_->Connect();
      ASSERT_EQ(MessageOf(client), "Ok");
      IgnoreBecauseBestEffort(client->SetupNetwork("web", WithPort()));
    });
    EXPECT_TRUE(Eventually([&] { return WhatPluginsLeft() != before; }));
    Kill(victim);
    caller.join();
    ASSERT_EQ(MessageOf(client_->SetupNetwork("web", WithPort())), "Ok");
    Release("web");
    EXPECT_EQ(WhatPluginsLeft(), before);
    EXPECT_EQ(LeftOf("web"), "");
  }
}

// host-local's leases are on the disk, so a container of the same name would
// get no second one.
TEST_F(NodeCniPlugins, AfterARebootWhatIsSetUpAgainIsNoDuplicate) {
  ASSERT_EQ(MessageOf(SetUpNetwork("web", WithPort())), "Ok");
  ASSERT_EQ(MessageOf(SetUpNetwork("gone", WithPort(20081))), "Ok");
  EXPECT_EQ(cni::Leases().size(), 4U);
  ASSERT_NO_FATAL_FAILURE(Reboot());
  EXPECT_EQ(MessageOf(SetUpNetwork("web", WithPort())), "Ok");
  // The lease of a network that nobody sets up again goes by itself.
  EXPECT_TRUE(Eventually([&] { return cni::Leases().size() == 2; }));
  Release("web");
  EXPECT_EQ(cni::Leases(), Lines{});
  EXPECT_TRUE(std::filesystem::is_empty("/var/lib/mountd-cni"));
}

TEST_F(NodeCniPlugins, AFailureHalfWayLeavesNothing) {
  auto plugins = cni::NomadsPlugins(cni::HostLocal("172.26.64.0/20"));
  WriteReal(plugins);
  const Lines before = AfterOthers();
  plugins.push_back(Plugin("first", {{"ADD", {"error 7"}}}));
  WriteReal(plugins);
  const auto made = SetUpNetwork("web", WithPort());
  ASSERT_FALSE(made);
  EXPECT_NE(MessageOf(made).find("plugin first"), std::string::npos)
      << MessageOf(made);
  EXPECT_EQ(WhatPluginsLeft(), before);
  EXPECT_EQ(LeftOf("web"), "");
  Release("web");
}

TEST_F(NodeCniPlugins, CapabilitiesNameThePlugins) {
  // mountd caches the list of networks for a moment.
  std::optional<agent::Capabilities> offers;
  ASSERT_TRUE(Eventually([&] {
    const auto now = client_->GetCapabilities();
    offers = now ? std::optional(*now) : std::nullopt;
    const auto& modes = offers->network_modes;
    return std::find(modes.begin(), modes.end(), "cni/net") != modes.end();
  }));
  for (const char* plugin : {"bridge", "firewall", "portmap", "host-local"}) {
    EXPECT_TRUE(offers->cni_plugins.contains(plugin)) << plugin;
  }
}

}  // namespace
}  // namespace mountd::testing
