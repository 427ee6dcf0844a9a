// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The input of a chain's plugins, and their order.
#include <gtest/gtest.h>
#include <sys/mount.h>

#include <algorithm>
#include <filesystem>

#include "tests/unit/netns/cni/runner_fixture.h"

namespace mountd::cni {
namespace {

using Names = std::vector<std::string>;

class CniRunner : public RunnerTest {};

TEST_F(CniRunner, AddRunsEachInOrderWithTheResultBefore) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first"), Plugin("second")}));
  const Json answer = Run("add", RequestFor("web"));
  EXPECT_EQ(answer["ok"], true) << answer;
  EXPECT_EQ(answer["interface"], "eth0");
  EXPECT_EQ(answer["address"], "10.1.0.2");
  EXPECT_EQ(answer["result"]["interfaces"].size(), 2U);
  Names members;
  for (const auto& [member, value] : answer.items()) {
    members.push_back(member);
  }
  EXPECT_EQ(members, (Names{"address", "address6", "existing", "interface",
                            "ok", "result"}));
  EXPECT_EQ(CallNames(), (Names{"ADD first", "ADD second"}));
  const auto calls = Calls();
  EXPECT_FALSE(calls.at(0)["config"].contains("prevResult"));
  const Json& config = calls.at(1)["config"];
  EXPECT_EQ(config["name"], "net");
  EXPECT_EQ(config["cniVersion"], "1.0.0");
  EXPECT_EQ(config["prevResult"]["ips"][0]["address"], "10.1.0.2/24");
}

TEST_F(CniRunner, APluginSeesNothingButWhatTheSpecificationSays) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  Json request = RequestFor("web");
  request["args"] = {{"JOB", "a job"}};
  EXPECT_EQ(Run("add", request)["ok"], true);
  const Json call = Calls().at(0);
  Names environment = call["environment"];
  std::sort(environment.begin(), environment.end());
  EXPECT_EQ(environment,
            (Names{"CNI_ARGS=IgnoreUnknown=1;JOB=a job", "CNI_COMMAND=ADD",
                   "CNI_CONTAINERID=web", "CNI_IFNAME=eth0",
                   "CNI_NETNS=/run/netns/web", "CNI_PATH=/run/plugins",
                   "PATH=/usr/sbin:/usr/bin:/sbin:/bin"}));
  EXPECT_EQ(call["fds"], Json::array());
  EXPECT_EQ(call["cwd"], "/");
  EXPECT_EQ(call["umask"], 022);
  EXPECT_EQ(call["leads_session"], true);
}

TEST_F(CniRunner, PluginsAreInTheTraceOfTheRequest) {
  constexpr char kParent[] =
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first"), Plugin("second")}));
  Json request = RequestFor("web");
  request["traceparent"] = kParent;
  EXPECT_EQ(Run("add", request)["ok"], true);
  // The record has no trace, so a later DEL has its own or none.
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  const auto calls = Calls();
  ASSERT_EQ(calls.size(), 4U);
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const Names environment = calls[i]["environment"];
    EXPECT_EQ(std::count(environment.begin(), environment.end(),
                         "TRACEPARENT=" + std::string(kParent)),
              i < 2 ? 1 : 0)
        << i;
  }
}

// A writer that is not mountd must not choose root's environment.
TEST_F(CniRunner, ATraceThatIsNoneIsRefused) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  Json request = RequestFor("web");
  for (const char* text :
       {"x", "00-1-2-01",
        "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331"
        "-01\nLD_PRELOAD=/tmp/x.so"}) {
    request["traceparent"] = text;
    const Json answer = Run("add", request);
    EXPECT_EQ(answer["ok"], false);
    EXPECT_EQ(answer["code"], "InvalidArgument") << answer;
  }
  EXPECT_TRUE(CallNames().empty());
}

TEST_F(CniRunner, CapabilitiesGoToThoseThatDeclareThem) {
  Json first = Plugin("first");
  first["capabilities"] = {{"portMappings", true}, {"dns", false}};
  WriteNetwork("1.conflist", Network("net", {first, Plugin("second")}));
  Json request = RequestFor("web");
  request["port_mappings"] = {
      {{"hostPort", 8080}, {"containerPort", 80}, {"protocol", "tcp"}}};
  request["dns"] = {{"servers", {"10.0.0.1"}}};
  EXPECT_EQ(Run("add", request)["ok"], true);
  const auto calls = Calls();
  EXPECT_EQ(calls.at(0)["config"]["runtimeConfig"],
            Json({{"portMappings", request["port_mappings"]}}));
  EXPECT_FALSE(calls.at(0)["config"].contains("capabilities"));
  EXPECT_FALSE(calls.at(1)["config"].contains("runtimeConfig"));
}

TEST_F(CniRunner, DelIsAddInReverseWhateverHappenedToTheConfiguration) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first"), Plugin("second")}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  std::filesystem::remove("/run/networks/1.conflist");
  ForgetCalls();
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  EXPECT_EQ(CallNames(), (Names{"DEL second", "DEL first"}));
  for (const Json& call : Calls()) {
    EXPECT_EQ(call["config"]["prevResult"]["interfaces"].size(), 2U);
    EXPECT_EQ(call["netns"], "/run/netns/web");
  }
  EXPECT_FALSE(HasRecord("web"));
  EXPECT_TRUE(std::filesystem::is_empty("/run/state/records"));
  const Json again = Run("del", RequestFor("web"));
  EXPECT_EQ(again["ok"], true);
  EXPECT_EQ(again["known"], false);
}

TEST_F(CniRunner, DelWithoutARecordDoesWhatTheConfigurationSays) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  EXPECT_EQ(CallNames(), (Names{"DEL first"}));
  EXPECT_FALSE(Calls().at(0)["config"].contains("prevResult"));
}

TEST_F(CniRunner, DelGoesOnWithoutANamespaceThatIsGone) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  ASSERT_EQ(::umount2("/run/netns/web", MNT_DETACH), 0);
  ForgetCalls();
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  EXPECT_EQ(Calls().at(0)["netns"], "");
}

TEST_F(CniRunner, DelStaysOutOfANamespaceThatIsAnother) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  ASSERT_EQ(::umount2("/run/netns/web", MNT_DETACH), 0);
  PinNamespace("web");
  ForgetCalls();
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  EXPECT_EQ(Calls().at(0)["netns"], "");
}

TEST_F(CniRunner, WhatIsAttachedIsAnsweredAgain) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  Json first = Run("add", RequestFor("web"));
  Json second = Run("add", RequestFor("web"));
  EXPECT_EQ(first["existing"], false);
  EXPECT_EQ(second["existing"], true);
  EXPECT_EQ(first["result"], second["result"]);
  EXPECT_EQ(CallNames(), (Names{"ADD first"}));
  Json other = RequestFor("web");
  other["args"] = {{"K", "V"}};
  EXPECT_EQ(Run("add", other)["code"], "AlreadyExists");
}

TEST_F(CniRunner, CheckAsksEachWithTheResultOfAdd) {
  WriteNetwork(
      "1.conflist",
      Network("net", {Plugin("first"),
                      Plugin("second", {{"CHECK", {"ok", "error 999"}}})}));
  EXPECT_EQ(Run("check", RequestFor("web"))["code"], "NotFound");
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  ForgetCalls();
  const Json good = Run("check", RequestFor("web"));
  EXPECT_EQ(good["checked"], true) << good;
  EXPECT_EQ(CallNames(), (Names{"CHECK first", "CHECK second"}));
  EXPECT_EQ(Calls().at(0)["config"]["prevResult"]["interfaces"].size(), 2U);
  const Json bad = Run("check", RequestFor("web"));
  EXPECT_EQ(bad["ok"], false);
  EXPECT_EQ(bad["plugin"], "second");
  EXPECT_EQ(bad["cni_code"], 999);
  EXPECT_EQ(bad["code"], "FailedPrecondition") << "it is not as it was left";
  // A plugin that cannot be run has found nothing wrong.
  ASSERT_TRUE(std::filesystem::remove("/run/plugins/second"));
  EXPECT_NE(Run("check", RequestFor("web"))["code"], "FailedPrecondition");
  EXPECT_TRUE(HasRecord("web"));
}

TEST_F(CniRunner, CheckOfWhatIsNotAttachedLeavesNoLock) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  EXPECT_EQ(Run("check", RequestFor("web"))["code"], "NotFound");
  EXPECT_FALSE(std::filesystem::exists("/run/state/locks/web@eth0"));
  // The lock of an attachment stays.
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  EXPECT_EQ(Run("check", RequestFor("web"))["ok"], true);
  EXPECT_TRUE(std::filesystem::exists("/run/state/locks/web@eth0"));
}

TEST_F(CniRunner, CheckIsNotDoneWhereTheNetworkWantsNone) {
  Json network = Network("net", {Plugin("first")});
  network["disableCheck"] = true;
  WriteNetwork("1.conflist", network);
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  const Json answer = Run("check", RequestFor("web"));
  EXPECT_EQ(answer["ok"], true);
  EXPECT_EQ(answer["checked"], false);
  EXPECT_EQ(CallNames(), (Names{"ADD first"}));
}

TEST_F(CniRunner, CheckSeesThatTheNamespaceIsAnother) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  ASSERT_EQ(::umount2("/run/netns/web", MNT_DETACH), 0);
  PinNamespace("web");
  EXPECT_EQ(Run("check", RequestFor("web"))["code"], "FailedPrecondition");
}

TEST_F(CniRunner, TheHighestVersionIsSpokenThatAllPluginsKnow) {
  Json network = Network("net", {Plugin("first")});
  network["cniVersions"] = {"0.4.0", "1.0.0", "1.1.0"};
  WriteNetwork("1.conflist", network);
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  EXPECT_EQ(Calls().back()["config"]["cniVersion"], "1.0.0");
}

TEST_F(CniRunner, StatusAsksPluginsThatKnowIt) {
  Json network = Network(
      "net", {Plugin("first"), Plugin("second", {{"STATUS", {"error 50"}}})});
  WriteNetwork("1.conflist", network);
  EXPECT_EQ(Run("status", RequestFor("web"))["checked"], false);
  EXPECT_TRUE(CallNames().empty());
  network["cniVersion"] = "1.1.0";
  WriteNetwork("1.conflist", network);
  const Json answer = Run("status", RequestFor("web"));
  EXPECT_EQ(answer["code"], "Unavailable");
  EXPECT_EQ(answer["cni_code"], 50);
  EXPECT_EQ(CallNames(), (Names{"STATUS first", "STATUS second"}));
}

TEST_F(CniRunner, GarbageIsWhatIsAttachedAndNotValid) {
  Json network = Network("net", {Plugin("first")});
  network["cniVersion"] = "1.1.0";
  WriteNetwork("1.conflist", network);
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  PinNamespace("old");
  EXPECT_EQ(Run("add", RequestFor("old"), {"--netns", "/run/netns/old"})["ok"],
            true);
  ForgetCalls();
  const Json valid = {{{"container_id", "web"}, {"ifname", "eth0"}}};
  const Json answer = Run("gc", {{"network", "net"}, {"valid", valid}});
  EXPECT_EQ(answer["ok"], true) << answer;
  EXPECT_EQ(answer["removed"], Json({"old/eth0"}));
  EXPECT_EQ(CallNames(), (Names{"DEL first", "GC first"}));
  EXPECT_EQ(Calls().at(1)["config"]["cni.dev/valid-attachments"],
            Json::parse(R"([{"containerID":"web","ifname":"eth0"}])"));
  EXPECT_TRUE(HasRecord("web"));
  EXPECT_FALSE(HasRecord("old"));
}

// A reboot removes the namespace and the directory of this boot's attachments.
class CniAfterReboot : public RunnerTest {
 protected:
  void SetUp() override {
    RunnerTest::SetUp();
    if (IsSkipped()) {
      return;
    }
    Json network = Network("net", {Plugin("first"), Plugin("second")});
    network["cniVersion"] = "1.1.0";
    WriteNetwork("1.conflist", network);
    ASSERT_EQ(RunKept("add", RequestFor("web"))["ok"], true);
    std::filesystem::remove_all("/run/state");
    ASSERT_EQ(::umount("/run/netns/web"), 0);
    PinNamespace("web");
    ForgetCalls();
  }
  static Json RunKept(const std::string& verb, const Json& request) {
    return Run(verb, request, {"--kept-dir", "/run/kept"});
  }
  static bool IsKept() { return std::filesystem::exists("/run/kept/web@eth0"); }
  static void ExpectDetachedWithoutNamespace() {
    const auto calls = Calls();
    ASSERT_GE(calls.size(), 2U);
    for (std::size_t i = 0; i < 2; ++i) {
      const Names environment = calls.at(i)["environment"];
      EXPECT_EQ(std::count(environment.begin(), environment.end(),
                           "CNI_NETNS=/run/netns/web"),
                0);
      EXPECT_FALSE(calls.at(i)["config"].contains("prevResult"));
    }
  }
};

TEST_F(CniAfterReboot, WhatIsAttachedAgainWasDetachedBefore) {
  const Json answer = RunKept("add", RequestFor("web"));
  EXPECT_EQ(answer["ok"], true) << answer;
  EXPECT_EQ(answer["existing"], false);
  EXPECT_EQ(CallNames(),
            (Names{"DEL second", "DEL first", "ADD first", "ADD second"}));
  ExpectDetachedWithoutNamespace();
  EXPECT_EQ(RunKept("del", RequestFor("web"))["ok"], true);
  EXPECT_FALSE(IsKept());
}

TEST_F(CniAfterReboot, ADelOfAnyNetworkDetachesIt) {
  WriteNetwork("2.conflist", Network("other", {Plugin("first")}));
  EXPECT_EQ(RunKept("check", RequestFor("web"))["code"], "NotFound");
  Json request = RequestFor("web");
  request["network"] = "other";
  EXPECT_EQ(RunKept("del", request)["ok"], true);
  EXPECT_EQ(CallNames(), (Names{"DEL second", "DEL first"}));
  ExpectDetachedWithoutNamespace();
  EXPECT_FALSE(IsKept());
}

TEST_F(CniAfterReboot, ItIsGarbageWhateverIsValid) {
  const Json valid = {{{"container_id", "web"}, {"ifname", "eth0"}}};
  const Json answer = RunKept("gc", {{"valid", valid}});
  EXPECT_EQ(answer["removed"], Json({"web/eth0"})) << answer;
  EXPECT_EQ(CallNames(),
            (Names{"DEL second", "DEL first", "GC first", "GC second"}));
  ExpectDetachedWithoutNamespace();
  EXPECT_FALSE(IsKept());
}

TEST_F(CniAfterReboot, WhatThisBootAttachedIsSparedWhereItAloneIsGarbage) {
  PinNamespace("new");
  ASSERT_EQ(Run("add", RequestFor("new"),
                {"--kept-dir", "/run/kept", "--netns", "/run/netns/new"})["ok"],
            true);
  ForgetCalls();
  const Json answer = RunKept("gc", {{"earlier_boots", true}});
  EXPECT_EQ(answer["removed"], Json({"web/eth0"})) << answer;
  EXPECT_EQ(CallNames(), (Names{"DEL second", "DEL first"}));
  EXPECT_FALSE(IsKept());
  EXPECT_TRUE(HasRecord("new"));
  EXPECT_EQ(RunKept("gc", {{"earlier_boots", 1}})["code"], "InvalidArgument");
}

TEST_F(CniRunner, PluginsAreNotToldOfGarbageWhereTheNetworkWantsNone) {
  Json network = Network("net", {Plugin("first")});
  network["cniVersion"] = "1.1.0";
  network["disableGC"] = true;
  WriteNetwork("1.conflist", network);
  EXPECT_EQ(Run("gc", Json::object())["ok"], true);
  EXPECT_TRUE(CallNames().empty());
}

TEST_F(CniRunner, AListSaysWhatThereIsAndWhatIsWrong) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  WriteNetwork("2.conflist", Network("lame", {Plugin("missing")}));
  WriteFile("/run/networks/3.conf", "{");
  const Json answer = Run("list", nullptr);
  ASSERT_EQ(answer["networks"].size(), 2U) << answer;
  EXPECT_EQ(answer["networks"][0]["name"], "net");
  EXPECT_EQ(answer["networks"][0]["usable"], true);
  EXPECT_EQ(answer["networks"][1]["usable"], false);
  EXPECT_EQ(answer["unusable"][0]["file"], "/run/networks/3.conf");
  EXPECT_EQ(answer["plugins"][0]["type"], "first");
  EXPECT_EQ(answer["plugins"][0]["path"], "/run/plugins/first");
  EXPECT_EQ(answer["plugins"][0]["supportedVersions"],
            Json({"0.4.0", "1.0.0"}));
  EXPECT_EQ(answer["plugins"][0]["release"], "1.2.3");
}

}  // namespace
}  // namespace mountd::cni
