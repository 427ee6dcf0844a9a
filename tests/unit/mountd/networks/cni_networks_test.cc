// SPDX-License-Identifier: LGPL-2.1-or-later
//
// CNI networks as mountd keeps them: the requests to plugins, the use of their
// answers, and the undoing.
#include <gtest/gtest.h>

#include "mountd/base/operation_trace.h"
#include "mountd/networks/cni_documents.h"
#include "mountd/networks/networks.h"
#include "netns/cni/documents/json.h"
#include "tests/support/fakes/core.h"
#include "tests/support/fakes/failing_store.h"
#include "tests/support/outcome.h"

namespace mountd {
namespace {

using cni::Json;

NetworkRequest CniSpec(const std::string& network = "net") {
  NetworkRequest spec;
  spec.mode = NetworkMode::kCni;
  spec.network = network;
  return spec;
}

class CniNetworksTest : public ::testing::Test {
 protected:
  exec::FakeExecutor& executor() { return *core_.executor; }
  Networks& networks() { return *core_.networks; }
  std::vector<std::string> Existing() { return executor().Existing(); }
  Json LastRequest() {
    return Json::parse(executor().cni_requests().back(), nullptr, false);
  }
  std::string SetUpNetwork(const NetworkRequest& spec,
                           const std::string& id = "web") {
    return MessageOf(networks().Setup(id, spec));
  }
  NetworkStatus Status(const std::string& id = "web") {
    return networks().Of(id).value().at(0);
  }
  std::vector<NetworkRecord> Records() {
    return core_.boot->networks.ListNetworks().value();
  }

  const std::vector<std::string> web_ = {"cni web/eth0", "network web"};
  Core core_;
};

TEST_F(CniNetworksTest, PluginsAreInTheTraceOfTheOperation) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  EXPECT_FALSE(LastRequest().contains("traceparent"));
  OperationTrace trace(
      {ParseTraceParent(
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
       ""},
      OperationTrace::Clock::now());
  const CurrentTrace current(&trace);
  ASSERT_EQ(SetUpNetwork(CniSpec(), "db"), "Ok");
  EXPECT_EQ(
      LastRequest()["traceparent"],
      "00-0af7651916cd43dd8448eb211c80319c-" + ToHex(trace.span_id()) + "-01");
  ASSERT_EQ(MessageOf(networks().Teardown("db", "eth0")), "Ok");
  EXPECT_TRUE(LastRequest().contains("traceparent"));
}

TEST_F(CniNetworksTest, TheNamespaceComesFirstAndThenWhatItsPluginsMake) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  EXPECT_EQ(Existing(), web_);
  const NetworkStatus status = Status();
  EXPECT_EQ(ModeText(status.mode, status.network), "cni/net");
  EXPECT_EQ(status.interface, "eth0");
  EXPECT_EQ(status.netns_path, "/run/netns/web");
  EXPECT_NE(status.netns_inode, 0U);
  EXPECT_EQ(netns::ToString(status.ipv4), "10.99.0.2");
  EXPECT_EQ(netns::ToString(status.gateway4), "10.99.0.1");
  EXPECT_EQ(status.mac, "0a:00:00:00:00:02");
  EXPECT_EQ(status.host_interface, "");
  EXPECT_TRUE(status.default_route);

  const exec::CniPlan plan = executor().plans().back().body.cni;
  EXPECT_EQ(plan.verb, exec::CniVerb::kAdd);
  EXPECT_EQ(plan.network.view(), "net");
  EXPECT_EQ(plan.netns_inode, status.netns_inode);
}

TEST_F(CniNetworksTest, PluginsAreAskedForWhatTheCallerAsks) {
  NetworkRequest spec = CniSpec();
  spec.interface = "net1";
  spec.ports.push_back({"a", 20000, 80, exec::kTcp | exec::kUdp, 2});
  spec.ports.back().host_address = *netns::ParseHostIp("127.0.0.1");
  spec.cni.args = {{"K", "V"}};
  spec.cni.mac = "02:00:00:00:00:09";
  spec.cni.ips = {"10.99.0.9/24"};
  spec.cni.bandwidth.ingress_rate = 1000;
  spec.files.dns.servers = {"192.0.2.53"};
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  const Json request = LastRequest();
  EXPECT_EQ(request.at("network"), "net");
  EXPECT_EQ(request.at("container_id"), "web");
  EXPECT_EQ(request.at("ifname"), "net1");
  EXPECT_EQ(request.at("args"), Json({{"K", "V"}}));
  EXPECT_EQ(request.at("mac"), "02:00:00:00:00:09");
  EXPECT_EQ(request.at("ips"), Json({"10.99.0.9/24"}));
  EXPECT_EQ(request.at("bandwidth").at("ingressRate"), 1000);
  EXPECT_EQ(request.at("dns").at("servers"), Json({"192.0.2.53"}));
  ASSERT_EQ(request.at("port_mappings").size(), 4U);
  EXPECT_EQ(request.at("port_mappings").at(3), Json({{"hostPort", 20001},
                                                     {"containerPort", 81},
                                                     {"protocol", "udp"},
                                                     {"hostIP", "127.0.0.1"}}));
  EXPECT_EQ(networks().CountFreePorts(20000, 20001), 0U);
}

TEST_F(CniNetworksTest, TheSameAgainAnswersTheSameAfterARestart) {
  NetworkRequest spec = CniSpec();
  spec.cni.args = {{"K", "V"}};
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  const NetworkStatus before = Status();
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  EXPECT_EQ(Status().ipv4, before.ipv4);
  EXPECT_EQ(Status().gateway4, before.gateway4);
  EXPECT_EQ(Status().mac, before.mac);
  EXPECT_EQ(Status().netns_inode, before.netns_inode);
  EXPECT_EQ(executor().script().Count("RunCni"), 1U);

  spec.cni.args = {{"K", "other"}};
  EXPECT_EQ(Outcome(networks().Setup("web", spec)), "FailedPrecondition");
}

TEST_F(CniNetworksTest, ItsEndIsDelAndThenTheNamespace) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  ASSERT_EQ(MessageOf(networks().Teardown("web", "eth0")), "Ok");
  EXPECT_TRUE(Existing().empty());
  EXPECT_TRUE(Records().empty());
  const auto plans = executor().plans();
  EXPECT_EQ(plans.at(plans.size() - 2).body.cni.verb, exec::CniVerb::kDel);
  EXPECT_EQ(plans.back().kind, exec::PlanKind::kDeleteNetwork);
  EXPECT_TRUE(core_.boot->networks.ListQuarantine()->empty());
}

TEST_F(CniNetworksTest, AFailedAddIsUndone) {
  executor().FailNext("RunCni", Code::kUnavailable);
  EXPECT_EQ(Outcome(networks().Setup("web", CniSpec())), "Unavailable");
  EXPECT_TRUE(Existing().empty());
  EXPECT_TRUE(Records().empty());
}

TEST_F(CniNetworksTest, AnAddWhoseAnswerIsLostIsUndone) {
  executor().FailNext("RunCni", Code::kDeadlineExceeded, FailWhen::kAfter);
  EXPECT_EQ(Outcome(networks().Setup("web", CniSpec())), "DeadlineExceeded");
  EXPECT_TRUE(Existing().empty());
  EXPECT_TRUE(Records().empty());
}

TEST_F(CniNetworksTest, ADelThatFailsIsTriedAgain) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  executor().FailNext("RunCni", Code::kUnavailable);
  EXPECT_EQ(Outcome(networks().Teardown("web", "eth0")), "Unavailable");
  EXPECT_EQ(Existing(), web_);
  EXPECT_EQ(Records().at(0).state, NetworkRecordState::kDeleting);
  EXPECT_EQ(MessageOf(networks().Teardown("web", "eth0")), "Ok");
  EXPECT_TRUE(Existing().empty());
}

TEST_F(CniNetworksTest, OneThatWasCutOffIsUndoneByTheNextTeardown) {
  executor().FailNext("RunCni", Code::kUnavailable, FailWhen::kAfter, 2);
  EXPECT_EQ(Outcome(networks().Setup("web", CniSpec())), "Unavailable");
  EXPECT_EQ(Records().size(), 1U);
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(Records().size(), 1U) << "a start waits for no plugin: it is owed";
  ASSERT_EQ(MessageOf(networks().Teardown("web", "eth0")), "Ok");
  EXPECT_TRUE(Existing().empty());
  EXPECT_TRUE(Records().empty());
}

TEST_F(CniNetworksTest, WhatPluginsCannotBeAskedIsRefusedBeforeAnythingIsMade) {
  const auto refuse = [&](const char* what, const auto& change) {
    NetworkRequest spec = CniSpec();
    change(spec);
    EXPECT_EQ(Outcome(networks().Setup("web", spec)), "InvalidArgument")
        << what;
  };
  refuse("key", [](NetworkRequest& spec) { spec.cni.args = {{"a b", "x"}}; });
  refuse("value", [](NetworkRequest& spec) { spec.cni.args = {{"A", "x=y"}}; });
  refuse("own", [](NetworkRequest& s) {
    s.cni.args = {{"IgnoreUnknown", "0"}};
  });
  refuse("mac", [](NetworkRequest& spec) { spec.cni.mac = "foo"; });
  refuse("ip", [](NetworkRequest& spec) { spec.cni.ips = {"10.0.0.1/33"}; });
  refuse("interface", [](NetworkRequest& spec) { spec.interface = "eth[0]"; });
  refuse("bits", [](NetworkRequest& spec) {
    spec.cni.bandwidth.egress_burst = std::uint64_t{1} << 63U;
  });
  EXPECT_TRUE(executor().plans().empty());
}

TEST_F(CniNetworksTest, OneIsBesideOthersInTheNamespace) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  NetworkRequest bridge;
  bridge.interface = "eth1";
  ASSERT_EQ(SetUpNetwork(bridge), "Ok");
  NetworkRequest second = CniSpec("other");
  second.interface = "net1";
  ASSERT_EQ(SetUpNetwork(second), "Ok");
  EXPECT_EQ(Existing(),
            (std::vector<std::string>{"cni web/eth0", "cni web/net1",
                                      "link 10.0.0.2", "network web"}));
  // The plugins have made the default route.
  const std::vector<NetworkRecord> records = Records();
  EXPECT_EQ(records.at(1).flags & exec::kDefaultRoute, 0U);

  ASSERT_EQ(MessageOf(networks().Teardown("web", "eth0")), "Ok");
  EXPECT_EQ(Existing(), (std::vector<std::string>{
                            "cni web/net1", "link 10.0.0.2", "network web"}));
  ASSERT_EQ(MessageOf(networks().Teardown("web", "eth1")), "Ok");
  ASSERT_EQ(MessageOf(networks().Teardown("web", "net1")), "Ok");
  EXPECT_TRUE(Existing().empty());
}

TEST_F(CniNetworksTest, ANetworkOfTheSameNameIsAnother) {
  ASSERT_EQ(SetUpNetwork(CniSpec("default")), "Ok");
  const auto usage = networks().GetUsage().at("default");
  EXPECT_EQ(usage.free, usage.capacity);
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(networks().GetUsage().at("default").free, usage.free);
}

TEST_F(CniNetworksTest, WhatIsMountdsOrCnisAloneIsRefusedToTheOther) {
  NetworkRequest spec = CniSpec();
  spec.isolated = true;
  EXPECT_EQ(Outcome(networks().Setup("web", spec)), "InvalidArgument");
  spec = CniSpec();
  spec.ipv4 = *netns::ParseIpv4("10.0.0.9");
  EXPECT_EQ(Outcome(networks().Setup("web", spec)), "InvalidArgument");
  NetworkRequest bridge;
  bridge.cni.mac = "02:00:00:00:00:01";
  EXPECT_EQ(Outcome(networks().Setup("web", bridge)), "InvalidArgument");
  // These names are valid for mountd, but not for a CNI container or network.
  EXPECT_EQ(Outcome(networks().Setup("web[0]", CniSpec())), "InvalidArgument");
  EXPECT_EQ(Outcome(networks().Setup("web", CniSpec("-x"))), "InvalidArgument");
  EXPECT_TRUE(Existing().empty());
}

TEST_F(CniNetworksTest, ThePluginsNameServersAreTheTasks) {
  executor().SetCniResult(R"({"cniVersion":"1.0.0",
      "ips":[{"address":"10.9.0.5/24"}],
      "dns":{"nameservers":["10.9.0.1"],"domain":"example.","search":["a."],
             "options":["ndots:2"]}})");
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  EXPECT_EQ(executor().NetworkFileText("web/3"),
            "nameserver 10.9.0.1\nsearch example. a.\noptions ndots:2\n");
  ASSERT_EQ(Status().files.size(), 1U);
  EXPECT_EQ(Status().files[0].task_path, "/etc/resolv.conf");
  EXPECT_EQ(Status().dns.servers, std::vector<std::string>{"10.9.0.1"});
  ASSERT_EQ(MessageOf(networks().Teardown("web", "eth0")), "Ok");
  EXPECT_TRUE(Existing().empty());
}

TEST_F(CniNetworksTest, TheCallersNameServersComeBeforeThePlugins) {
  executor().SetCniResult(R"({"cniVersion":"1.0.0",
      "ips":[{"address":"10.9.0.5/24"}],"dns":{"nameservers":["10.9.0.1"]}})");
  NetworkRequest spec = CniSpec();
  spec.files.dns.servers = {"192.0.2.53"};
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  EXPECT_EQ(executor().NetworkFileText("web/3"), "nameserver 192.0.2.53\n");
  // A second network of the allocation does not change the file any more.
  NetworkRequest second = CniSpec();
  second.interface = "net1";
  ASSERT_EQ(SetUpNetwork(second), "Ok");
  EXPECT_EQ(executor().NetworkFileText("web/3"), "nameserver 192.0.2.53\n");
  ASSERT_EQ(MessageOf(networks().Teardown("web", "net1")), "Ok");
  EXPECT_EQ(executor().NetworkFileText("web/3"), "nameserver 192.0.2.53\n");
}

TEST_F(CniNetworksTest, AnotherNetworkWithoutFilesLeavesThemToThePlugins) {
  executor().SetCniResult(R"({"cniVersion":"1.0.0",
      "ips":[{"address":"10.9.0.5/24"}],"dns":{"nameservers":["10.9.0.1"]}})");
  ASSERT_EQ(SetUpNetwork({}), "Ok");
  NetworkRequest spec = CniSpec();
  spec.interface = "net1";
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  EXPECT_EQ(executor().NetworkFileText("web/3"), "nameserver 10.9.0.1\n");
}

// The hosts file needs an address, and an IPv6 address alone is enough.
TEST_F(CniNetworksTest, AnAddressOfEitherFamilyIsOne) {
  executor().SetCniResult(R"({"cniVersion":"1.0.0",
      "ips":[{"address":"fd00::5/64","gateway":"fd00::1"}]})");
  NetworkRequest spec = CniSpec();
  spec.files.hostname = "web";
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  EXPECT_EQ(netns::ToString(Status().ipv6), "fd00::5");
  EXPECT_EQ(netns::ToString(Status().gateway6), "fd00::1");
  EXPECT_TRUE(netns::IsNone(Status().ipv4));
  EXPECT_NE(executor().NetworkFileText("web/1").find("fd00::5 web"),
            std::string::npos)
      << executor().NetworkFileText("web/1");
}

TEST_F(CniNetworksTest, AHostileResultIsRefusedAndUndone) {
  for (const char* result :
       {"[]", "{}", R"({"cniVersion":"1.0.0","ips":[]})",
        R"({"cniVersion":"1.0.0","ips":[{"address":"nonsense"}]})",
        R"({"cniVersion":"1.0.0","ips":[{"address":"10.0.0.1/99"}]})",
        R"({"cniVersion":"1.0.0","ips":[{"address":"10.9.0.5/24"}],
            "dns":{"nameservers":["evil.example"]}})",
        R"({"cniVersion":"1.0.0","ips":[{"address":"10.9.0.5/24"}],
            "dns":{"search":["a b"]}})",
        R"({"cniVersion":"1.0.0","ips":[{"address":"10.9.0.5/24"}],
            "dns":{"options":["x\nnameserver 6.6.6.6"]}})"}) {
    executor().SetCniResult(result);
    EXPECT_NE(SetUpNetwork(CniSpec()), "Ok") << result;
    EXPECT_TRUE(Existing().empty()) << result;
    EXPECT_TRUE(Records().empty()) << result;
  }
}

TEST_F(CniNetworksTest, GarbageIsWhatNoRecordIsOf) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  ASSERT_EQ(MessageOf(networks().cni().CollectGarbage()), "Ok");
  EXPECT_EQ(LastRequest().at("valid"),
            Json({{{"container_id", "web"}, {"ifname", "eth0"}}}));
  EXPECT_EQ(Existing(), web_);
  ASSERT_EQ(MessageOf(core_.boot->networks.RemoveNetwork(Records().at(0))),
            "Ok");
  // The network's record is gone, and so may be the whole store.
  ASSERT_EQ(MessageOf(networks().cni().CollectGarbage()), "Ok");
  EXPECT_EQ(LastRequest(), Json({{"earlier_boots", true}}));
  EXPECT_EQ(Existing(), web_);
  ASSERT_EQ(SetUpNetwork({}, "db"), "Ok");
  ASSERT_EQ(MessageOf(networks().cni().CollectGarbage()), "Ok");
  EXPECT_EQ(Existing(), (std::vector<std::string>{"link 10.0.0.2", "network db",
                                                  "network web"}));
}

TEST_F(CniNetworksTest, NothingOfThisBootIsGarbageAfterTheStoreWasLost) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  ASSERT_EQ(MessageOf(core_.boot->networks.RemoveNetwork(Records().at(0))),
            "Ok");
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  ASSERT_FALSE(Records().empty()) << "recovery finds the namespace";
  ASSERT_EQ(MessageOf(networks().cni().CollectGarbage()), "Ok");
  EXPECT_EQ(LastRequest(), Json({{"earlier_boots", true}}));
  EXPECT_EQ(Existing(), web_);
}

// The allocation's attachment still has no record, even if mountd starts again
// before its agent repeats the call.
TEST_F(CniNetworksTest, NorOnceACallHasTakenOverWhatWasFound) {
  NetworkRequest second = CniSpec();
  second.interface = "eth1";
  ASSERT_EQ(SetUpNetwork({}), "Ok");
  ASSERT_EQ(SetUpNetwork(second), "Ok");
  for (const NetworkRecord& record : Records()) {
    ASSERT_EQ(MessageOf(core_.boot->networks.RemoveNetwork(record)), "Ok");
  }
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  ASSERT_EQ(SetUpNetwork({}), "Ok");
  core_.Restart();
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  ASSERT_EQ(Records().size(), 1U);
  EXPECT_EQ(Records().at(0).state, NetworkRecordState::kCreated);
  const std::vector<std::string> all = {"cni web/eth1", "link 10.0.0.2",
                                        "network web"};
  ASSERT_EQ(MessageOf(networks().cni().CollectGarbage()), "Ok");
  EXPECT_EQ(LastRequest(), Json({{"earlier_boots", true}}));
  EXPECT_EQ(Existing(), all);
  ASSERT_EQ(SetUpNetwork(second), "Ok");
  EXPECT_EQ(Existing(), all);

  // Without the network that was taken over, the records are whole again.
  ASSERT_EQ(MessageOf(networks().Teardown("web", "eth0")), "Ok");
  ASSERT_EQ(MessageOf(networks().cni().CollectGarbage()), "Ok");
  EXPECT_EQ(LastRequest().at("valid"),
            Json({{{"container_id", "web"}, {"ifname", "eth1"}}}));
}

TEST_F(CniNetworksTest, CheckTellsWhatItsPluginsFind) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  EXPECT_EQ(MessageOf(networks().cni().Check(Records().at(0))), "Ok");
  executor().BreakCni("web/eth0");
  const auto broken = networks().cni().Check(Records().at(0));
  EXPECT_EQ(Outcome(broken), "FailedPrecondition");
  EXPECT_NE(MessageOf(broken).find("plugin fake: it is gone"),
            std::string::npos)
      << MessageOf(broken);
}

TEST_F(CniNetworksTest, AnOldPortmapIsNotAskedAboutPorts) {
  NetworkRequest spec = CniSpec();
  spec.ports.push_back({"http", 20000, 80, exec::kTcp});
  for (const char* release : {"1.1.1", "", "unknown", "0.9", "1."}) {
    executor().PutCniPlugin("portmap", release);
    core_.Restart();
    ASSERT_EQ(SetUpNetwork(spec), "Ok");
    executor().BreakCni("web/eth0");
    EXPECT_EQ(MessageOf(networks().cni().Check(Records().at(0))), "Ok");
  }
}

TEST_F(CniNetworksTest, ANewerPortmapIsAskedAboutPorts) {
  NetworkRequest spec = CniSpec();
  spec.ports.push_back({"http", 20000, 80, exec::kTcp});
  for (const char* release : {"1.10.0", "1.3", "2.0.1"}) {
    executor().PutCniPlugin("portmap", release);
    core_.Restart();
    ASSERT_EQ(SetUpNetwork(spec), "Ok");
    executor().BreakCni("web/eth0");
    EXPECT_EQ(Outcome(networks().cni().Check(Records().at(0))),
              "FailedPrecondition")
        << release;
  }
}

TEST_F(CniNetworksTest, WithoutAPortmapOtherPluginsAreAskedAboutPorts) {
  NetworkRequest spec = CniSpec();
  spec.ports.push_back({"http", 20000, 80, exec::kTcp});
  ASSERT_EQ(SetUpNetwork(spec), "Ok");
  executor().BreakCni("web/eth0");
  executor().FailNext("RunCni", Code::kUnavailable);
  EXPECT_EQ(Outcome(networks().cni().Check(Records().at(0))), "Unavailable")
      << "which plugins there are is not known";
  EXPECT_EQ(Outcome(networks().cni().Check(Records().at(0))),
            "FailedPrecondition");
}

TEST_F(CniNetworksTest, TheListTellsWhatCanBeUsedAndWhyNot) {
  executor().PutCniNetwork("good", "");
  executor().PutCniNetwork("bad", "no such plugin");
  const auto listing = networks().cni().List();
  ASSERT_EQ(MessageOf(listing), "Ok");
  EXPECT_EQ(listing->networks.at("good").unusable, "");
  EXPECT_EQ(listing->networks.at("bad").unusable, "no such plugin");
  EXPECT_EQ(listing->plugins.at("fake"), "1.6.0");
  // A list takes some processes, so mountd keeps the answer a little while.
  executor().PutCniNetwork("later", "");
  EXPECT_FALSE(networks().cni().List()->networks.contains("later"));
  core_.Restart();
  EXPECT_TRUE(networks().cni().List()->networks.contains("later"));
}

TEST_F(CniNetworksTest, AListThatFailsIsAskedForAgain) {
  executor().PutCniNetwork("good", "");
  executor().FailNext("RunCni", Code::kUnavailable);
  EXPECT_EQ(Outcome(networks().cni().List()), "Unavailable");
  EXPECT_TRUE(networks().cni().List()->networks.contains("good"));
}

// STATUS (CNI 1.1) is called for networks that are usable otherwise.
TEST_F(CniNetworksTest, PluginsThatAreNotReadyMakeANetworkUnusable) {
  executor().PutCniNetwork("a-waits", "", /*has_status=*/true);
  executor().PutCniNetwork("b-ready", "", /*has_status=*/true);
  executor().PutCniNetwork("c-broken", "no such plugin", /*has_status=*/true);
  executor().PutCniNetwork("d-old", "");
  // The second operation is STATUS of the first network.
  executor().FailNth(2, Code::kUnavailable, FailWhen::kBefore);
  const auto listing = networks().cni().List();
  ASSERT_EQ(MessageOf(listing), "Ok");
  EXPECT_NE(listing->networks.at("a-waits").unusable.find("as the test wants"),
            std::string::npos);
  EXPECT_EQ(listing->networks.at("b-ready").unusable, "");
  EXPECT_EQ(listing->networks.at("c-broken").unusable, "no such plugin");
  EXPECT_EQ(listing->networks.at("d-old").unusable, "");
  EXPECT_EQ(executor().script().Count("RunCni status"), 2U);
}

TEST_F(CniNetworksTest, NoGarbageIsCollectedByAStoreThatCannotBeRead) {
  ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
  const LockedTable locked(core_.boot->database(), "networks");
  EXPECT_NE(Outcome(networks().cni().CollectGarbage()), "Ok");
  EXPECT_EQ(executor().script().Count("RunCni gc"), 0U);
  EXPECT_EQ(Existing(), web_);
}

// Without a record nobody would learn of the attachment's files.
TEST_F(CniNetworksTest, AnAttachmentThatIsNotRecordedIsUndoneByTheNextCall) {
  for (const bool sets_up : {true, false}) {
    {
      const FailingWrites failing(core_.boot->database(), "UPDATE", "networks");
      EXPECT_NE(SetUpNetwork(CniSpec()), "Ok");
    }
    EXPECT_EQ(executor().script().Count("RunCni del"), 0U);
    EXPECT_EQ(Existing(), web_);
    EXPECT_EQ(Records().at(0).state, NetworkRecordState::kCreating);
    if (sets_up) {
      ASSERT_EQ(SetUpNetwork(CniSpec()), "Ok");
      EXPECT_EQ(executor().script().Count("RunCni del"), 1U);
      EXPECT_EQ(executor().script().Count("RunCni add"), 2U);
    }
    ASSERT_EQ(MessageOf(networks().Teardown("web", "eth0")), "Ok");
    EXPECT_TRUE(Existing().empty());
    EXPECT_TRUE(Records().empty());
    executor().script().Forget();
  }
}

TEST(CniAnswerTest, APluginThatDoesNotAnswerIsAway) {
  const auto away_of = [](const std::string& members) {
    const Result<void> answer = ReadCniOutcome(
        R"({"ok": false, "op": "ADD", "object": "eth0", )" + members + "}");
    return answer ? "Ok" : std::string(AwayName(answer.error().away));
  };
  EXPECT_EQ(away_of(R"("code": "Unavailable", "plugin": "bridge")"), "plugin");
  EXPECT_EQ(away_of(R"("code": "Unavailable")"), "");
  EXPECT_EQ(away_of(R"("code": "Busy", "plugin": "bridge")"), "");
}

}  // namespace
}  // namespace mountd
