// SPDX-License-Identifier: LGPL-2.1-or-later
//
// CNI networks through a whole mountd: the agent asks, and an executor runs
// plugins.
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <thread>

#include "tests/root/node/node_cni_fixture.h"
#include "tests/support/naive.h"
#include "tests/support/program.h"

namespace mountd::testing {
namespace {

using Names = std::vector<std::string>;

class NodeCni : public NodeCniFixture {
 protected:
  void WriteNet(const Json& first, const Json& second = {}) {
    WriteNetwork("net.conflist", Network("net", {Plugin("first", first),
                                                 Plugin("second", second)}));
  }
  Names VerbsOf(const std::string& verb) {
    Names names = CallNames();
    std::erase_if(names, [&](const std::string& name) {
      return !name.starts_with(verb + " ");
    });
    return names;
  }
};

TEST_F(NodeCni, AnAllocationGetsWhatItsPluginsMake) {
  WriteNet({});
  agent::NetworkSpec spec = Cni();
  spec.cni_args = {{"K", "V"}};
  spec.hostname = "web";
  const auto made = SetUpNetwork("web", spec);
  ASSERT_EQ(MessageOf(made), "Ok");
  EXPECT_EQ(made->mode, "cni/net");
  EXPECT_EQ(made->interface, "eth0");
  EXPECT_EQ(made->address, "10.1.0.2");
  EXPECT_EQ(made->mac, "02:00:00:00:00:01");
  EXPECT_EQ(made->netns_path, "/run/netns/web");
  EXPECT_EQ(CallNames(), (Names{"ADD first", "ADD second"}));
  const Json call = Calls().at(0);
  EXPECT_EQ(call["container"], "web");
  EXPECT_EQ(call["netns"], "/run/netns/web");
  EXPECT_EQ(call["fds"], Json::array());
  EXPECT_EQ(call["cwd"], "/");
  const Json& environment = call["environment"];
  EXPECT_NE(std::find(environment.begin(), environment.end(),
                      "CNI_ARGS=IgnoreUnknown=1;K=V"),
            environment.end())
      << environment;

  // mountd answers the same call without the plugins, after a restart, too.
  ForgetCalls();
  Kill("mountd");
  const auto again = client_->SetupNetwork("web", spec);
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(again->address, made->address);
  EXPECT_EQ(again->netns_inode, made->netns_inode);
  EXPECT_EQ(VerbsOf("ADD"), Names{});

  Release("web");
  EXPECT_EQ(VerbsOf("DEL"), (Names{"DEL second", "DEL first"}));
  EXPECT_EQ(LeftOf("web"), "");
}

TEST_F(NodeCni, WhatPluginsMayDoIsBounded) {
  WriteNet({});
  ASSERT_EQ(MessageOf(SetUpNetwork("web", Cni())), "Ok");
  // A plugin has only the executor's capabilities, and no way to more.
  const std::string status = Calls().at(0)["status"];
  EXPECT_NE(status.find("NoNewPrivs:\t1"), std::string::npos) << status;
  // SYS_ADMIN, NET_ADMIN, NET_RAW, DAC_READ_SEARCH, CHOWN, SETUID, SETGID,
  // SYS_PTRACE, SYS_CHROOT
  for (const char* set : {"CapPrm", "CapBnd", "CapEff"}) {
    EXPECT_NE(status.find(std::string(set) + ":\t00000000002c30c5"),
              std::string::npos)
        << status;
  }
  Release("web");
}

TEST_F(NodeCni, APartialFailureIsUndoneAndTold) {
  WriteNet({}, {{"ADD", {"error 7"}}});
  const auto made = SetUpNetwork("web", Cni());
  ASSERT_FALSE(made);
  EXPECT_NE(MessageOf(made).find("plugin second"), std::string::npos)
      << MessageOf(made);
  EXPECT_EQ(MessageOf(made).find('\x1b'), std::string::npos);
  // The runner undoes the ADD, and mountd does so again, because it does not
  // know that.
  const Names undone = {"DEL second", "DEL first"};
  Names deletes = VerbsOf("DEL");
  ASSERT_GE(deletes.size(), undone.size());
  deletes.resize(undone.size());
  EXPECT_EQ(deletes, undone);
  EXPECT_EQ(LeftOf("web"), "");
  EXPECT_TRUE(NetworksOf("web").empty());
  Release("web");
}

TEST_F(NodeCni, AHostileResultIsRefusedAndUndone) {
  const std::pair<std::string, std::string> hostile[] = {
      {"good.example options", "FailedPrecondition"},
      {"good.example\nnameserver 198.51.100.66", "Internal"}};
  for (const auto& [search, code] : hostile) {
    Json network = Network("net", {Plugin("first")});
    network["plugins"][0]["fake"]["result"] = {
        {"cniVersion", "1.0.0"},
        {"ips", {{{"address", "10.1.0.2/24"}}}},
        {"dns", {{"search", {search}}}}};
    WriteNetwork("net.conflist", network);
    ForgetCalls();
    const auto made = SetUpNetwork("web", Cni());
    EXPECT_EQ(Outcome(made), code);
    EXPECT_FALSE(VerbsOf("DEL").empty());
    EXPECT_EQ(LeftOf("web"), "");
    Release("web");
    // A naive daemon writes the text into resolv.conf as it is.
    cni::WriteFile("/run/naive-resolv.conf", "search " + search + "\n");
    EXPECT_NAIVE(
        test::RunProgram({"/bin/grep", "-qE", "^nameserver|^search.* options",
                          "/run/naive-resolv.conf"})
            .status == 0);
  }
}

TEST_F(NodeCni, ADelThatFailsIsOwedAndTriedAgain) {
  WriteNet({{"DEL", {"error 7", "ok"}}});
  ASSERT_EQ(MessageOf(SetUpNetwork("web", Cni())), "Ok");
  EXPECT_FALSE(client_->TeardownNetwork("web"));
  const auto owed = client_->ListOwed();
  ASSERT_EQ(MessageOf(owed), "Ok");
  ASSERT_EQ(owed->size(), 1U);
  EXPECT_EQ(owed->at(0).object, "web/eth0");
  EXPECT_TRUE(Eventually([&] { return LeftOf("web").empty(); }));
  EXPECT_TRUE(Eventually([&] { return client_->ListOwed()->empty(); }));
  Release("web");
}

TEST_F(NodeCni, NobodyIsInANetworkThatNoRuleNames) {
  WriteNetwork("other.conflist", Network("other", {Plugin("first")}));
  EXPECT_EQ(Outcome(SetUpNetwork("web", Cni("other"))), "PermissionDenied");
  EXPECT_EQ(Outcome(SetUpNetwork("web", Cni("../net"))), "InvalidArgument");
  EXPECT_EQ(Outcome(SetUpNetwork("web", Cni(".."))), "InvalidArgument");
  EXPECT_EQ(Outcome(SetUpNetwork("web", Cni(""))), "InvalidArgument");
  EXPECT_EQ(Outcome(SetUpNetwork("web", Cni("slow"))), "NotFound");
  agent::NetworkSpec port = Cni();
  port.ports.push_back({.label = "ssh", .host = 22, .container = 22});
  EXPECT_EQ(Outcome(SetUpNetwork("web", port)), "PermissionDenied");
  EXPECT_EQ(CallNames(), Names{});
  EXPECT_EQ(LeftOf("web"), "");
  Release("web");
}

TEST_F(NodeCni, WhatCouldNotBeMadeIsNotInTheWayOfARelease) {
  WriteNetwork("net.conflist", Network("net", {Plugin("missing")}));
  EXPECT_FALSE(SetUpNetwork("web", Cni()));
  EXPECT_EQ(LeftOf("web"), "");
  agent::NetworkSpec spec = Cni();
  spec.mac = "foo";
  EXPECT_EQ(Outcome(SetUpNetwork("web", spec)), "InvalidArgument");
  Release("web");
  EXPECT_TRUE(client_->ListOwed()->empty());
}

TEST_F(NodeCni, CapabilitiesTellWhichNetworksThereAre) {
  WriteNet({});
  WriteNetwork("slow.conflist", Network("slow", {Plugin("missing")}));
  WriteNetwork("other.conflist", Network("other", {Plugin("first")}));
  // mountd caches the list of plugins for a moment.
  std::optional<agent::Capabilities> offers;
  ASSERT_TRUE(Eventually([&] {
    const auto now = client_->GetCapabilities();
    offers = now ? std::optional(*now) : std::nullopt;
    return offers && offers->cni_plugins.contains("first");
  }));
  const Names& modes = offers->network_modes;
  EXPECT_NE(std::find(modes.begin(), modes.end(), "cni/net"), modes.end());
  EXPECT_EQ(std::find(modes.begin(), modes.end(), "cni/slow"), modes.end());
  EXPECT_EQ(std::find(modes.begin(), modes.end(), "cni/other"), modes.end());
  EXPECT_NE(offers->missing["cni/slow"].find("missing"), std::string::npos)
      << offers->missing["cni/slow"];
  EXPECT_EQ(offers->cni_plugins["first"], "1.2.3");
}

TEST_F(NodeCni, ListNetworksTellsWhatTheUserMayUse) {
  WriteNet({});
  WriteNetwork("slow.conflist", Network("slow", {Plugin("missing")}));
  WriteNetwork("other.conflist", Network("other", {Plugin("first")}));
  std::map<std::string, agent::NetworkGrant> granted;  // by mode
  // mountd caches the list of networks for a moment.
  ASSERT_TRUE(Eventually([&] {
    const auto now = client_->ListNetworks();
    granted.clear();
    if (now) {
      for (const agent::NetworkGrant& network : *now) {
        granted[network.mode] = network;
      }
    }
    return granted.contains("cni/slow");
  }));
  EXPECT_EQ(granted.at("cni/net").unusable, "");
  EXPECT_NE(granted.at("cni/slow").unusable.find("missing"), std::string::npos)
      << granted.at("cni/slow").unusable;
  EXPECT_FALSE(granted.contains("cni/other")) << "no rule names it";
  ASSERT_EQ(granted.at("bridge").host_ports.size(), 1U);
  EXPECT_EQ(granted.at("bridge").host_ports[0].first, 20000U);
}

TEST_F(NodeCni, SeveralNetworksAreInOneNamespace) {
  WriteNet({});
  const auto first = SetUpNetwork("web", Cni());
  ASSERT_EQ(MessageOf(first), "Ok");
  agent::NetworkSpec bridge;
  bridge.interface = "eth1";
  const auto second = client_->SetupNetwork("web", bridge);
  ASSERT_EQ(MessageOf(second), "Ok");
  EXPECT_EQ(second->netns_inode, first->netns_inode);
  ASSERT_EQ(MessageOf(client_->SetupNetwork("web", Cni("net", "net1"))), "Ok");
  EXPECT_EQ(NetworksOf("web").size(), 3U);
  Release("web");
  EXPECT_EQ(LeftOf("web"), "");
}

// Two allocations whose plugins wait for each other both finish side by side.
TEST_F(NodeCni, AllocationsDoNotWaitForEachOthersPlugins) {
  WriteNet({{"ADD", {"wait /run/go", "ok"}}});
  std::thread slow([&] {
    const auto other = node_->Connect();
    ASSERT_EQ(MessageOf(other), "Ok");
    auto& client = const_cast<agent::Client&>(*other);
    EXPECT_EQ(MessageOf(client.PrepareAllocation("slow")), "Ok");
    EXPECT_EQ(MessageOf(client.SetupNetwork("slow", Cni())), "Ok");
    EXPECT_EQ(MessageOf(client.ReleaseAllocation("slow")), "Ok");
  });
  EXPECT_TRUE(Eventually([&] { return !CallNames().empty(); }));
  EXPECT_EQ(MessageOf(SetUpNetwork("fast", Cni())), "Ok");
  cni::WriteFile("/run/go", "");
  slow.join();
  Release("fast");
}

// The victims are mountd, its executors, the plugin itself, and the runner's
// two processes, each of which removes what the other one left. If both are
// killed at once, only a cgroup of the plugin's own ends the processes that the
// plugin started (tests/systemd/cni_cgroup_test.cc).
class NodeCniKills : public NodeCni,
                     public ::testing::WithParamInterface<const char*> {
 protected:
  void KillIt() {
    const std::string victim = GetParam();
    if (victim == "mountd" || victim == "mountdexec") {
      return Kill(victim == "mountd" ? "mountd" : "mountd-exec");
    }
    if (victim == "plugin") {
      std::vector<UniqueFd> plugin = Node::Processes("second");
      ASSERT_FALSE(plugin.empty());
      return Node::Kill(plugin);
    }
    std::vector<UniqueFd> runner = Node::Processes("mountd-cni-run");
    ASSERT_EQ(runner.size(), 2U);
    if (victim == "guard") {
      runner.erase(runner.begin() + 1);
    } else if (victim == "worker") {
      runner.erase(runner.begin());
    }
    Node::Kill(runner);
  }
  // Kills the victim while a plugin hangs in `call`. True if the call
  // succeeded.
  bool KillDuring(const std::function<Result<void>(agent::Client&)>& call) {
    bool succeeded = false;
    std::thread caller([&] {
      auto other = node_->Connect();
      ASSERT_EQ(MessageOf(other), "Ok");
      succeeded = call(*other).has_value();
    });
    EXPECT_TRUE(Eventually([&] { return Daemons().size() == 1; }));
    KillIt();
    caller.join();
    EXPECT_TRUE(Eventually([&] {
      const auto daemons = Daemons();
      return std::none_of(daemons.begin(), daemons.end(), cni::IsAlive);
    }));
    return succeeded;
  }
};

TEST_P(NodeCniKills, InTheMiddleOfAnAddNothingIsLeft) {
  WriteNet({}, {{"ADD", {"hang", "ok"}}});
  ASSERT_EQ(MessageOf(client_->PrepareAllocation("web")), "Ok");
  // The runner undoes what a killed plugin has left, and tries again.
  EXPECT_EQ(KillDuring([](agent::Client& client) -> Result<void> {
              MOUNTD_TRY(client.SetupNetwork("web", Cni()));
              return Ok();
            }),
            std::string(GetParam()) == "plugin");
  // The retry of pending tear-downs has undone the rest, if the call itself has
  // not.
  ASSERT_EQ(MessageOf(client_->SetupNetwork("web", Cni())), "Ok");
  EXPECT_EQ(NetworksOf("web").size(), 1U);
  Release("web");
  EXPECT_EQ(LeftOf("web"), "");
}

TEST_P(NodeCniKills, InTheMiddleOfADelTheNextOneFinishes) {
  WriteNet({}, {{"DEL", {"hang", "ok"}}});
  ASSERT_EQ(MessageOf(SetUpNetwork("web", Cni())), "Ok");
  ForgetCalls();
  // A client that connects again repeats the call, so the call may succeed.
  KillDuring([](agent::Client& client) -> Result<void> {
    return client.TeardownNetwork("web");
  });
  EXPECT_TRUE(Eventually(
      [&] { return Outcome(client_->TeardownNetwork("web")) == "Ok"; }));
  EXPECT_TRUE(NetworksOf("web").empty());
  // All plugins were called, in the order of a DEL.
  const std::vector<std::string> calls = CallNames();
  const std::vector<std::string> last = {"DEL second", "DEL first"};
  EXPECT_TRUE(calls.size() > last.size() &&
              std::equal(last.rbegin(), last.rend(), calls.rbegin()))
      << ::testing::PrintToString(calls);
  Release("web");
  EXPECT_EQ(LeftOf("web"), "");
}

INSTANTIATE_TEST_SUITE_P(Of, NodeCniKills,
                         ::testing::Values("mountd", "mountdexec", "guard",
                                           "worker", "plugin"),
                         [](const auto& test) {
                           return std::string(test.param);
                         });

TEST_F(NodeCni, APluginThatHangsIsEndedAtItsTime) {
  WriteNet({{"ADD", {"hang"}}});
  EXPECT_EQ(Outcome(SetUpNetwork("web", Cni())), "DeadlineExceeded");
  const auto daemons = Daemons();
  EXPECT_TRUE(std::none_of(daemons.begin(), daemons.end(), cni::IsAlive));
  EXPECT_EQ(LeftOf("web"), "");
  Release("web");
  // A naive runner ends the plugin alone, and the plugin's daemon stays.
  ForgetCalls();
  Json config = Plugin("first", {{"ADD", {"hang"}}});
  config["cniVersion"] = "1.0.0";
  cni::WriteFile("/run/config", config.dump());
  test::RunProgram({"/usr/bin/timeout", "1", "/bin/sh", "-c",
                    "CNI_COMMAND=ADD exec /run/plugins/first </run/config "
                    ">/dev/null 2>&1"});
  const auto left = Daemons();
  EXPECT_NAIVE(std::any_of(left.begin(), left.end(), cni::IsAlive));
  for (const int daemon : left) {
    ::kill(daemon, SIGKILL);
  }
}

class NodeWithoutCni : public NodeCniFixture {
 protected:
  std::string Config() const override {
    return "[[rule]]\nusers = [\"agent\"]\nnetworks = [\"cni/*\"]\n";
  }
};

TEST_F(NodeWithoutCni, ThereIsNone) {
  EXPECT_EQ(Outcome(SetUpNetwork("web", Cni())), "NotSupported");
  const auto offers = client_->GetCapabilities();
  ASSERT_EQ(MessageOf(offers), "Ok");
  EXPECT_FALSE(offers->features.at("cni"));
  EXPECT_NE(offers->missing.at("cni").find("[cni]"), std::string::npos);
}

}  // namespace
}  // namespace mountd::testing
