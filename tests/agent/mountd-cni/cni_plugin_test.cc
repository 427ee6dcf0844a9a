// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-cni's parsing and results, and its calls of a fake Manager.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <future>
#include <string>
#include <utility>
#include <vector>

#include "agent/mountd-cni/attachment_ids.h"
#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/result.h"
#include "agent/mountd-cni/run.h"
#include "tests/agent/fake_manager.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;

constexpr char kOwnNetns[] = "/proc/self/ns/net";

Json Conf(const std::string& version = "1.0.0") {
  return {{"cniVersion", version}, {"name", "net"}, {"type", "mountd"}};
}

Environment Env(const std::string& command) {
  return {command, "web", kOwnNetns, "eth0", ""};
}

Json Told(const Answer& answer) {
  return Json::parse(answer.output, nullptr, false);
}

// Parses the configuration from its text, because a number in a text has a sign
// only if it is written.
Outcome<Config> Parsed(const Json& conf, const Environment& environment) {
  MOUNTD_ASSIGN(const Json document, ParseDocument(conf.dump()));
  return ParseConfig(document, environment);
}

// Returns the code of the failure; 0 if there is none.
int CodeOf(const Environment& environment, const std::string& input) {
  const Answer answer = RunPlugin(environment, input);
  if (answer.status == 0) {
    return 0;
  }
  const Json told = Told(answer);
  EXPECT_FALSE(told["msg"].get<std::string>().empty());
  EXPECT_FALSE(told["cniVersion"].get<std::string>().empty());
  return told["code"].get<int>();
}

int ConfigCode(const Json& more, const std::string& command = "ADD",
               const std::string& version = "1.1.0") {
  Json conf = Conf(version);
  conf.update(more);
  const auto config = Parsed(conf, Env(command));
  return config ? 0 : config.error().code;
}

agent::NetworkStatus Made() {
  agent::NetworkStatus status;
  status.network = "default";
  status.netns_inode = 7;
  status.interface = "eth0";
  status.address = "10.88.0.2";
  status.address6 = "fd88::2";
  status.gateway = "10.88.0.1";
  status.gateway6 = "fd88::1";
  status.host_interface = "md0a580002";
  status.default_route = true;
  return status;
}

TEST(CniAttachmentIds, NoTwoContainersHaveTheSame) {
  EXPECT_EQ(AllocationOf("web"), "cni-web");
  const std::string longest(128, 'a');
  EXPECT_EQ(AllocationOf(longest).size(), 4 + 1 + 32U);
  EXPECT_NE(AllocationOf(longest), AllocationOf(longest.substr(1)));
  EXPECT_EQ(AllocationOf(longest), AllocationOf(longest));
}

TEST(CniAttachmentIds, AreRecognised) {
  const auto own = ParseAllocationId("cni-web");
  ASSERT_TRUE(own);
  EXPECT_EQ(own->allocation, "cni-web");
  EXPECT_EQ(own->ifname, "");
  const auto marker = ParseAllocationId(MarkerOf("cni-web", "eth1"));
  ASSERT_TRUE(marker);
  EXPECT_EQ(marker->allocation, "cni-web");
  EXPECT_EQ(marker->ifname, "eth1");
  for (const char* other : {"web", "cni", "cni-a[", "cni-a[]", "cni-a[x"}) {
    EXPECT_FALSE(ParseAllocationId(other)) << other;
  }
}

TEST(CniConfig, HasDefaults) {
  const auto config = Parsed(Conf(), Env("ADD"));
  ASSERT_TRUE(config);
  EXPECT_EQ(config->network, "default");
  EXPECT_EQ(config->address, "");
  EXPECT_FALSE(config->isolated);
  EXPECT_EQ(config->timeout, std::chrono::seconds(60));
  EXPECT_TRUE(config->runtime.ports.empty());
  EXPECT_TRUE(config->runtime.dns.is_null());
}

TEST(CniConfig, ReadsWhatTheRuntimeWants) {
  Json conf = Conf();
  conf["runtimeConfig"] = {
      {"portMappings",
       {{{"hostPort", 8080}, {"containerPort", 80}, {"protocol", "UDP"}},
        {{"hostPort", 0}, {"containerPort", 81}},
        {{"hostPort", 82}, {"containerPort", 83}, {"hostIP", "127.0.0.1"}}}},
      {"ips", {"10.88.0.9/16", "fd88::9"}},
      {"dns", {{"servers", {"10.0.0.1"}}}},
      {"mac", "02:4D:0a:58:00:09"},
      {"bandwidth", nullptr}};
  conf["dns"] = {{"domain", "example"}, {"nameservers", {"10.0.0.2"}}};
  Environment environment = Env("ADD");
  environment.args = "IgnoreUnknown=1;K8S_POD_NAME=web;IP=10.88.0.9";
  const auto config = Parsed(conf, environment);
  ASSERT_TRUE(config) << config.error().message;
  const RuntimeConfig& runtime = config->runtime;
  ASSERT_EQ(runtime.ports.size(), 2U);
  EXPECT_EQ(runtime.ports[0].host, 8080);
  EXPECT_EQ(runtime.ports[0].container, 80);
  EXPECT_EQ(runtime.ports[0].protocols, "udp");
  EXPECT_EQ(runtime.ports[1].host_address, "127.0.0.1");
  EXPECT_EQ(runtime.address, "10.88.0.9");
  EXPECT_EQ(runtime.address6, "fd88::9");
  EXPECT_EQ(runtime.dns["nameservers"], Json({"10.0.0.1"}));
  EXPECT_EQ(runtime.dns["domain"], "example");
}

TEST(CniConfig, RefusesWhatItDoesNotUnderstand) {
  EXPECT_EQ(ConfigCode(Json::object()), 0);
  EXPECT_EQ(ConfigCode({{"cniVersion", "0.3.0"}}), 1);
  EXPECT_EQ(ConfigCode({{"cniVersion", "0.3.1"}}), 0);
  EXPECT_EQ(ConfigCode({{"cniVersion", "2.0.0"}}), 1);
  EXPECT_EQ(ConfigCode(Json::object(), "GC", "1.0.0"), 1);
  EXPECT_EQ(ConfigCode({{"prevResult", Json::object()}}, "CHECK", "0.3.1"), 1);
  EXPECT_EQ(ConfigCode({{"prevResult", Json::object()}}, "CHECK", "0.4.0"), 0);
  EXPECT_EQ(ConfigCode({{"isloated", true}}), 2);
  EXPECT_EQ(ConfigCode({{"ipam", Json::object()}}), 0);
  EXPECT_EQ(ConfigCode({{"example.org/x", 1}}), 0);
  EXPECT_EQ(ConfigCode({{"name", ""}}), 7);
  EXPECT_EQ(ConfigCode({{"name", "../x"}}), 7);
  EXPECT_EQ(ConfigCode({{"network", 1}}), 7);
  EXPECT_EQ(ConfigCode({{"isolated", "yes"}}), 7);
  EXPECT_EQ(ConfigCode({{"timeoutMs", -1}}), 7);
  EXPECT_EQ(ConfigCode({{"timeoutMs", 0}}), 7);
  EXPECT_EQ(ConfigCode({{"prevResult", 5}}), 7);
  EXPECT_EQ(ConfigCode({{"prevResult", 5}}, "DEL"), 0);
  EXPECT_EQ(ConfigCode(Json::object(), "CHECK"), 7);
  EXPECT_EQ(ConfigCode(Json::object(), "GC"), 7);
}

TEST(CniConfig, RefusesARuntimesMistakes) {
  const auto code = [](const Json& runtime) {
    return ConfigCode({{"runtimeConfig", runtime}});
  };
  EXPECT_EQ(code(5), 7);
  for (const Json& mapping : std::vector<Json>{
           {{"hostPort", 1}},
           {{"hostPort", 65536}, {"containerPort", 1}},
           {{"hostPort", 1}, {"containerPort", 1}, {"protocol", "icmp"}},
           {{"hostPort", 1}, {"containerPort", 1}, {"hostIP", "here"}},
           5}) {
    EXPECT_EQ(code({{"portMappings", Json::array({mapping})}}), 7) << mapping;
  }
  EXPECT_EQ(code({{"ips", {"10.0.0.1", "10.0.0.2"}}}), 7);
  EXPECT_EQ(code({{"ips", {"x"}}}), 7);
  EXPECT_EQ(code({{"ips", {1}}}), 7);
  EXPECT_EQ(code({{"dns", {{"servers", 1}}}}), 7);
  EXPECT_EQ(code({{"bandwidth", {{"ingressRate", 1}}}}), 2);
  EXPECT_EQ(code({{"ipRanges", {{"x"}}}}), 2);
  EXPECT_EQ(code({{"io.kubernetes.cri.pod-annotations", {{"a", "b"}}}}), 0);
  for (const char* mac : {"02:00:00:00:00:09", "02:4d:0a:58:00", "x",
                          "02:4d:0a:58:00:0g", "03:4d:0a:58:00:09"}) {
    EXPECT_EQ(code({{"mac", mac}}), 7) << mac;
  }
  EXPECT_EQ(code({{"mac", "02:4d:0a:58:00:09"}, {"ips", {"10.88.0.8"}}}), 7);
  EXPECT_EQ(code({{"mac", "02:4d:0a:58:00:09"}, {"ips", {"fd88::9"}}}), 0);
}

TEST(CniConfig, AMacAddressAsksForItsAddress) {
  const auto address = [](Json more, const std::string& args = "") {
    Json conf = Conf();
    conf.update(more);
    Environment environment = Env("ADD");
    environment.args = args;
    const auto config = Parsed(conf, environment);
    return config ? config->runtime.address : config.error().message;
  };
  const std::string mac = "02:4d:0a:58:07:09";
  EXPECT_EQ(address({{"runtimeConfig", {{"MAC", mac}}}}), "10.88.7.9");
  EXPECT_EQ(address({{"args", {{"cni", {{"mac", mac}}}}}}), "10.88.7.9");
  EXPECT_EQ(address(Json::object(), "MAC=" + mac), "10.88.7.9");
  EXPECT_EQ(address(Json::object(), "IP=10.88.7.9;MAC=" + mac), "10.88.7.9");
  EXPECT_NE(address(Json::object(), "IP=10.88.7.8;MAC=" + mac)
                .find("10.88.7.8 is requested"),
            std::string::npos);
}

TEST(CniConfig, NamesAreComparedAsGoComparesThem) {
  Json conf = Conf();
  conf["ISOLATED"] = true;
  conf["Network"] = "back";
  const auto config = Parsed(conf, Env("ADD"));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->isolated);
  EXPECT_EQ(config->network, "back");
  const auto last = ParseDocument(
      R"({"cniVersion":"1.0.0","name":"net","network":"a","NETWORK":"b"})");
  ASSERT_TRUE(last);
  EXPECT_EQ(ParseConfig(*last, Env("ADD"))->network, "b");
}

TEST(CniResult, IsOfItsVersion) {
  const Json conf = Conf("0.4.0");
  const auto config = Parsed(conf, Env("ADD"));
  ASSERT_TRUE(config);
  const Json result = ResultOf(Made(), Env("ADD"), *config, {"", "02:4d:00"});
  EXPECT_EQ(result["cniVersion"], "0.4.0");
  EXPECT_EQ(
      result["interfaces"],
      Json({{{"name", "md0a580002"}},
            {{"name", "eth0"}, {"mac", "02:4d:00"}, {"sandbox", kOwnNetns}}}));
  EXPECT_EQ(result["ips"][0], Json({{"address", "10.88.0.2/32"},
                                    {"gateway", "10.88.0.1"},
                                    {"interface", 1},
                                    {"version", "4"}}));
  EXPECT_EQ(result["ips"][1]["address"], "fd88::2/128");
  EXPECT_EQ(result["routes"], Json({{{"dst", "0.0.0.0/0"}, {"gw", "10.88.0.1"}},
                                    {{"dst", "::/0"}, {"gw", "fd88::1"}}}));
}

TEST(CniResult, IsMergedIntoTheOneBefore) {
  Json conf = Conf();
  conf["prevResult"] = {{"interfaces", {{{"name", "lo"}}}},
                        {"IPs", {{{"address", "127.0.0.1/8"}}}},
                        {"DNS", {{"domain", "a"}}},
                        {"else", 1}};
  const auto config = Parsed(conf, Env("ADD"));
  ASSERT_TRUE(config) << config.error().message;
  const Json result = ResultOf(Made(), Env("ADD"), *config, {});
  EXPECT_EQ(result["interfaces"].size(), 3U);
  EXPECT_EQ(result["ips"].size(), 3U);
  EXPECT_EQ(result["ips"][1]["interface"], 2);
  EXPECT_EQ(result["dns"]["domain"], "a");
  EXPECT_EQ(result["else"], 1);
}

TEST(CniResult, IsCheckedAgainstWhatThereIs) {
  auto config = Parsed(Conf(), Env("ADD"));
  ASSERT_TRUE(config);
  config->prev_result = ResultOf(Made(), Env("ADD"), *config, {});
  const auto check = [&](const agent::NetworkStatus& status) {
    const auto checked = CheckResult(status, Env("CHECK"), *config, 7);
    return checked ? 0 : checked.error().code;
  };
  EXPECT_EQ(check(Made()), 0);
  agent::NetworkStatus other = Made();
  other.address = "10.88.0.3";
  EXPECT_EQ(check(other), 109);
  other = Made();
  other.netns_inode = 8;
  EXPECT_EQ(check(other), 109);
  other = Made();
  other.isolated = true;
  EXPECT_EQ(check(other), 109);
}

TEST(CniRun, RefusesABadEnvironment) {
  const std::string conf = Conf().dump();
  EXPECT_EQ(CodeOf({"add", "web", "/x", "eth0", ""}, conf), 4);
  EXPECT_EQ(CodeOf({"ADD", "", "/x", "eth0", ""}, conf), 4);
  EXPECT_EQ(CodeOf({"ADD", "../web", "/x", "eth0", ""}, conf), 4);
  EXPECT_EQ(CodeOf({"ADD", "web", "", "eth0", ""}, conf), 4);
  EXPECT_EQ(CodeOf({"ADD", "web", "/x", "lo", ""}, conf), 4);
  EXPECT_EQ(CodeOf({"ADD", "web", "/x", "a/b", ""}, conf), 4);
  EXPECT_EQ(CodeOf({"ADD", "web", "/x", "eth0", "no pair"}, conf), 4);
  EXPECT_EQ(CodeOf({"ADD", "web", "/x/y", "eth0", ""}, conf), 3);
  EXPECT_EQ(CodeOf({"ADD", "web", "/dev/null", "eth0", ""}, conf), 4);
}

TEST(CniRun, RefusesBadInput) {
  const std::string conf = Conf().dump();
  for (std::size_t size = 0; size < conf.size(); ++size) {
    EXPECT_EQ(CodeOf(Env("DEL"), conf.substr(0, size)), 6);
  }
  EXPECT_EQ(CodeOf(Env("DEL"), "[]"), 6);
  EXPECT_EQ(CodeOf(Env("DEL"), std::string(2U << 20U, ' ')), 6);
  EXPECT_EQ(CodeOf(Env("DEL"), std::string(100000, '[')), 6);
  const Answer failed =
      RunPlugin(Env("DEL"), MakeError(Code::kInternal, "read", "stdin"));
  EXPECT_EQ(Told(failed)["code"], 5);
}

// Any value in place of any other gets an answer, and never causes a crash.
TEST(CniRun, SurvivesAnyValue) {
  Json conf = Conf("1.1.0");
  conf["address"] = "/nowhere";
  conf["timeoutMs"] = 1;
  for (const char* key :
       {"cniVersion", "name", "network", "dns", "isolated", "timeoutMs", "args",
        "runtimeConfig", "prevResult", "cni.dev/valid-attachments"}) {
    for (const Json& value : std::vector<Json>{
             nullptr,
             true,
             -1,
             1e300,
             "x",
             Json::array({1}),
             {{"cni", 1}},
             {{"ips", 1}, {"portMappings", 1}, {"interfaces", 1}}}) {
      Json changed = conf;
      changed[key] = value;
      if (changed["timeoutMs"].is_null()) {
        continue;  // the default, with which a DEL waits for mountd
      }
      for (const char* verb : {"ADD", "CHECK", "DEL", "GC", "STATUS"}) {
        EXPECT_NE(CodeOf(Env(verb), changed.dump()), 0) << verb << changed;
      }
    }
  }
}

TEST(CniRun, TellsItsVersions) {
  const Answer answer = RunPlugin(Env("VERSION"), std::string());
  EXPECT_EQ(answer.status, 0);
  EXPECT_EQ(Told(answer)["supportedVersions"],
            Json({"0.3.1", "0.4.0", "1.0.0", "1.1.0"}));
  EXPECT_EQ(Told(RunPlugin(Env("VERSION"), Conf("0.4.0").dump()))["cniVersion"],
            "0.4.0");
}

TEST(CniRun, WithoutMountdIsTriedAgain) {
  Json conf = Conf("1.1.0");
  conf["address"] = "/nowhere/bus";
  conf["timeoutMs"] = 50;
  EXPECT_EQ(CodeOf(Env("ADD"), conf.dump()), 11);
  EXPECT_EQ(CodeOf(Env("DEL"), conf.dump()), 11);
  EXPECT_EQ(CodeOf(Env("STATUS"), conf.dump()), 50);
}

class CniFake : public ::testing::Test {
 protected:
  Json Made(const std::string& command, Json more = Json::object(),
            const std::string& container = "") {
    Json conf = Conf("1.1.0");
    conf["address"] = server_.address();
    conf.update(more);
    Environment environment = Env(command);
    if (!container.empty()) {
      environment.container_id = container;
      conf["name"] = "example";  // of the fake's allocations
    }
    const Answer answer = RunPlugin(environment, conf.dump());
    return {{"status", answer.status}, {"told", Told(answer)}};
  }
  bool HasCall(const std::string& line) {
    const auto calls = server_.script().calls();
    return std::any_of(calls.begin(), calls.end(), [&](const auto& call) {
      return call.starts_with(line);
    });
  }
  void Fail(const std::string& method, const std::string& name) {
    server_.script().Fail(method, {"org.mountd1.Error." + name, "why"});
  }

  agent::test::FakeServer server_;
};

TEST_F(CniFake, AddAsksForTheNetwork) {
  const Json mapping = {{"hostPort", 8080}, {"containerPort", 80}};
  const Json made = Made(
      "ADD", {{"network", "front"},
              {"runtimeConfig", {{"portMappings", Json::array({mapping})}}}});
  EXPECT_EQ(made["status"], 0) << made;
  EXPECT_EQ(made["told"]["ips"][0]["address"], "10.88.0.2/32");
  EXPECT_TRUE(HasCall("PrepareAllocation cni-web {scope=net;}"));
  // The fake's allocations belong to another configuration.
  EXPECT_TRUE(HasCall("PrepareAllocation cni-web[eth0] {scope=net;}"));
  EXPECT_TRUE(HasCall("SetupNetwork cni-web bridge 0,,8080,80,1,tcp "));
}

// A runtime calls DEL once, and takes a failed CHECK as a broken network, so
// both wait.
TEST_F(CniFake, DelAndCheckAndGcWaitForMountd) {
  const Json prev = {{"prevResult", Json::object()}};
  const Json none = {{"cni.dev/valid-attachments", Json::array()}};
  for (const auto& [verb, more] :
       {std::pair("DEL", Json::object()), std::pair("CHECK", prev),
        std::pair("GC", none)}) {
    server_.Stop();
    // An ADD fails without a wait, because runtimes try it again.
    EXPECT_EQ(Made("ADD")["told"]["code"], 11);
    auto made = std::async(std::launch::async, [&, asked = verb, with = more] {
      return Made(asked, with);
    });
    EXPECT_EQ(made.wait_for(std::chrono::milliseconds(100)),
              std::future_status::timeout)
        << verb;
    server_.Start();
    const Json outcome = made.get();
    if (std::string(verb) == "CHECK") {
      // The fake's allocation is in another namespace.
      EXPECT_EQ(outcome["told"]["code"], 109) << outcome;
    } else {
      EXPECT_EQ(outcome["status"], 0) << outcome;
    }
  }
}

TEST_F(CniFake, NobodyWaitsForWhatIsRefused) {
  const std::string file = server_.path() + ".x/bus";
  // The file is no directory, and will not become one.
  EXPECT_EQ(Made("DEL", {{"address", file}, {"timeoutMs", 100}})["status"], 1);
  Fail("TeardownNetwork", "PermissionDenied");
  EXPECT_EQ(Made("DEL", {{"timeoutMs", 3'600'000}})["told"]["code"], 104);
}

TEST_F(CniFake, MountdsErrorsAreCnis) {
  Fail("SetupNetwork", "NotFound");
  EXPECT_EQ(Made("ADD")["told"]["code"], 7);
  Fail("SetupNetwork", "Busy");
  EXPECT_EQ(Made("ADD")["told"]["code"], 11);
  Fail("SetupNetwork", "AlreadyExists");
  EXPECT_EQ(Made("ADD")["told"]["code"], 102);
  Fail("TeardownNetwork", "PermissionDenied");
  EXPECT_EQ(Made("DEL")["told"]["code"], 104);
  Fail("GetAllocation", "NotFound");
  EXPECT_EQ(Made("CHECK", {{"prevResult", Json::object()}})["told"]["code"], 3);
}

TEST_F(CniFake, DelOfWhatIsNotThereIsSuccess) {
  Fail("TeardownNetwork", "NotFound");
  Fail("GetAllocation", "NotFound");
  Fail("ReleaseAllocation", "NotFound");
  EXPECT_EQ(Made("DEL")["status"], 0);
}

// A runtime ends a container's network before its volumes.
TEST_F(CniFake, DelKeepsAnAllocationWithVolumes) {
  const auto released = [&](const char* container) {
    EXPECT_EQ(Made("DEL", Json::object(), container)["status"], 0);
    return HasCall(std::string("ReleaseAllocation cni-") + container);
  };
  EXPECT_FALSE(released("bare"));
  EXPECT_TRUE(HasCall("TeardownNetwork cni-bare"));
  EXPECT_TRUE(released("empty"));
}

// A task driver publishes a volume after DEL has looked.
TEST_F(CniFake, DelKeepsAnAllocationThatComesIntoUse) {
  Fail("ReleaseAllocation", "Busy");
  EXPECT_EQ(Made("DEL", Json::object(), "empty")["status"], 0);
  EXPECT_TRUE(HasCall("ReleaseAllocation cni-empty {only_if=empty;}"));
  EXPECT_FALSE(HasCall("ReleaseAllocation cni-empty {}"));
}

TEST_F(CniFake, DelReleasesAtAnOlderMountd) {
  server_.script().Fail("ReleaseAllocation",
                        {"org.mountd1.Error.InvalidArgument",
                         "check options[\"only_if\"]: is not known"});
  EXPECT_EQ(Made("DEL", Json::object(), "empty")["status"], 0);
  EXPECT_TRUE(HasCall("ReleaseAllocation cni-empty {}"));
}

TEST_F(CniFake, StatusWantsTheNetwork) {
  EXPECT_EQ(Made("STATUS")["status"], 0);
  EXPECT_EQ(Made("STATUS", {{"network", "no"}})["told"]["code"], 50);
}

TEST_F(CniFake, OthersAllocationsAreNoGarbage) {
  const Json none = {{"cni.dev/valid-attachments", Json::array()}};
  EXPECT_EQ(Made("GC", none)["status"], 0);
  EXPECT_FALSE(HasCall("ReleaseAllocation"));
}

}  // namespace
}  // namespace mountd::cni_plugin
