// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Real runtimes call mountd-cni with the configuration of README.md, and with
// Nomad's own: Go's libcni, go-cni (which containerd and Nomad use), and
// Debian's podman.
// tests/real/cni-clients/run runs this program.
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "netns/cni/documents/go_json.h"
#include "tests/real/cni/readme_config.h"
#include "tests/support/eventually.h"
#include "tests/support/net_probe.h"
#include "tests/support/node/node_fixture.h"
#include "tests/support/program.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using test::RunProgram;

constexpr char kConfig[] = R"(
[network.default]
ipv4 = "10.88.0.0/16"
ipv6 = "fd88::/64"
[[rule]]
users = ["0"]
networks = ["default"]
host_ports = ["8000-8999"]
host_namespaces = true
)";

struct Ended {
  bool good = false;
  std::string out;  // with the errors, if it failed
};

Ended Execute(const std::vector<std::string>& command) {
  const auto ended = RunProgram(command);
  const bool good = ended.status == 0;
  return {good, good ? ended.out : ended.out + ended.err};
}

Ended Sh(const std::string& script) {
  return Execute({"/bin/sh", "-c", script});
}

class CniRuntime : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    ::umask(S_IWGRP | S_IWOTH);
    for (const char* path : {"/run/netns", "/run/cni/bin", "/run/cni/conf"}) {
      fs::create_directories(path);
    }
    fs::copy_file(MOUNTD_CNI, "/run/cni/bin/mountd");
    const std::string conf = ReadmeNetworkConfig();
    ASSERT_NE(conf, "");
    std::ofstream("/run/cni/conf/mountd.conflist") << conf;
    StartNode(kConfig);
  }

  static void Pin(const std::string& name) {
    ASSERT_TRUE(Sh("ip netns add " + name).good);
  }

  // Returns all that an attachment has: allocations, links, and mountd's
  // elements.
  static std::string Everything() {
    return Sh("ls /run/mountd/base/a /run/netns;"
              "ip -o link | cut -d: -f2 | cut -d@ -f1; nft -s list ruleset")
        .out;
  }
  static void ExpectAsBefore(const std::string& before) {
    EXPECT_TRUE(Eventually([&] { return Everything() == before; }))
        << before << "\n-- now --\n"
        << Everything();
  }
};

class CniClients : public CniRuntime {
 protected:
  void SetUp() override {
    CniRuntime::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    Pin("web");
    Pin("db");
    // The first ADD makes the objects that stay for all later ones.
    ASSERT_TRUE(Libcni("add", "web").good);
    ASSERT_TRUE(Libcni("del", "web").good);
    before_ = Everything();
  }

  static Ended Libcni(const std::string& verb, const std::string& id,
                      const std::string& capabilities = "{}",
                      const std::string& conf = "mountd") {
    return Execute({std::getenv("CNI_CLIENTS"), "libcni", verb,
                    "/run/cni/conf/" + conf + ".conflist", "/run/cni/bin",
                    "/run/cni/cache", id,
                    "/run/netns/" + (id.empty() ? "web" : id), capabilities});
  }
  static Ended GoCni(const std::string& verb, const std::string& confs = "conf",
                     const std::string& plugins = "bin") {
    return Execute({std::getenv("CNI_CLIENTS"), "go-cni", verb,
                    "/run/cni/" + confs, "/run/cni/" + plugins, "web",
                    "/run/netns/web"});
  }

  std::string before_;
};

TEST_F(CniClients, LibcniAddsChecksAndDeletes) {
  const Ended added = Libcni(
      "add", "web",
      R"({"portMappings":[{"hostPort":8080,"containerPort":80,"protocol":"tcp"}],
          "ips":["10.88.7.7"],"mac":"02:4d:0a:58:07:07"})");
  ASSERT_TRUE(added.good) << added.out;
  const Json result = Json::parse(added.out);
  EXPECT_EQ(result["ips"][0]["address"], "10.88.7.7/32");
  EXPECT_EQ(result["interfaces"][1]["mac"], "02:4d:0a:58:07:07");
  {
    const Server server("/run/netns/web", 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
    EXPECT_EQ(Ask("10.88.7.7", 80), "hello");
  }
  const Ended checked = Libcni("check", "web");
  EXPECT_TRUE(checked.good) << checked.out;
  const Ended other = Libcni("add", "db", R"({"mac":"02:00:00:00:00:09"})");
  EXPECT_FALSE(other.good);
  EXPECT_NE(other.out.find("02:00:00:00:00:09"), std::string::npos);
  const Ended gone = Libcni("del", "web");
  EXPECT_TRUE(gone.good) << gone.out;
  EXPECT_FALSE(Libcni("check", "web").good);
  ExpectAsBefore(before_);
}

TEST_F(CniClients, LibcniCollectsGarbage) {
  // STATUS and GC belong to CNI 1.1.
  ASSERT_TRUE(Sh("sed s/1.0.0/1.1.0/ /run/cni/conf/mountd.conflist"
                 " >/run/cni/conf/new.conflist")
                  .good);
  const Ended status = Libcni("status", "web", "{}", "new");
  EXPECT_TRUE(status.good) << status.out;
  for (const char* id : {"web", "db"}) {
    ASSERT_TRUE(Libcni("add", id, "{}", "new").good);
  }
  // GC uses the cache of valid attachments; without it libcni itself calls DEL.
  const Ended collected = Libcni("gc", "db", "{}", "new");
  EXPECT_TRUE(collected.good) << collected.out;
  EXPECT_TRUE(fs::exists("/run/mountd/base/a/cni-db"));
  EXPECT_FALSE(fs::exists("/run/mountd/base/a/cni-web"));
  EXPECT_TRUE(Libcni("gc", "", "{}", "new").good);
  ExpectAsBefore(before_);
}

TEST_F(CniClients, GoCniHasPortsAndDns) {
  const Ended added = GoCni("add");
  ASSERT_TRUE(added.good) << added.out;
  const Json result = Json::parse(added.out)[0];
  EXPECT_EQ(result["dns"]["nameservers"], Json({"9.9.9.9"})) << result;
  EXPECT_EQ(result["dns"]["search"], Json({"svc.example"}));
  EXPECT_EQ(result["dns"]["options"], Json({"ndots:5"}));
  {
    const Server tcp("/run/netns/web", 80, "hello");
    const Server udp("/run/netns/web", 80, "hello", Server::Transport::kUdp);
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
    EXPECT_EQ(AskUdp("127.0.0.1", 8080), "hello");
  }
  const Ended checked = GoCni("check");
  EXPECT_TRUE(checked.good) << checked.out;
  const Ended gone = GoCni("del");
  EXPECT_TRUE(gone.good) << gone.out;
  ExpectAsBefore(before_);
}

// The configuration that Nomad writes for `network { mode = "bridge" }` (1.6 to
// 2.0), and mountd-cni as each of its plugins.
constexpr char kNomadsConfig[] = R"({
  "cniVersion": "0.4.0", "name": "nomad",
  "plugins": [
    {"type": "loopback"},
    {"type": "bridge", "bridge": "nomad", "ipMasq": true, "isGateway": true,
     "forceAddress": true, "hairpinMode": false,
     "ipam": {"type": "host-local", "ranges": [[{"subnet": "172.26.64.0/20"}]],
              "routes": [{"dst": "0.0.0.0/0"}]}},
    {"type": "firewall", "backend": "iptables",
     "iptablesAdminChainName": "NOMAD-ADMIN"},
    {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true}
  ]
})";

TEST_F(CniClients, GoCniRunsNomadsChain) {
  fs::create_directories("/run/cni/nomad-conf");
  fs::create_directories("/run/cni/nomad");
  for (const char* name : {"loopback", "bridge", "firewall", "portmap"}) {
    fs::create_symlink("../bin/mountd", std::string("/run/cni/nomad/") + name);
  }
  std::ofstream("/run/cni/nomad-conf/nomad.conflist") << kNomadsConfig;
  const auto chain = [](const std::string& verb) {
    return GoCni(verb, "nomad-conf", "nomad");
  };
  const Ended added = chain("add");
  ASSERT_TRUE(added.good) << added.out;
  const Json result = Json::parse(added.out)[0];
  EXPECT_EQ(result["interfaces"][1]["name"], "eth0") << result;
  EXPECT_EQ(result["interfaces"][1]["sandbox"], "/run/netns/web");
  {
    const Server tcp("/run/netns/web", 80, "hello");
    const Server udp("/run/netns/web", 80, "hello", Server::Transport::kUdp);
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
    EXPECT_EQ(AskUdp("127.0.0.1", 8080), "hello");
  }
  const Ended checked = chain("check");
  EXPECT_TRUE(checked.good) << checked.out;
  for (int i = 0; i < 2; ++i) {
    const Ended gone = chain("del");
    EXPECT_TRUE(gone.good) << gone.out;
  }
  EXPECT_FALSE(chain("check").good);
  ExpectAsBefore(before_);
}

// ---- Documents, read by Go and by mountd-cni ----

// Prints the document as Go's struct would.
Json AsGoPrints(const Json& document) {
  const auto text = [](const Json& object, const char* key) {
    return cni::FindText(object, key).value_or("");
  };
  const auto number = [](const Json& object, const char* key) {
    const Json* found = cni::FindMember(object, key);
    return found == nullptr ? Json(0) : *found;
  };
  const Json none = Json::object();
  const Json* found = cni::FindMember(document, "runtimeConfig");
  const Json& runtime = found == nullptr ? none : *found;
  const Json* dns = cni::FindMember(runtime, "dns");
  Json printed = {{"dns", Json::object()}, {"mac", text(runtime, "mac")}};
  for (const char* key : {"servers", "options"}) {
    const Json* texts = dns == nullptr ? nullptr : cni::FindMember(*dns, key);
    if (texts != nullptr && !texts->empty()) {
      printed["dns"][key] = *texts;
    }
  }
  const Json* ports = cni::FindMember(runtime, "portMappings");
  for (std::size_t i = 0; ports != nullptr && i < ports->size(); ++i) {
    const Json& port = (*ports)[i];
    printed["portMappings"].push_back(
        {{"hostPort", number(port, "hostPort")},
         {"containerPort", number(port, "containerPort")},
         {"protocol", text(port, "protocol")},
         {"hostIP", text(port, "hostIP")}});
  }
  return {{"name", text(document, "name")}, {"runtimeConfig", printed}};
}

// Makes documents with names in any spelling, some of them twice.
class Documents {
 public:
  std::string Next() {
    return Object({{"name", Word()},
                   {"runtimeConfig", Runtime()},
                   {"runtimeConfig", Pick(4) == 0 ? Runtime() : "null"}});
  }

 private:
  using Members = std::vector<std::pair<std::string, std::string>>;

  std::size_t Pick(std::size_t most) { return random_() % most; }

  std::string Spelled(const std::string& name) {
    std::string spelled;
    for (const char c : name) {
      const std::size_t how = Pick(6);
      if (how == 0 && c == 's') {
        spelled += "\u017f";
      } else if (how == 1 && c == 'k') {
        spelled += "\u212a";
      } else {
        spelled += how < 3 ? static_cast<char>(std::toupper(c)) : c;
      }
    }
    return spelled;
  }
  std::string Word() { return "\"" + std::to_string(Pick(100)) + "\""; }
  std::string Number() { return std::to_string(Pick(65'536)); }

  // Returns an object whose members are left out, null, or there, in any order.
  std::string Object(Members members) {
    std::shuffle(members.begin(), members.end(), random_);
    std::string text;
    for (const auto& [name, value] : members) {
      const std::size_t how = Pick(8);
      if (how != 0) {
        text += text.empty() ? "" : ",";
        text += "\"" + Spelled(name) + "\":" + (how == 1 ? "null" : value);
      }
    }
    return "{" + text + "}";
  }
  std::string Array(const std::vector<std::string>& items) {
    std::string text;
    for (std::size_t i = 0; i < items.size() && Pick(4) != 0; ++i) {
      text += (i == 0 ? "" : ",") + items[i];
    }
    return "[" + text + "]";
  }
  std::string Port() {
    return Object({{"hostPort", Number()},
                   {"hostPort", Number()},
                   {"containerPort", Number()},
                   {"protocol", Word()},
                   {"hostIP", Word()},
                   {"unknown", Array({Number(), Word()})}});
  }
  std::string Dns() {
    return Object(
        {{"servers", Array({Word(), Word()})}, {"options", Array({Word()})}});
  }
  // No name comes more than twice, because Go 1.26 takes the old elements of an
  // array that shrinks and then grows again.
  std::string Runtime() {
    return Object({{"portMappings", Array({Port(), Port(), Port()})},
                   {"dns", Dns()},
                   {"dns", Dns()},
                   {"mac", Word()},
                   {"mac", Word()}});
  }

  std::mt19937 random_{22};
};

TEST(CniDocuments, AreReadAsGoReadsThem) {
  constexpr cni::TextBounds kBounds{1U << 20U, 32, 65536};
  std::vector<std::string> documents;
  std::string input;
  Documents source;
  for (int i = 0; i < 2000; ++i) {
    documents.push_back(source.Next());
    input += documents.back() + "\n";
  }
  const std::string path = ::testing::TempDir() + "cni-documents";
  std::ofstream(path) << input;
  const Ended decoded = Sh("exec " + std::string(std::getenv("CNI_CLIENTS")) +
                           " decode <" + path);
  fs::remove(path);
  ASSERT_TRUE(decoded.good) << decoded.out;
  std::istringstream lines(decoded.out);
  // In how many documents an exact comparison reads something else.
  int different = 0;
  for (const std::string& document : documents) {
    std::string line;
    ASSERT_TRUE(std::getline(lines, line));
    const Json theirs = Json::parse(line);
    ASSERT_TRUE(theirs.is_object()) << document;
    const auto parsed = cni::ParseAsGo(document, kBounds, "document");
    ASSERT_TRUE(parsed);
    EXPECT_EQ(AsGoPrints(*parsed), theirs) << document;
    const Json exact = Json::parse(document);
    different += exact.value("name", Json("")) != theirs["name"] ? 1 : 0;
  }
  EXPECT_GT(different, 100);
}

// ---- podman ----

class CniPodman : public CniRuntime {
 protected:
  void SetUp() override {
    if (!Sh("command -v podman").good) {
      GTEST_SKIP() << "podman is not installed";
    }
    CniRuntime::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    // podman has its locks in /dev/shm.
    ASSERT_EQ(::mount("podman-test", "/dev/shm", "tmpfs", 0, nullptr), 0);
    HideCgroups();
    WriteConfig();
    MakeRoot();
    ASSERT_TRUE(Podman("run -d --name first " + Sleep()).good);
    ASSERT_TRUE(Podman("rm -f -t 0 first").good);
    before_ = Everything();
  }

  // crun 1.8 requires all of cgroups v1 or all of v2, even if it uses none, so
  // a hybrid hierarchy's v2 is hidden from it.
  static void HideCgroups() {
    constexpr char kUnified[] = "/sys/fs/cgroup/unified";
    if (fs::exists(kUnified)) {
      ASSERT_EQ(::mount("podman-test", kUnified, "tmpfs", 0, nullptr), 0);
    }
  }
  // The configuration keeps podman away from the machine, and loads no AppArmor
  // profile.
  static void WriteConfig() {
    std::ofstream("/run/containers.conf") << R"(
[network]
network_backend = "cni"
cni_plugin_dirs = ["/run/cni/bin"]
network_config_dir = "/run/cni/conf"
default_network = "mountd"
[engine]
cgroup_manager = "cgroupfs"
events_logger = "none"
runtime = "crun"
static_dir = "/run/podman/static"
tmp_dir = "/run/podman/tmp"
[containers]
apparmor_profile = "unconfined"
cgroups = "disabled"
label = false
)";
    std::ofstream("/run/storage.conf") << R"(
[storage]
driver = "vfs"
runroot = "/run/podman/run"
graphroot = "/run/podman/graph"
)";
    ::setenv("CONTAINERS_CONF", "/run/containers.conf", 1);
    ::setenv("CONTAINERS_STORAGE_CONF", "/run/storage.conf", 1);
  }
  // Makes a root file system of the machine's own programs, without an image.
  static void MakeRoot() {
    fs::create_directories("/run/root/usr");
    for (const char* name : {"bin", "sbin", "lib", "lib64"}) {
      fs::create_symlink(std::string("usr/") + name,
                         std::string("/run/root/") + name);
    }
  }
  static std::string Sleep() {
    return "-v /usr:/usr:ro --rootfs /run/root /usr/bin/sleep 600";
  }
  static Ended Podman(const std::string& arguments) {
    return Sh("exec podman " + arguments);
  }
  static std::string NetnsOf(const std::string& name) {
    std::string path =
        Sh("podman inspect -f '{{.NetworkSettings.SandboxKey}}' " + name).out;
    path.erase(path.find_last_not_of('\n') + 1);
    return path;
  }
  static void ExpectAnswers(const std::string& name) {
    const Server server(NetnsOf(name), 80, "hello");
    EXPECT_EQ(Ask("127.0.0.1", 8080), "hello");
  }

  std::string before_;
};

TEST_F(CniPodman, AContainerHasItsPortsUntilItIsRemoved) {
  const Ended run = Podman("run -d --name web -p 8080:80 --ip 10.88.7.7 " +
                           std::string("--dns 9.9.9.9 ") + Sleep());
  ASSERT_TRUE(run.good) << run.out;
  ExpectAnswers("web");
  const Ended inside = Podman("exec web cat /etc/resolv.conf");
  EXPECT_NE(inside.out.find("nameserver 9.9.9.9"), std::string::npos)
      << inside.out;
  EXPECT_NE(Podman("inspect web").out.find("10.88.7.7"), std::string::npos);
  const Ended again = Podman("restart -t 0 web");
  EXPECT_TRUE(again.good) << again.out;
  ExpectAnswers("web");
  EXPECT_TRUE(Podman("rm -f -t 0 web").good);
  ExpectAsBefore(before_);
}

// podman's conmon listens on the ports of a running container, to keep them.
TEST_F(CniPodman, ARunningContainersNetworkIsMadeAnew) {
  const Ended run = Podman("run -d --name web -p 8080:80 " + Sleep());
  ASSERT_TRUE(run.good) << run.out;
  ASSERT_NE(Sh("ss -Hltn sport = :8080").out, "");
  const Ended reloaded = Podman("network reload web");
  EXPECT_TRUE(reloaded.good) << reloaded.out;
  ExpectAnswers("web");
  const Ended gone = Podman("network disconnect mountd web");
  EXPECT_TRUE(gone.good) << gone.out;
  const Ended back = Podman("network connect mountd web");
  EXPECT_TRUE(back.good) << back.out;
  ExpectAnswers("web");
  // Another container does not get the port.
  EXPECT_FALSE(Podman("run -d --name db -p 8080:80 " + Sleep()).good);
  ExpectAnswers("web");
  EXPECT_TRUE(Podman("rm -f -t 0 web db").good);
  ExpectAsBefore(before_);
}

TEST_F(CniPodman, AMacAddressIsHonouredOrRefused) {
  const Ended refused =
      Podman("run -d --name other --mac-address 02:00:00:00:00:09 " + Sleep());
  EXPECT_FALSE(refused.good);
  EXPECT_NE(refused.out.find("02:00:00:00:00:09 is not possible"),
            std::string::npos)
      << refused.out;
  const Ended run =
      Podman("run -d --name web --mac-address 02:4d:0a:58:07:09 " + Sleep());
  EXPECT_TRUE(run.good) << run.out;
  EXPECT_NE(Sh("nsenter --net=" + NetnsOf("web") + " ip -o link show eth0")
                .out.find("02:4d:0a:58:07:09"),
            std::string::npos);
  EXPECT_TRUE(Podman("rm -f -t 0 web other").good);
  ExpectAsBefore(before_);
}

}  // namespace
}  // namespace mountd::testing
