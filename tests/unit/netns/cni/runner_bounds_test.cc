// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Requests that ask for more than the runner's starter has decided.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "tests/support/naive.h"
#include "tests/unit/netns/cni/runner_fixture.h"

namespace mountd::cni {
namespace {

using Names = std::vector<std::string>;

class CniBounds : public RunnerTest {
 protected:
  void SetUp() override {
    RunnerTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* name : {"net", "other"}) {
      Json network = Network(name, {Plugin("first")});
      network["cniVersion"] = "1.1.0";
      WriteNetwork(std::string(name) + ".conflist", network);
    }
  }

  static Json RequestWithPorts(const std::vector<int>& ports) {
    Json request = RequestFor("web");
    request["port_mappings"] = Json::array();
    for (const int port : ports) {
      request["port_mappings"].push_back(
          {{"hostPort", port}, {"containerPort", 80}, {"protocol", "tcp"}});
    }
    return request;
  }

  static void ExpectDenied(const std::string& verb, const Json& request,
                           const Names& bounds) {
    const Json answer = Run(verb, request, bounds);
    EXPECT_EQ(answer["ok"], false) << verb << answer;
    EXPECT_EQ(answer["code"], "PermissionDenied") << verb << answer;
    EXPECT_TRUE(CallNames().empty()) << verb;
  }
};

TEST_F(CniBounds, ARequestNamesTheOneNetwork) {
  for (const char* verb : {"add", "check", "del", "status", "gc"}) {
    ExpectDenied(verb, RequestFor("web"), {"--network", "other"});
  }
  for (const char* verb : {"add", "check", "del", "status"}) {
    ExpectDenied(verb, {{"container_id", "web"}, {"ifname", "eth0"}},
                 {"--network", "net"});
  }
  EXPECT_FALSE(std::filesystem::exists("/run/state"));
  EXPECT_NAIVE(Run("add", RequestFor("web"))["ok"] == true);
  const Names bounds = {"--network", "net"};
  for (const char* verb : {"add", "check", "del", "status", "gc"}) {
    EXPECT_EQ(Run(verb, RequestFor("web"), bounds)["ok"], true) << verb;
  }
}

TEST_F(CniBounds, ARequestIsAboutTheOneContainer) {
  for (const char* verb : {"add", "check", "del"}) {
    ExpectDenied(verb, RequestFor("web"), {"--container-id", "we"});
    ExpectDenied(verb, {{"network", "net"}, {"ifname", "eth0"}},
                 {"--container-id", "web"});
  }
  EXPECT_NAIVE(Run("add", RequestFor("web"))["ok"] == true);
  for (const char* verb : {"add", "check", "del"}) {
    EXPECT_EQ(Run(verb, RequestFor("web"), {"--container-id", "web"})["ok"],
              true)
        << verb;
  }
}

TEST_F(CniBounds, HostPortsAreThoseThatAreGranted) {
  const Names bounds = {"--host-ports", "20000-20999,8080"};
  for (const std::vector<int>& ports :
       {std::vector<int>{8081}, {19999}, {21000}, {8080, 20000, 80}}) {
    ExpectDenied("add", RequestWithPorts(ports), bounds);
  }
  ExpectDenied("add", RequestWithPorts({8080}), {"--host-ports", ""});
  EXPECT_FALSE(HasRecord("web"));
  EXPECT_EQ(Run("add", RequestWithPorts({8080, 20000, 20999}), bounds)["ok"],
            true);
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  EXPECT_NAIVE(Run("add", RequestWithPorts({8081}))["ok"] == true);
}

TEST_F(CniBounds, WhoAsksForNoHostPortNeedsNone) {
  EXPECT_EQ(Run("add", RequestWithPorts({}), {"--host-ports", ""})["ok"], true);
}

TEST_F(CniBounds, WhatIsGrantedNoMoreCanBeCheckedAndRemoved) {
  EXPECT_EQ(Run("add", RequestWithPorts({80}))["ok"], true);
  const Names none = {"--host-ports", ""};
  EXPECT_EQ(Run("check", RequestWithPorts({80}), none)["ok"], true);
  EXPECT_EQ(Run("del", RequestWithPorts({80}), none)["ok"], true);
  EXPECT_FALSE(HasRecord("web"));
}

TEST_F(CniBounds, GarbageOfAllNetworksIsThatOfTheOne) {
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  Json request = RequestFor("old");
  request["network"] = "other";
  EXPECT_EQ(Run("add", request)["ok"], true);
  ForgetCalls();
  const Json answer = Run("gc", Json::object(), {"--network", "net"});
  EXPECT_EQ(answer["removed"], Json({"web/eth0"})) << answer;
  EXPECT_TRUE(HasRecord("old"));
  for (const Json& call : Calls()) {
    EXPECT_EQ(call["config"]["name"], "net");
  }
  Run("gc", Json::object());
  EXPECT_NAIVE(!HasRecord("old"));
}

TEST_F(CniBounds, ABoundThatCannotBeReadIsNoRun) {
  for (const Names& bad : {Names{"--host-ports", "80-"}, Names{"--network", ""},
                           Names{"--container-id", "a/b"}}) {
    const auto outcome =
        test::RunProgram(Command("add", RequestFor("web"), bad));
    EXPECT_EQ(outcome.status, 2) << bad[0];
    EXPECT_EQ(outcome.out, "");
  }
}

// No plugin ran, as after a refused ADD, so there is nothing to do, and no
// plugin is needed.
TEST_F(CniBounds, WhatIsNotRecordedIsNotDetached) {
  ASSERT_TRUE(std::filesystem::remove("/run/plugins/first"));
  const Json gone = Run("del", RequestFor("web"), {"--recorded"});
  EXPECT_EQ(gone["ok"], true) << gone;
  EXPECT_EQ(gone["known"], false);
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], false);
  EXPECT_TRUE(CallNames().empty());
}

TEST_F(CniBounds, GarbageIsOfNetworksThatHadAnAttachment) {
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  ForgetCalls();
  const Json answer = Run("gc", {{"valid", Json::array()}}, {"--recorded"});
  EXPECT_EQ(answer["removed"], Json({"web/eth0"})) << answer;
  for (const Json& call : Calls()) {
    EXPECT_EQ(call["config"]["name"], "net") << "other is others'";
  }
}

TEST_F(CniBounds, GarbageOfRecordsWaitsForNobody) {
  WriteNetwork("net.conflist",
               Network("net", {Plugin("first", {{"ADD", {"wait /run/go"}}})}));
  mountd::test::RunningProgram add(Command("add", RequestFor("web")));
  while (CallNames().empty()) {
    ::usleep(1000);
  }
  const Json answer = Run("gc", {{"valid", Json::array()}}, {"--recorded"});
  EXPECT_EQ(answer["code"], "DeadlineExceeded") << answer;
  WriteFile("/run/go", "");
  EXPECT_EQ(Json::parse(add.ReadLine(), nullptr, false)["ok"], true);
  EXPECT_TRUE(HasRecord("web"));
}

}  // namespace
}  // namespace mountd::cni
