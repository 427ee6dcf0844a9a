// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-cni under the names of the plugins that Nomad's own chain has. The
// documents in golden/nomad-bridge-VERSION.jsonl are those that go-cni 1.1.14
// wrote for the conflist of that version of Nomad: a line for each call.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "agent/mountd-cni/config.h"
#include "agent/mountd-cni/personality.h"
#include "agent/mountd-cni/port_verbs.h"
#include "agent/mountd-cni/run.h"
#include "tests/agent/fake_manager.h"

namespace mountd::cni_plugin {
namespace {

using cni::Json;
using Texts = std::vector<std::string>;

constexpr char kAnyNetns[] = "/proc/self/ns/net";
constexpr char kAlloc[] = "3d3b6ae2-0e70-9c58-0f9b-0ba7d9c8e0f1";
const Texts kNomads = {"0.11", "1.6", "2.0"};

struct NomadCall {
  Environment environment;
  Json stdin_document;
};

// Returns the calls of one version of Nomad, in its order.
std::vector<NomadCall> CallsOf(const std::string& version) {
  std::ifstream file(std::string(MOUNTD_GOLDEN) + "/nomad-bridge-" + version +
                     ".jsonl");
  std::vector<NomadCall> calls;
  for (std::string line; std::getline(file, line);) {
    const Json call = Json::parse(line);
    Environment environment{call["command"], kAlloc, kAnyNetns, "eth0",
                            call["args"]};
    environment.program = call["plugin"];
    calls.push_back({environment, call["stdin"]});
  }
  EXPECT_FALSE(calls.empty()) << version;
  return calls;
}

Environment As(const std::string& program, const std::string& command) {
  Environment environment{command, kAlloc, kAnyNetns, "eth0", ""};
  environment.program = program;
  return environment;
}

Json Document(const std::string& type, const Json& more = Json::object()) {
  Json conf = {{"cniVersion", "1.1.0"}, {"name", "nomad"}, {"type", type}};
  conf.update(more);
  return conf;
}

Json OutputOf(const Answer& answer) {
  return Json::parse(answer.output, nullptr, false);
}

// Returns the code of the failure; 0 if there is none.
int KeyCode(const std::string& type, const Json& more,
            const std::string& command = "ADD") {
  const auto config = ParseConfig(Document(type, more), As(type, command));
  return config ? 0 : config.error().code;
}

std::string NameFor(const std::string& program, const std::string& type) {
  const auto found = PersonalityOf(As(program, "ADD"), Document(type));
  return found ? NameOf(*found) : found.error().message;
}

TEST(CniPersonality, IsOfTheProgramsName) {
  EXPECT_EQ(NameFor("bridge", "bridge"), "bridge");
  EXPECT_EQ(NameFor("mountd-cni", "portmap"), "portmap");
  EXPECT_EQ(NameFor("mountd-cni", "mountd"), "mountd");
  EXPECT_EQ(NameFor("other", "other"), "mountd");
  EXPECT_EQ(NameFor("bridge", ""), "bridge");
  EXPECT_NE(NameFor("bridge", "firewall").find("type must be"),
            std::string::npos);
  EXPECT_NE(NameFor("mountd", "bridge").find("type must be"),
            std::string::npos);
  // An IPAM plugin gets the document of the plugin that starts it.
  EXPECT_EQ(NameFor("host-local", "macvlan"), "host-local");
}

TEST(CniPersonality, ItsNameIsTheLastPartOfThePath) {
  EXPECT_EQ(ProcessEnvironment("/usr/libexec/x/bridge").program, "bridge");
  EXPECT_EQ(ProcessEnvironment("bridge").program, "bridge");
  EXPECT_EQ(ProcessEnvironment("bridge/").program, "");
}

// Nomad takes the first word that is a version.
TEST(CniPersonality, TellsAVersionThatNomadAccepts) {
  EXPECT_EQ(AboutText(Personality::kMountd, "0.2.0"),
            "CNI mountd plugin v0.2.0\n"
            "CNI protocol versions supported: 0.3.1, 0.4.0, 1.0.0, 1.1.0\n");
  EXPECT_EQ(AboutText(Personality::kHostLocal, "0.2.0")
                .find("CNI host-local plugin v1.6.0+mountd\n"),
            0U);
}

TEST(CniChainKeys, AreThoseThatMountdSatisfies) {
  EXPECT_EQ(KeyCode("bridge", {{"ipMasq", true}, {"hairpinMode", false}}), 0);
  EXPECT_EQ(KeyCode("bridge", {{"ipMasq", false}}), 7);
  EXPECT_EQ(KeyCode("bridge", {{"isGateway", false}}), 7);
  EXPECT_EQ(KeyCode("bridge", {{"isGateway", "yes"}}), 7);
  EXPECT_EQ(KeyCode("bridge", {{"bridge", 1}}), 7);
  EXPECT_EQ(KeyCode("bridge", {{"vlan", 7}}), 2);
  EXPECT_EQ(KeyCode("bridge", {{"ipam", {{"type", "dhcp"}}}}), 7);
  for (const Json& route : std::vector<Json>{
           {{"dst", "10.0.0.0/8"}}, {{"dst", "::/0"}, {"gw", "fd00::1"}}, 1}) {
    const Json ipam = {{"type", "host-local"},
                       {"routes", Json::array({route})}};
    EXPECT_EQ(KeyCode("bridge", {{"ipam", ipam}}), 7) << route;
  }
  EXPECT_EQ(KeyCode("firewall", {{"ingressPolicy", "open"}}), 0);
  EXPECT_EQ(KeyCode("firewall", {{"ingressPolicy", "same-bridge"}}), 7);
  EXPECT_EQ(KeyCode("portmap", {{"masqAll", true}}), 7);
  EXPECT_EQ(KeyCode("portmap", {{"conditionsV4", {"-s", "10.0.0.0/8"}}}), 2);
  // A key is its plugin's alone.
  EXPECT_EQ(KeyCode("mountd", {{"ipMasq", true}}), 2);
  EXPECT_EQ(KeyCode("portmap", {{"ipMasq", true}}), 2);
  EXPECT_EQ(KeyCode("loopback", {{"backend", "iptables"}}), 2);
}

Texts ProtocolsOf(const std::string& type, const Json& more,
                  const std::string& args = "") {
  Environment environment = As(type, "ADD");
  environment.args = args;
  Json conf = Document(type, more);
  const Json tcp = {
      {"hostPort", 80}, {"containerPort", 8080}, {"protocol", "tcp"}};
  Json udp = tcp;
  udp["protocol"] = "udp";
  Json other = udp;
  other["hostPort"] = 53;
  conf["runtimeConfig"]["portMappings"] = Json::array({udp, tcp, other});
  // A number in a text has a sign only if it is written.
  const auto config = ParseConfig(*ParseDocument(conf.dump()), environment);
  Texts protocols;
  for (const agent::Port& port :
       config ? config->runtime.ports : std::vector<agent::Port>()) {
    protocols.push_back(port.protocols);
  }
  return protocols;
}

// Nomad asks for both protocols of each port. UDP alone is asked for on
// purpose.
TEST(CniPorts, UdpIsOptionalBesideTcp) {
  const Texts both = {"udp", "tcp", "udp"};
  const Texts optional = {"udp?", "tcp", "udp"};
  EXPECT_EQ(ProtocolsOf("portmap", Json::object()), optional);
  EXPECT_EQ(ProtocolsOf("portmap", {{"udpIfFree", false}}), both);
  EXPECT_EQ(ProtocolsOf("mountd", Json::object()), both);
  EXPECT_EQ(ProtocolsOf("mountd", {{"udpIfFree", true}}), optional);
  EXPECT_EQ(ProtocolsOf("mountd", Json::object(), "NOMAD_ALLOC_ID=a"),
            optional);
  EXPECT_EQ(ProtocolsOf("mountd", {{"udpIfFree", false}}, "NOMAD_ALLOC_ID=a"),
            both);
}

TEST(CniPorts, APersonIsToldWhichAreLeftOut) {
  const agent::Port tcp{"0", 80, 8080, "tcp"};
  const agent::Port udp{"1", 80, 8080, "udp?"};
  agent::NetworkStatus status;
  status.ports = {tcp, {"1", 80, 8080, "udp"}};
  EXPECT_EQ(UnmappedPorts({tcp, udp}, status), "");
  status.ports[1].protocols = "";
  EXPECT_EQ(
      UnmappedPorts({tcp, udp}, status),
      "mountd-cni: host port 80/udp is not mapped, because it is not free\n");
}

TEST(CniChain, EachDocumentOfNomadIsUnderstood) {
  for (const std::string& version : kNomads) {
    for (const NomadCall& call : CallsOf(version)) {
      const auto config = ParseConfig(call.stdin_document, call.environment);
      ASSERT_TRUE(config) << version << call.environment.program
                          << config.error().message;
      EXPECT_EQ(NameOf(config->personality), call.environment.program);
      const bool has_ports = call.environment.program == "portmap" &&
                             call.environment.command != "DEL";
      ASSERT_EQ(config->runtime.ports.size(), has_ports ? 2U : 0U);
      if (has_ports) {
        EXPECT_EQ(config->runtime.ports[0].protocols, "tcp");
        EXPECT_EQ(config->runtime.ports[1].protocols, "udp?");
        EXPECT_EQ(config->runtime.ports[1].host_address,
                  version == "0.11" ? "" : "10.99.0.1");
      }
    }
  }
}

// The runtime's environment names mountd's network, because Nomad writes this
// configuration itself.
TEST(CniChain, TheEnvironmentNamesTheNetwork) {
  Environment environment = As("bridge", "ADD");
  environment.network = "front";
  environment.address = "/run/other";
  const auto config = ParseConfig(Document("bridge"), environment);
  ASSERT_TRUE(config);
  EXPECT_EQ(config->network, "front");
  EXPECT_EQ(config->address, "/run/other");
  const auto own =
      ParseConfig(Document("bridge", {{"network", "back"}}), environment);
  EXPECT_EQ(own->network, "back");
  environment.network.clear();
  EXPECT_EQ(ParseConfig(Document("bridge"), environment)->network, "default");
}

Answer ByName(const std::string& program, const std::string& command,
              const Json& more = Json::object(),
              const std::string& ifname = "eth0") {
  Environment environment = As(program, command);
  environment.ifname = ifname;
  return RunPlugin(environment, Document(program, more).dump());
}

TEST(CniChain, LoopbackAndFirewallPassTheResultOn) {
  const Json result = {{"cniVersion", "1.1.0"}, {"ips", Json::array()}};
  const Json prev = {{"prevResult", result}};
  EXPECT_EQ(OutputOf(ByName("loopback", "ADD")),
            Json({{"cniVersion", "1.1.0"}}));
  EXPECT_EQ(
      OutputOf(ByName("loopback", "ADD", Json::object(), "lo"))["cniVersion"],
      "1.1.0");
  EXPECT_EQ(OutputOf(ByName("loopback", "ADD", prev)), result);
  EXPECT_EQ(OutputOf(ByName("firewall", "ADD", prev)), result);
  EXPECT_EQ(OutputOf(ByName("firewall", "ADD"))["code"], 7);
  for (const char* name : {"loopback", "firewall"}) {
    EXPECT_EQ(ByName(name, "CHECK", prev).status, 0) << name;
    EXPECT_EQ(OutputOf(ByName(name, "CHECK"))["code"], 7) << name;
    EXPECT_EQ(ByName(name, "DEL").status, 0) << name;
    EXPECT_EQ(ByName(name, "STATUS").status, 0) << name;
    const Answer collected =
        ByName(name, "GC", {{"cni.dev/valid-attachments", Json::array()}});
    EXPECT_EQ(collected.status, 0) << collected.output;
    EXPECT_EQ(collected.output, "");
  }
}

TEST(CniChain, HostLocalGivesNoAddress) {
  EXPECT_EQ(ByName("host-local", "VERSION").status, 0);
  EXPECT_EQ(OutputOf(ByName("host-local", "ADD"))["code"], 111);
  EXPECT_EQ(OutputOf(ByName("host-local", "CHECK"))["code"], 111);
  EXPECT_EQ(OutputOf(ByName("host-local", "STATUS"))["code"], 50);
  EXPECT_EQ(ByName("host-local", "DEL").status, 0);
  // The document is another plugin's.
  const Answer gone =
      RunPlugin(As("host-local", "DEL"),
                Document("macvlan", {{"master", "eth0"}, {"mtu", 9}}).dump());
  EXPECT_EQ(gone.status, 0) << gone.output;
}

class CniChainFake : public ::testing::Test {
 protected:
  Answer Call(NomadCall call) {
    call.environment.address = server_.address();
    return RunPlugin(call.environment, call.stdin_document.dump());
  }
  // Returns the calls at mountd that change something, by their beginnings.
  Texts Changes() {
    Texts changes;
    for (const std::string& call : server_.script().calls()) {
      if (!call.starts_with("Get") && !call.starts_with("List")) {
        changes.push_back(call);
      }
    }
    return changes;
  }
  void Fail(const std::string& method, const std::string& name) {
    server_.script().Fail(method, {"org.mountd1.Error." + name, "why"});
  }
  Answer Portmap(const std::string& command) {
    const std::vector<NomadCall> calls = CallsOf("2.0");
    const auto found =
        std::find_if(calls.begin(), calls.end(), [&](const NomadCall& call) {
          return call.environment.program == "portmap" &&
                 call.environment.command == command;
        });
    return found == calls.end() ? Answer{} : Call(*found);
  }

  agent::test::FakeServer server_;
};

// The bridge makes the interface, and portmap gives it its ports.
TEST_F(CniChainFake, NomadsChainIsMountdsCalls) {
  const std::string id = std::string("cni-") + kAlloc;
  for (const std::string& version : kNomads) {
    const std::size_t before = Changes().size();
    for (const NomadCall& call : CallsOf(version)) {
      const Answer answer = Call(call);
      const std::string& command = call.environment.command;
      const std::string& name = call.environment.program;
      if (command == "CHECK") {
        continue;  // the fake's allocation is in another namespace
      }
      EXPECT_EQ(answer.status, 0) << version << name << answer.output;
      if (command == "DEL") {
        EXPECT_EQ(answer.output, "");
      } else if (name == "firewall" || name == "portmap") {
        EXPECT_EQ(OutputOf(answer), call.stdin_document["prevResult"]) << name;
      } else if (name == "loopback") {
        EXPECT_EQ(OutputOf(answer), Json({{"cniVersion", "0.4.0"}}));
      }
    }
    Texts made = Changes();
    made.erase(made.begin(),
               made.begin() + static_cast<std::ptrdiff_t>(before));
    ASSERT_EQ(made.size(), 6U) << version;
    EXPECT_EQ(made[0].find("PrepareAllocation " + id + " {scope=nomad;}"), 0U);
    // The fake's allocations belong to another configuration.
    EXPECT_EQ(made[1].find("PrepareAllocation " + id + "[eth0] "), 0U);
    EXPECT_EQ(made[2].find("SetupNetwork " + id + " bridge {"), 0U) << made[2];
    const std::string ip = version == "0.11" ? "" : "10.99.0.1";
    EXPECT_EQ(
        made[3].find("UpdatePorts " + id + " 0," + ip + ",18080,8080,1,tcp 1," +
                     ip + ",18080,8080,1,udp? {interface=eth0;}"),
        0U)
        << made[3];
    EXPECT_EQ(made[4].find("UpdatePorts " + id + " {interface=eth0;}"), 0U)
        << made[4];
    EXPECT_EQ(made[5].find("TeardownNetwork " + id + " {interface=eth0;}"), 0U)
        << made[5];
  }
}

// go-cni and libcni read these members (types/040), and Nomad takes the address
// of the first interface with a sandbox.
TEST_F(CniChainFake, TheBridgesResultIsAsNomadReadsIt) {
  for (const std::string& version : kNomads) {
    const std::vector<NomadCall> calls = CallsOf(version);
    const auto bridge =
        std::find_if(calls.begin(), calls.end(), [](const NomadCall& call) {
          return call.environment.program == "bridge";
        });
    Json told = OutputOf(Call(*bridge));
    // The machine that runs the test may have an interface of this name.
    told["interfaces"][1].erase("mac");
    EXPECT_EQ(told["cniVersion"], "0.4.0");
    EXPECT_EQ(told["interfaces"],
              Json({{{"name", "mdabc"}},
                    {{"name", "eth0"}, {"sandbox", kAnyNetns}}}));
    EXPECT_EQ(told["ips"], Json({{{"address", "10.88.0.2/32"},
                                  {"gateway", "10.88.0.1"},
                                  {"interface", 1},
                                  {"version", "4"}},
                                 {{"address", "fd00::2/128"},
                                  {"gateway", "fd00::1"},
                                  {"interface", 1},
                                  {"version", "6"}}}));
    EXPECT_EQ(told["routes"][0]["dst"], "0.0.0.0/0");
    EXPECT_EQ(told["dns"], Json::object());
  }
}

TEST_F(CniChainFake, PortmapSaysWhatItLeavesOut) {
  // The fake maps no UDP port.
  const Answer answer = Portmap("ADD");
  EXPECT_EQ(answer.status, 0) << answer.output;
  EXPECT_NE(answer.warning.find("18080/udp is not mapped"), std::string::npos);
}

TEST_F(CniChainFake, PortmapsErrors) {
  Fail("UpdatePorts", "NotFound");
  EXPECT_EQ(OutputOf(Portmap("ADD"))["code"], 7);
  Fail("UpdatePorts", "PermissionDenied");
  EXPECT_EQ(OutputOf(Portmap("ADD"))["code"], 104);
  Fail("UpdatePorts", "Busy");
  EXPECT_EQ(OutputOf(Portmap("ADD"))["code"], 11);
  // mountd repairs what others have changed.
  Fail("UpdatePorts", "FailedPrecondition");
  EXPECT_EQ(Portmap("ADD").status, 0);
  // The bridge's own attachment makes no room for portmap.
  server_.script().SetAllocations({std::string("cni-") + kAlloc});
  Fail("UpdatePorts", "AlreadyExists");
  EXPECT_EQ(OutputOf(Portmap("ADD"))["code"], 102);
  EXPECT_EQ(server_.script().count("TeardownNetwork"), 0U);
  // The fake maps no TCP port with the label "0".
  EXPECT_EQ(OutputOf(Portmap("CHECK"))["code"], 109);
  // The DEL of the bridge comes next.
  for (const char* name :
       {"NotFound", "FailedPrecondition", "PermissionDenied"}) {
    Fail("UpdatePorts", name);
    EXPECT_EQ(Portmap("DEL").status, 0) << name;
  }
  Fail("UpdatePorts", "Internal");
  EXPECT_EQ(Portmap("DEL").status, 1);
}

TEST_F(CniChainFake, PortmapWithoutPortsCallsNobody) {
  const Json prev = {{"cniVersion", "1.1.0"}};
  Environment environment = As("portmap", "ADD");
  environment.address = "/nowhere";
  const Answer answer = RunPlugin(
      environment, Document("portmap", {{"prevResult", prev}}).dump());
  EXPECT_EQ(OutputOf(answer), prev);
  EXPECT_EQ(
      OutputOf(RunPlugin(environment, Document("portmap").dump()))["code"], 7);
}

}  // namespace
}  // namespace mountd::cni_plugin
