// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The CNI project's own plugins, as Debian packages them, run by mountd-cni-run
// from ADD until nothing is left.
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <memory>
#include <set>

#include "tests/real/cni/debian_plugins.h"
#include "tests/support/eventually.h"
#include "tests/unit/netns/cni/runner_fixture.h"

namespace mountd::cni {
namespace {

using mountd::testing::Eventually;

class CniPlugins : public RunnerTest {
 protected:
  void SetUp() override {
    RunnerTest::SetUp();
    if (const std::string why = WhyNoPlugins(); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }

  void NeedLink(const std::string& how) {
    if (const std::string why = WhyNoLink(how); !why.empty()) {
      GTEST_SKIP() << why;
    }
  }

  static Json RunReal(const std::string& verb, const std::string& container,
                      const Json& more = Json::object()) {
    Json request = RequestFor(container);
    request.update(more);
    std::vector<std::string> options = {"--plugin-dir", kPlugins};
    if (verb == "add") {
      options.insert(options.end(), {"--netns", "/run/netns/" + container});
    }
    return Run(verb, request, options);
  }

  static Json PortMapping() {
    return {{"port_mappings", Json::array({{{"hostPort", 8080},
                                            {"containerPort", 80},
                                            {"protocol", "tcp"}}})}};
  }

  static void WriteReal(const std::vector<Json>& plugins) {
    Json network = Network("net", plugins);
    network["cniVersion"] = "0.4.0";
    WriteNetwork("1.conflist", network);
  }

  static std::string Address(const std::string& container) {
    return Sh("nsenter --net=/run/netns/" + container +
              " ip -o -4 address show eth0")
        .out;
  }

  // True for an error of portmap 1.1, which looks for a mapping's rules in the
  // tables of both families, and never finds both.
  static bool IsOldPortmaps(const Json& checked) {
    return checked["plugin"] == "portmap" &&
           checked["detail"].get<std::string>().find(
               "could not check ipv6 dnat") == 0;
  }

  // Calls ADD, CHECK, DEL and DEL again, twice. The first round leaves objects
  // for all attachments (chains, the bridge), so the second round must leave
  // nothing.
  static void FromAddToDel(const Json& more = Json::object()) {
    Lines before;
    for (const bool first : {true, false}) {
      const Json added = RunReal("add", "web", more);
      ASSERT_EQ(added["ok"], true) << added;
      EXPECT_EQ(added["interface"], "eth0");
      EXPECT_NE(Address("web").find(added["address"].get<std::string>()),
                std::string::npos)
          << Address("web");
      EXPECT_NE(WhatPluginsLeft(), before);
      const Json checked = RunReal("check", "web");
      EXPECT_TRUE(checked["ok"] == true || IsOldPortmaps(checked)) << checked;
      for (int i = 0; i < 2; ++i) {
        const Json gone = RunReal("del", "web", more);
        EXPECT_EQ(gone["ok"], true) << gone;
      }
      if (first) {
        before = WhatPluginsLeft();
      }
    }
    EXPECT_EQ(WhatPluginsLeft(), before);
    EXPECT_FALSE(HasRecord("web"));
  }

  // Returns what the first attachment leaves for all.
  static Lines AfterOthers(const Json& more = Json::object()) {
    EXPECT_EQ(RunReal("add", "web", more)["ok"], true);
    EXPECT_EQ(RunReal("del", "web", more)["ok"], true);
    return WhatPluginsLeft();
  }
};

TEST_F(CniPlugins, NomadsChain) {
  NeedLink("bridge");
  WriteReal(NomadsPlugins(HostLocal("172.26.64.0/20")));
  FromAddToDel();
  FromAddToDel(PortMapping());
}

TEST_F(CniPlugins, NomadsChainWithIpv6) {
  NeedLink("bridge");
  WriteReal(NomadsPlugins(HostLocal("172.26.64.0/20", "fd00:26::/64")));
  FromAddToDel(PortMapping());
  const Json added = RunReal("add", "web");
  EXPECT_EQ(added["address6"].get<std::string>().find("fd00:26::"), 0U);
}

TEST_F(CniPlugins, AMappedPortReachesTheServer) {
  NeedLink("bridge");
  WriteReal(NomadsPlugins(HostLocal("172.26.64.0/20")));
  const Json added = RunReal("add", "web", PortMapping());
  ASSERT_EQ(added["ok"], true) << added;
  const test::RunningProgram server({"/usr/bin/nsenter", "--net=/run/netns/web",
                                     "python3", "-m", "http.server",
                                     "--directory", "/run/networks", "80"});
  const std::string url = "http://172.26.64.1:8080/1.conflist";
  EXPECT_TRUE(Eventually(
      [&] { return Sh("curl -sf --max-time 1 -o /dev/null " + url).good; }));
  EXPECT_EQ(RunReal("del", "web", PortMapping())["ok"], true);
  EXPECT_FALSE(Sh("curl -sf --max-time 1 -o /dev/null " + url).good);
}

TEST_F(CniPlugins, ManyAtOnceHaveAddressesOfTheirOwn) {
  NeedLink("bridge");
  WriteReal(NomadsPlugins(HostLocal("172.26.64.0/20")));
  const Lines before = AfterOthers();
  const std::vector<std::string> containers = {"a", "b", "c", "d", "e", "f"};
  for (const std::string& container : containers) {
    PinNamespace(container);
  }
  const Lines namespaces = WhatPluginsLeft();
  const auto all = [&](const std::string& verb) {
    std::vector<std::unique_ptr<test::RunningProgram>> running;
    for (const std::string& container : containers) {
      running.push_back(std::make_unique<test::RunningProgram>(Command(
          verb, RequestFor(container),
          {"--plugin-dir", kPlugins, "--netns", "/run/netns/" + container})));
    }
    std::set<std::string> addresses;
    for (auto& program : running) {
      const Json answer = Json::parse(program->ReadLine(), nullptr, false);
      EXPECT_EQ(answer["ok"], true) << answer;
      addresses.insert(answer.value("address", ""));
    }
    return addresses.size();
  };
  EXPECT_EQ(all("add"), containers.size());
  EXPECT_EQ(all("del"), 1U);
  EXPECT_EQ(WhatPluginsLeft(), namespaces);
  EXPECT_NE(namespaces, before);
}

TEST_F(CniPlugins, Macvlan) {
  NeedLink("veth");
  ASSERT_TRUE(Sh("ip link add up0 type veth peer name up1 &&"
                 " ip link set up0 up && ip link set up1 up")
                  .good);
  const Shell made = Sh("ip link add link up0 name mv0 type macvlan");
  if (!made.good) {
    GTEST_SKIP() << "the kernel makes no macvlan: " << made.out;
  }
  Sh("ip link del mv0");
  WriteReal({{{"type", "macvlan"},
              {"master", "up0"},
              {"ipam", HostLocal("10.20.0.0/24")}}});
  FromAddToDel();
}

TEST_F(CniPlugins, Ptp) {
  NeedLink("veth");
  WriteReal({{{"type", "ptp"},
              {"ipMasq", true},
              {"ipam", HostLocal("10.21.0.0/24")}}});
  FromAddToDel();
}

TEST_F(CniPlugins, Bandwidth) {
  NeedLink("ifb");
  WriteReal({{{"type", "ptp"}, {"ipam", HostLocal("10.22.0.0/24")}},
             {{"type", "bandwidth"}, {"capabilities", {{"bandwidth", true}}}}});
  const Json bandwidth = {{"bandwidth",
                           {{"ingressRate", 1000000},
                            {"ingressBurst", 1000000},
                            {"egressRate", 1000000},
                            {"egressBurst", 1000000}}}};
  const Json first = RunReal("add", "web", bandwidth);
  if (first["ok"] == false && first["plugin"] == "bandwidth") {
    GTEST_SKIP() << "the kernel shapes no traffic: " << first["detail"];
  }
  EXPECT_TRUE(Sh("tc qdisc | grep -q tbf").good);
  EXPECT_EQ(RunReal("del", "web", bandwidth)["ok"], true);
  FromAddToDel(bandwidth);
}

TEST_F(CniPlugins, AnAddressMayBeAskedFor) {
  NeedLink("veth");
  Json ptp = {{"type", "ptp"},
              {"capabilities", {{"ips", true}}},
              {"ipam", HostLocal("10.23.0.0/24")}};
  WriteReal({ptp});
  const Json added = RunReal("add", "web", {{"ips", {"10.23.0.77"}}});
  EXPECT_EQ(added["address"], "10.23.0.77") << added;
  EXPECT_EQ(RunReal("del", "web")["ok"], true);
}

TEST_F(CniPlugins, AFailedAddLeavesNothing) {
  NeedLink("bridge");
  auto plugins = NomadsPlugins(HostLocal("172.26.64.0/20"));
  WriteReal(plugins);
  const Lines before = AfterOthers(PortMapping());
  plugins.push_back(Plugin("first", {{"ADD", {"error 11"}}}));
  WriteReal(plugins);
  const Json answer = RunReal("add", "web", PortMapping());
  EXPECT_EQ(answer["cni_code"], 11) << answer;
  EXPECT_EQ(answer["left"], Json::array());
  EXPECT_EQ(CallNames().size(), 6U);
  EXPECT_EQ(WhatPluginsLeft(), before);
}

TEST_F(CniPlugins, DelFindsWhatAKilledRunnerLeft) {
  NeedLink("bridge");
  auto plugins = NomadsPlugins(HostLocal("172.26.64.0/20"));
  WriteReal(plugins);
  const Lines before = AfterOthers(PortMapping());
  plugins.push_back(Plugin("first", {{"ADD", {"hang"}}}));
  WriteReal(plugins);
  Json request = RequestFor("web");
  request.update(PortMapping());
  test::RunningProgram runner(
      Command("add", request, {"--plugin-dir", kPlugins}));
  ASSERT_TRUE(Eventually([] { return Daemons().size() == 1; }));
  EXPECT_NE(WhatPluginsLeft(), before);
  runner.Signal(SIGKILL);
  runner.Wait();
  // The configuration is no longer needed, and DEL finds even what no record
  // names.
  WriteReal({{{"type", "loopback"}}});
  const Json gone = RunReal("del", "web");
  EXPECT_EQ(gone["ok"], true) << gone;
  EXPECT_EQ(WhatPluginsLeft(), before);
}

TEST_F(CniPlugins, DelFreesTheAddressOfANamespaceThatIsGone) {
  NeedLink("veth");
  WriteReal({{{"type", "ptp"}, {"ipam", HostLocal("10.24.0.0/24")}}});
  const Lines before = AfterOthers();
  EXPECT_EQ(RunReal("add", "web")["ok"], true);
  ASSERT_EQ(::umount2("/run/netns/web", MNT_DETACH), 0);
  EXPECT_EQ(RunReal("del", "web")["ok"], true);
  std::filesystem::remove("/run/netns/web");
  PinNamespace("web");
  EXPECT_TRUE(Eventually([&] { return WhatPluginsLeft() == before; }));
}

TEST_F(CniPlugins, GarbageIsDetached) {
  NeedLink("veth");
  WriteReal({{{"type", "ptp"}, {"ipam", HostLocal("10.25.0.0/24")}}});
  PinNamespace("old");
  const Lines before = AfterOthers();
  EXPECT_EQ(RunReal("add", "old")["ok"], true);
  const Json answer = Run("gc", Json::object(), {"--plugin-dir", kPlugins});
  EXPECT_EQ(answer["removed"], Json({"old/eth0"})) << answer;
  EXPECT_EQ(WhatPluginsLeft(), before);
}

TEST_F(CniPlugins, AllAreListedWithTheirVersions) {
  WriteReal(NomadsPlugins(HostLocal("172.26.64.0/20")));
  const Json answer = Run("list", nullptr, {"--plugin-dir", kPlugins});
  EXPECT_EQ(answer["networks"][0]["usable"], true) << answer;
  std::vector<std::string> types;
  for (const Json& plugin : answer["plugins"]) {
    types.push_back(plugin["type"]);
    const std::vector<std::string> versions = plugin["supportedVersions"];
    EXPECT_EQ(std::count(versions.begin(), versions.end(), "0.4.0"), 1);
  }
  EXPECT_EQ(types, (std::vector<std::string>{"bridge", "firewall", "host-local",
                                             "loopback", "portmap"}));
}

}  // namespace
}  // namespace mountd::cni
