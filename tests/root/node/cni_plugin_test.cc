// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The CNI plugin mountd-cni on a whole node, run as root: by hand, in a chain
// with the CNI project's own plugins, and by our own runner.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/eventually.h"
#include "tests/support/net_probe.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/program.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr char kPlugins[] = "/usr/lib/cni";
constexpr char kPlugin[] = "/run/cni/bin/mountd";
constexpr char kConfig[] = R"(
[network.default]
ipv4 = "10.88.0.0/16"
ipv6 = "fd88::/64"
[network.back]
ipv4 = "10.99.0.0/16"
[[rule]]
users = ["0", "60002"]
networks = ["default", "back"]
host_ports = ["8000-8999"]
host_namespaces = true
)";

// Owns a process in a network namespace of its own that stands for the
// machine's first process, because an LSM may hide the real one from tests.
class FirstProcess {
 public:
  FirstProcess() {
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      ::unshare(CLONE_NEWNET);
      for (;;) {
        ::pause();
      }
    }
  }
  ~FirstProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  FirstProcess(const FirstProcess&) = delete;
  FirstProcess& operator=(const FirstProcess&) = delete;

  std::string proc() const { return "/proc/" + std::to_string(pid_); }

 private:
  pid_t pid_ = -1;
};

struct Told {
  int status = 0;
  Json json;  // null if nothing was printed
  std::string err;
};

// One attachment of a container to a network configuration.
struct Attached {
  std::string container = "web";
  std::string ifname = "eth0";
  std::string conf = "net";
  std::string netns{};  // the name of its pin; "": the container's
};

class CniPluginNode : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    ::umask(S_IWGRP | S_IWOTH);
    for (const char* path : {"/run/netns", "/run/in", "/run/cni/bin"}) {
      fs::create_directories(path);
    }
    // Runtimes find a plugin by its type.
    fs::copy_file(MOUNTD_CNI, kPlugin);
    Pin("web");
    ASSERT_EQ(::mount(first_process_.proc().c_str(), "/proc/1", nullptr,
                      MS_BIND, nullptr),
              0);
    StartNode(kConfig);
    if (HasFatalFailure()) {
      return;
    }
    // The first ADD makes the objects that stay for all later ones.
    const Told first = Call("ADD");
    ASSERT_EQ(first.status, 0) << first.err;
    ASSERT_EQ(Call("DEL").status, 0);
    before_ = Everything();
  }

  static std::string PathOf(const std::string& name) {
    return "/run/netns/" + name;
  }

  static void Pin(const std::string& name) {
    const std::string path = PathOf(name);
    std::ofstream(path) << "";
    const UniqueFd own(::open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC));
    ASSERT_EQ(::unshare(CLONE_NEWNET), 0);
    EXPECT_EQ(
        ::mount("/proc/self/ns/net", path.c_str(), nullptr, MS_BIND, nullptr),
        0);
    ASSERT_EQ(::setns(own.get(), CLONE_NEWNET), 0);
  }

  // Removes the pin, as a runtime does after any DEL, even one that failed.
  static void Unpin(const std::string& name) {
    EXPECT_EQ(::umount2(PathOf(name).c_str(), MNT_DETACH), 0);
    EXPECT_TRUE(fs::remove(PathOf(name)));
  }

  static Json Conf(const std::string& name = "net") {
    return {{"cniVersion", "1.1.0"}, {"name", name}, {"type", "mountd"}};
  }

  // Returns the shell command that runs the plugin at `path`.
  static std::string Command(const std::string& verb, const Json& conf,
                             const Attached& attached,
                             const std::string& path = kPlugin) {
    static int inputs = 0;
    const std::string input = "/run/in/" + std::to_string(++inputs);
    std::ofstream(input) << conf.dump();
    return "CNI_COMMAND=" + verb + " CNI_CONTAINERID=" + attached.container +
           " CNI_IFNAME=" + attached.ifname + " CNI_PATH=/run/cni/bin" +
           (verb == "DEL" ? ""
                          : " CNI_NETNS=" + PathOf(attached.netns.empty()
                                                       ? attached.container
                                                       : attached.netns)) +
           " exec " + path + " <" + input;
  }

  static Told RunCommand(const std::string& command) {
    const auto outcome = test::RunProgram({"/bin/sh", "-c", command});
    Told told{outcome.status, nullptr, outcome.out + outcome.err};
    if (!outcome.out.empty()) {
      told.json = Json::parse(outcome.out, nullptr, false);
      EXPECT_TRUE(told.json.is_object()) << outcome.out;
    }
    return told;
  }

  static Told Call(const std::string& verb, const Json& more = Json::object(),
                   const Attached& attached = {}) {
    Json conf = Conf(attached.conf);
    conf.update(more);
    return RunCommand(Command(verb, conf, attached));
  }

  static Told Collect(const std::string& conf,
                      const std::vector<Attached>& valid) {
    Json list = Json::array();
    for (const Attached& one : valid) {
      list.push_back({{"containerID", one.container}, {"ifname", one.ifname}});
    }
    return Call("GC", {{"cni.dev/valid-attachments", list}}, {.conf = conf});
  }

  static Json Mapping() {
    const Json port = {
        {"hostPort", 8080}, {"containerPort", 80}, {"protocol", "tcp"}};
    return {{"runtimeConfig", {{"portMappings", Json::array({port})}}}};
  }

  static std::string Shell(const std::string& script) {
    return test::RunProgram({"/bin/sh", "-c", script}).out;
  }

  // Returns allocations, links here and inside, rules, and namespaces.
  static std::string Everything() {
    return Shell(
        "ls /run/mountd/base/a /run/netns;"
        "ip -o link | cut -d: -f2 | cut -d@ -f1;"
        "for ns in /run/netns/*; do nsenter --net=$ns ip -o link |"
        "  cut -d: -f2 | cut -d@ -f1; done;"
        "nft -s list ruleset; iptables-save | grep -v '^[#:]'");
  }

  // Waits, because links disappear a little after their deletion.
  void ExpectNothingLeft() {
    EXPECT_TRUE(Eventually([this] { return Everything() == before_; }))
        << before_ << "\n-- now --\n"
        << Everything();
  }

  void KillDuring(const std::string& verb);

  const FirstProcess first_process_;
  std::string before_;
};

TEST_F(CniPluginNode, FromAddToNothingLeft) {
  Told added = Call("ADD", Mapping());
  ASSERT_EQ(added.status, 0) << added.err;
  EXPECT_NE(Everything(), before_);
  const Json& result = added.json;
  EXPECT_EQ(result["cniVersion"], "1.1.0");
  ASSERT_EQ(result["interfaces"].size(), 2U);
  EXPECT_EQ(result["interfaces"][1]["name"], "eth0");
  EXPECT_EQ(result["interfaces"][1]["sandbox"], PathOf("web"));
  const std::string link = Shell(
      "nsenter --net=/run/netns/web ip -o address show eth0;"
      "nsenter --net=/run/netns/web ip -o link show eth0; ip -o link");
  for (const Json& one : result["interfaces"]) {
    EXPECT_NE(link.find(one["name"].get<std::string>()), std::string::npos);
    EXPECT_NE(link.find(one["mac"].get<std::string>()), std::string::npos);
  }
  ASSERT_EQ(result["ips"].size(), 2U);
  for (const Json& one : result["ips"]) {
    EXPECT_EQ(one["interface"], 1);
    EXPECT_NE(link.find(one["address"].get<std::string>()), std::string::npos)
        << link;
  }
  EXPECT_EQ(result["routes"].size(), 2U);
  {
    const Server server(PathOf("web"), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }
  const Told again = Call("ADD", Mapping());
  EXPECT_EQ(again.json, result) << again.err;
  const Told checked = Call("CHECK", {{"prevResult", result}});
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_TRUE(checked.json.is_null());
  for (int i = 0; i < 2; ++i) {
    const Told gone = Call("DEL", {{"prevResult", result}});
    EXPECT_EQ(gone.status, 0) << gone.err;
    EXPECT_TRUE(gone.json.is_null());
  }
  EXPECT_EQ(Call("CHECK", {{"prevResult", result}}).json["code"], 3);
  ExpectNothingLeft();
}

TEST_F(CniPluginNode, WhatItCannotDoIsTold) {
  EXPECT_EQ(Call("STATUS").status, 0);
  EXPECT_EQ(Call("STATUS", {{"network", "no"}}).json["code"], 50);
  EXPECT_EQ(Call("ADD", {{"network", "no"}}).json["code"], 7);
  // No rule grants this port.
  Json mapping = Mapping();
  mapping["runtimeConfig"]["portMappings"][0]["hostPort"] = 80;
  EXPECT_EQ(Call("ADD", mapping).json["code"], 104);
  EXPECT_EQ(Call("ADD", Json::object(), {.container = "gone"}).json["code"], 3);
  ExpectNothingLeft();
}

TEST_F(CniPluginNode, AnAddressMayBeAskedFor) {
  const Told added =
      Call("ADD", {{"runtimeConfig", {{"ips", {"10.88.7.7/16"}}}}});
  ASSERT_EQ(added.status, 0) << added.err;
  EXPECT_EQ(added.json["ips"][0]["address"], "10.88.7.7/32");
  EXPECT_EQ(Call("DEL").status, 0);
  ExpectNothingLeft();
}

TEST_F(CniPluginNode, InterfacesOfAContainerGoOneByOne) {
  const Attached second{"web", "eth1", "other"};
  const Json back = {{"network", "back"}};
  const Told first = Call("ADD");
  ASSERT_EQ(first.status, 0) << first.err;
  const Told other = Call("ADD", back, second);
  ASSERT_EQ(other.status, 0) << other.err;
  EXPECT_EQ(other.json["routes"].size(), 0U);
  EXPECT_EQ(Call("DEL").status, 0);
  Json check = back;
  check["prevResult"] = other.json;
  const Told checked = Call("CHECK", check, second);
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_EQ(Call("DEL", back, second).status, 0);
  ExpectNothingLeft();
}

TEST_F(CniPluginNode, GarbageIsOfItsConfigurationAlone) {
  Pin("db");
  before_ = Everything();
  const Json back = {{"network", "back"}};
  const Attached second{"web", "eth1", "other"};
  ASSERT_EQ(Call("ADD").status, 0);
  ASSERT_EQ(Call("ADD", back, second).status, 0);
  ASSERT_EQ(Call("ADD", Json::object(), {.container = "db"}).status, 0);
  // eth0 of web is no longer valid; eth1 belongs to another configuration.
  const Told collected = Collect("net", {{.container = "db"}});
  EXPECT_EQ(collected.status, 0) << collected.err;
  EXPECT_EQ(Shell("nsenter --net=/run/netns/web ip -o link show eth0"), "");
  EXPECT_NE(Shell("nsenter --net=/run/netns/web ip -o link show eth1"), "");
  EXPECT_NE(Shell("nsenter --net=/run/netns/db ip -o link show eth0"), "");
  EXPECT_EQ(Collect("other", {second}).status, 0);
  EXPECT_NE(Shell("nsenter --net=/run/netns/web ip -o link show eth1"), "");
  EXPECT_EQ(Collect("other", {}).status, 0);
  EXPECT_EQ(Collect("net", {}).status, 0);
  ExpectNothingLeft();
}

// A runtime whose DEL failed ends the container all the same, and never calls
// DEL again.
class CniPluginLeft : public CniPluginNode {
 protected:
  void SetUp() override {
    CniPluginNode::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    // The pins are made after /run/netns became a mount of its own, so that
    // each is mounted only once.
    Pin("app");
    Pin("db");
    before_ = Everything();
  }

  static Told CallApp(const std::string& verb,
                      const Json& more = Json::object()) {
    return Call(verb, more, {.container = "app"});
  }
  static Told AddDb() { return Call("ADD", Mapping(), {.container = "db"}); }
  static Told DelDb() {
    return Call("DEL", Json::object(), {.container = "db"});
  }
  static bool AppHasLink() {
    return !Shell("nsenter --net=/run/netns/cni-app ip -o link show eth0")
                .empty();
  }
  // mountd refuses, and removes nothing that is still in use.
  static void ExpectKept(const std::string& who) {
    const Told refused = AddDb();
    ASSERT_EQ(refused.status, 1) << who;
    EXPECT_EQ(refused.json["code"], 102) << who << refused.json;
    EXPECT_TRUE(AppHasLink()) << who;
  }
  // Starts `command` in app's namespace. Returns when it is running there.
  static std::unique_ptr<test::RunningProgram> Run(const std::string& command) {
    auto program = std::make_unique<test::RunningProgram>(
        std::vector<std::string>{"/bin/sh", "-c", command});
    EXPECT_EQ(program->ReadLine(), "ready");
    return program;
  }
  static void End(std::unique_ptr<test::RunningProgram> program) {
    program->Signal(SIGKILL);
    program->Wait();
  }
};

TEST_F(CniPluginLeft, ItsPortIsForTheNextContainer) {
  ASSERT_EQ(CallApp("ADD", Mapping()).status, 0);
  ExpectKept("the runtime's pin");
  auto process = Run(
      "exec nsenter --net=/run/netns/app sh -c 'echo ready; exec sleep 600'");
  // The bind is at another path, because the kernel unmounts a file that is
  // removed.
  auto elsewhere = Run(
      "exec unshare --mount --propagation private sh -c"
      " 'mount -t tmpfs pins /mnt && touch /mnt/app &&"
      " mount --bind /run/netns/app /mnt/app && echo ready; exec sleep 600'");
  auto file =
      Run("exec sh -c 'exec 7</run/netns/app; echo ready; exec sleep 600'");
  Unpin("app");
  ExpectKept("a process in it");
  End(std::move(process));
  ExpectKept("a mount elsewhere");
  End(std::move(elsewhere));
  ExpectKept("an open file");
  End(std::move(file));
  const Told added = AddDb();
  ASSERT_EQ(added.status, 0) << added.err;
  EXPECT_FALSE(fs::exists("/run/mountd/base/a/cni-app"));
  {
    const Server server(PathOf("db"), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }
  EXPECT_EQ(DelDb().status, 0);
  Pin("app");
  ExpectNothingLeft();
}

TEST_F(CniPluginLeft, AnotherUsersPortIsNot) {
  ASSERT_EQ(Outcome(client_->PrepareAllocation("cni-app", {.scope = "net"})),
            "Ok");
  agent::NetworkSpec spec;
  spec.ports = {{.label = "0", .host = 8080, .container = 80}};
  ASSERT_EQ(Outcome(client_->SetupNetwork("cni-app", spec)), "Ok");
  ExpectKept("another user's");
  EXPECT_EQ(Outcome(client_->ReleaseAllocation("cni-app")), "Ok");
  EXPECT_EQ(AddDb().status, 0);
  EXPECT_EQ(DelDb().status, 0);
  ExpectNothingLeft();
}

TEST_F(CniPluginLeft, ItsContainerGetsANewNamespace) {
  const Attached second{"app", "eth1", "other"};
  ASSERT_EQ(CallApp("ADD", Mapping()).status, 0);
  ASSERT_EQ(Call("ADD", {{"network", "back"}}, second).status, 0);
  auto process = Run(
      "exec nsenter --net=/run/netns/app sh -c 'echo ready; exec sleep 600'");
  Unpin("app");
  Pin("app");
  const Told refused = CallApp("ADD", Mapping());
  ASSERT_EQ(refused.status, 1);
  EXPECT_EQ(refused.json["code"], 109) << refused.json;
  EXPECT_TRUE(AppHasLink());
  End(std::move(process));
  const Told added = CallApp("ADD", Mapping());
  ASSERT_EQ(added.status, 0) << added.err;
  const Told checked = CallApp("CHECK", {{"prevResult", added.json}});
  EXPECT_EQ(checked.status, 0) << checked.err;
  {
    const Server server(PathOf("app"), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }
  EXPECT_EQ(CallApp("DEL").status, 0);
  EXPECT_EQ(Call("DEL", {{"network", "back"}}, second).status, 0);
  ExpectNothingLeft();
}

TEST_F(CniPluginLeft, ItsInterfaceIsMadeAsItIsAskedForAnew) {
  ASSERT_EQ(CallApp("ADD").status, 0);
  // The server shows that the container still runs.
  const Server server(PathOf("app"), 80, "hello");
  const Told added = CallApp("ADD", Mapping());
  ASSERT_EQ(added.status, 0) << added.err;
  EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  const Told moved =
      CallApp("ADD", {{"runtimeConfig", {{"ips", {"10.88.7.7"}}}}});
  ASSERT_EQ(moved.status, 0) << moved.err;
  EXPECT_EQ(moved.json["ips"][0]["address"], "10.88.7.7/32");
  EXPECT_EQ(CallApp("DEL").status, 0);
  ExpectNothingLeft();
}

TEST_F(CniPluginLeft, ItsNamespaceMayBeAnothersWhereNobodyIsInIt) {
  const Attached other{"other", "eth0", "net", "app"};
  ASSERT_EQ(CallApp("ADD").status, 0);
  auto process = Run(
      "exec nsenter --net=/run/netns/app sh -c 'echo ready; exec sleep 600'");
  const Told refused = Call("ADD", Json::object(), other);
  ASSERT_EQ(refused.status, 1);
  EXPECT_EQ(refused.json["code"], 104) << refused.json;
  EXPECT_TRUE(AppHasLink());
  End(std::move(process));
  const Told added = Call("ADD", Json::object(), other);
  EXPECT_EQ(added.status, 0) << added.err;
  EXPECT_EQ(Call("DEL", Json::object(), other).status, 0);
  ExpectNothingLeft();
}

TEST_F(CniPluginNode, AMacAddressIsHonouredOrRefused) {
  const Told added =
      Call("ADD", {{"runtimeConfig", {{"mac", "02:4d:0a:58:07:09"}}}});
  ASSERT_EQ(added.status, 0) << added.err;
  EXPECT_NE(Shell("nsenter --net=/run/netns/web ip -o link show eth0")
                .find("02:4d:0a:58:07:09"),
            std::string::npos);
  EXPECT_EQ(Call("DEL").status, 0);
  const Told refused =
      Call("ADD", {{"runtimeConfig", {{"mac", "02:00:00:00:00:09"}}}});
  ASSERT_EQ(refused.status, 1);
  EXPECT_EQ(refused.json["code"], 7);
  ExpectNothingLeft();
}

// Kills mountd while `verb` runs, at moments spread over it, and every second
// time the plugin, too. A later DEL finds and removes the rest.
void CniPluginNode::KillDuring(const std::string& verb) {
  const std::string command =
      Command(verb, Conf(), {}) + " >/dev/null 2>/dev/null";
  for (int moment = 0; moment < 8; ++moment) {
    if (verb == "DEL") {
      ASSERT_EQ(Call("ADD").status, 0);
    }
    test::RunningProgram program({"/bin/sh", "-c", command});
    ::usleep(static_cast<useconds_t>(moment) * 3000);
    Node::KillAll();
    if (moment % 2 == 0) {
      program.Signal(SIGKILL);
    }
    program.Wait();
    const Told gone = Call("DEL");
    EXPECT_EQ(gone.status, 0) << gone.err;
    ExpectNothingLeft();
  }
}

TEST_F(CniPluginNode, MountdMayBeKilledInAnAdd) { KillDuring("ADD"); }

TEST_F(CniPluginNode, MountdMayBeKilledInADel) { KillDuring("DEL"); }

TEST_F(CniPluginNode, GoesBeforeOthersInAChain) {
  if (!fs::exists(std::string(kPlugins) + "/tuning")) {
    GTEST_SKIP() << "without containernetworking-plugins in " << kPlugins;
  }
  const std::string tuning = std::string(kPlugins) + "/tuning";
  Json own = Conf();
  own["cniVersion"] = "1.0.0";
  const Told first = RunCommand(Command("ADD", own, {}));
  ASSERT_EQ(first.status, 0) << first.err;
  Json next = own;
  next.update({{"type", "tuning"}, {"mtu", 1400}, {"prevResult", first.json}});
  const Told second = RunCommand(Command("ADD", next, {}, tuning));
  ASSERT_EQ(second.status, 0) << second.err;
  EXPECT_EQ(second.json["ips"], first.json["ips"]);
  own["prevResult"] = second.json;
  const Told checked = RunCommand(Command("CHECK", own, {}));
  EXPECT_EQ(checked.status, 0) << checked.err;
  EXPECT_EQ(RunCommand(Command("DEL", own, {})).status, 0);
  ExpectNothingLeft();
}

// A chain of this plugin and portmap, which has the capability.
class CniPluginPortmap : public CniPluginNode {
 protected:
  void SetUp() override {
    if (!fs::exists(kPortmap)) {
      GTEST_SKIP() << "without containernetworking-plugins in " << kPlugins;
    }
    CniPluginNode::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    if (Shell("iptables -t nat -S && echo works").empty()) {
      GTEST_SKIP() << "iptables does not work with this kernel";
    }
    Pin("db");
    Pin("lan");
    Shell(
        "ip link add up0 type veth peer name eth0 netns lan &&"
        "ip address add 192.0.2.1/24 dev up0 && ip link set up0 up &&"
        "ip netns exec lan ip address add 192.0.2.2/24 dev eth0 &&"
        "ip netns exec lan ip link set eth0 up");
    // The first run makes portmap's shared chains, which stay.
    Add();
    Del();
    before_ = Everything();
  }

  static Json First() {
    Json conf = Conf();
    conf["cniVersion"] = "1.0.0";
    return conf;
  }
  static Json Second(const Json& result) {
    Json conf = First();
    conf.update(Mapping());
    Json udp = conf["runtimeConfig"]["portMappings"][0];
    udp["protocol"] = "udp";
    conf["runtimeConfig"]["portMappings"].push_back(udp);
    conf.update({{"type", "portmap"}, {"prevResult", result}});
    return conf;
  }
  void Add() {
    const Told first = RunCommand(Command("ADD", First(), {}));
    ASSERT_EQ(first.status, 0) << first.err;
    result_ = first.json;
    const Told second =
        RunCommand(Command("ADD", Second(result_), {}, kPortmap));
    ASSERT_EQ(second.status, 0) << second.err;
    EXPECT_EQ(second.json["ips"], result_["ips"]);
  }
  void Del() {
    const Told first =
        RunCommand(Command("DEL", Second(result_), {}, kPortmap));
    EXPECT_EQ(first.status, 0) << first.err;
    EXPECT_EQ(RunCommand(Command("DEL", First(), {})).status, 0);
  }
  static void ExpectAnswers() {
    const Server tcp(PathOf("web"), 80, "hello");
    const Server udp(PathOf("web"), 80, "hello", Server::Transport::kUdp);
    for (const char* address :
         {"127.0.0.1", "10.88.0.1", "192.0.2.1", "fd88::1"}) {
      EXPECT_EQ(Ask(address, 8080), "hello") << address;
      EXPECT_EQ(AskUdp(address, 8080), "hello") << address;
    }
    EXPECT_EQ(AskFrom(PathOf("lan"), "192.0.2.1", 8080), "hello");
    for (const char* address : {"192.0.2.1", "fd88::1"}) {
      EXPECT_EQ(AskFrom(PathOf("db"), address, 8080), "hello") << address;
      EXPECT_EQ(AskFrom(PathOf("web"), address, 8080), "hello") << address;
    }
  }

  static constexpr char kPortmap[] = "/usr/lib/cni/portmap";
  Json result_;
};

TEST_F(CniPluginPortmap, ItsPortsAreReachedFromEverywhere) {
  ASSERT_EQ(Call("ADD", Json::object(), {.container = "db"}).status, 0);
  Add();
  ExpectAnswers();
  Shell(
      "for each in /proc/sys/net/ipv4/conf/*/rp_filter; do"
      "  echo 1 >$each; done");
  ExpectAnswers();
  Del();
  EXPECT_EQ(Ask("127.0.0.1", 8080, kNoAnswerMs), "");
  EXPECT_EQ(Call("DEL", Json::object(), {.container = "db"}).status, 0);
  ExpectNothingLeft();
}

// Runs mountd-cni-run with a chain of this plugin and Debian's tuning.
class CniPluginRunner : public CniPluginNode {
 protected:
  static Json RunChain(const std::string& verb, const Json& request) {
    const std::string input = "/run/in/request";
    std::ofstream(input) << request.dump();
    const std::string netns = verb == "add" ? " --netns /run/netns/web" : "";
    const auto outcome = test::RunProgram(
        {"/bin/sh", "-c",
         std::string("exec ") + CNI_RUNNER +
             " --config-dir /run/networks --plugin-dir /run/cni/bin"
             " --plugin-dir " +
             kPlugins + " --state-dir /run/state" + netns + " " + verb + " <" +
             input});
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }

  static void WriteChain(const std::vector<Json>& plugins) {
    fs::create_directories("/run/networks");
    std::ofstream("/run/networks/1.conflist")
        << Json{{"name", "net"}, {"cniVersion", "1.0.0"}, {"plugins", plugins}};
  }
};

TEST_F(CniPluginRunner, ByOurOwnRunner) {
  std::vector<Json> plugins = {
      {{"type", "mountd"}, {"capabilities", {{"portMappings", true}}}}};
  if (fs::exists(std::string(kPlugins) + "/tuning")) {
    plugins.push_back({{"type", "tuning"}, {"mtu", 1400}});
  }
  WriteChain(plugins);
  const Json request = {
      {"network", "net"}, {"container_id", "web"}, {"ifname", "eth0"}};
  Json add = request;
  add["port_mappings"] = Json::array(
      {{{"hostPort", 8080}, {"containerPort", 80}, {"protocol", "tcp"}}});
  const Json added = RunChain("add", add);
  ASSERT_EQ(added["ok"], true) << added;
  EXPECT_EQ(added["interface"], "eth0");
  EXPECT_EQ(added["address"].get<std::string>().find("10.88."), 0U);
  {
    const Server server(PathOf("web"), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }
  const Json checked = RunChain("check", request);
  EXPECT_EQ(checked["ok"], true) << checked;
  for (int i = 0; i < 2; ++i) {
    const Json gone = RunChain("del", request);
    EXPECT_EQ(gone["ok"], true) << gone;
  }
  ExpectNothingLeft();
}

}  // namespace
}  // namespace mountd::testing
