// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Attacks by way of CNI, from a compromised mountd and from users who can write
// where networks and plugins are. Each attack fails against the executor, and
// succeeds in the same test against a naive executor, which shows that the test
// could fail.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>

#include "mountd/base/memory_file.h"
#include "tests/root/attacker.h"
#include "tests/root/networks/network_fixture.h"
#include "tests/support/fakes/cni_world.h"
#include "tests/support/naive.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using cni::Json;
using exec::CniPlan;
using exec::CniVerb;
using exec::PlanBody;
using exec::PlanKind;
using exec::ToWire;

std::uint64_t InodeOf(const char* path) {
  struct stat facts = {};
  EXPECT_EQ(::stat(path, &facts), 0) << path;
  return facts.st_ino;
}

exec::WireName Unchecked(std::string_view text) {
  exec::WireName name;
  name.size = static_cast<std::uint8_t>(text.size());
  std::copy(text.begin(), text.end(), name.bytes.begin());
  return name;
}

class CniAttacks : public Networks, protected cni::CniWorld {
 protected:
  void SetUp() override {
    Networks::SetUp();
    if (IsSkipped()) {
      return;
    }
    exec::NetworkPlan alone;
    alone.allocation = ToWire("web");
    inode_ = Create(alone).netns_inode;
    ::umask(S_IWGRP | S_IWOTH);
    // A tmpfs keeps the records that outlive a boot from outliving the test.
    ASSERT_EQ(::mount("var-lib", "/var/lib", "tmpfs", 0, "mode=0755"), 0);
    Make();
    WriteNetworks();
    config_.cni = {{"/run/networks"}, {"/run/plugins"}};
    config_.timeouts.cni = std::chrono::milliseconds(2000);
    RuleConfig rule;
    rule.networks = {"cni/net"};
    config_.rules.push_back(rule);
    before_ = Inventory::Take();
  }
  static void WriteNetworks() {
    for (const char* name : {"net", "other"}) {
      WriteNetwork(std::string(name) + ".conflist",
                   Network(name, {Plugin("first")}));
    }
  }

  CniPlan AddPlan() const {
    return {CniVerb::kAdd, ToWire("web"), ToWire("net"), inode_};
  }
  static Json RequestFor(const std::string& container,
                         const std::string& network = "net") {
    return {
        {"network", network}, {"container_id", container}, {"ifname", "eth0"}};
  }
  exec::Reply Run(const CniPlan& plan, UniqueFd request) {
    fds_.clear();
    fds_.push_back(std::move(request));
    const exec::Reply reply =
        Call(PlanKind::kRunCni, [&](PlanBody* body) { body->cni = plan; });
    fds_.clear();
    return reply;
  }
  // Returns the code of the runner's answer, or of the executor's refusal.
  std::string CodeOfRun(const CniPlan& plan, UniqueFd request) {
    const exec::Reply reply = Run(plan, std::move(request));
    if (reply.code != 0) {
      return CodeOf(reply);
    }
    const auto text = ReadMemory(last_fd_.get(), exec::kMaxCniAnswerBytes);
    last_fd_.reset();
    const Json answer = Json::parse(text.value(), nullptr, false);
    return answer.value("ok", false) ? "" : answer.value("code", "no code");
  }
  std::string CodeOfRun(const CniPlan& plan, const Json& request) {
    return CodeOfRun(plan, MemoryWith("request", request.dump()).value());
  }
  // No plugin was run, and no record of the request is left, whatever the
  // answer.
  void ExpectNothingRun() {
    EXPECT_TRUE(CallNames().empty());
    EXPECT_FALSE(Exists("/run/mountd/cni/records/web@eth0"));
  }

  // Starts the runner naively: the request alone says everything.
  static void NaiveRun(const Json& request) {
    WriteFile("/run/request", request.dump());
    const std::string runner =
        fs::read_symlink("/proc/self/exe").parent_path() / "mountd-cni-run";
    Shell(runner +
          " --config-dir /run/networks --plugin-dir /run/plugins"
          " --state-dir /run/state --netns /run/netns/web add"
          " </run/request >/dev/null");
  }

  std::uint64_t inode_ = 0;
};

TEST_F(CniAttacks, ARequestForAnotherNetworkOrContainerIsRefused) {
  CniPlan plan = AddPlan();
  plan.network = ToWire("other");
  EXPECT_EQ(CodeOfRun(plan, RequestFor("web", "other")), "InvalidArgument");
  for (const Json& request :
       {RequestFor("web", "other"), RequestFor("db"), Json::object()}) {
    EXPECT_EQ(CodeOfRun(AddPlan(), request), "PermissionDenied") << request;
  }
  ExpectNothingRun();
  NaiveRun(RequestFor("web", "other"));
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_NAIVE(Calls()[0]["config"]["name"] == "other");
  ForgetCalls();
  NaiveRun(RequestFor("db"));
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_NAIVE(Calls()[0]["container"] == "db");
}

TEST_F(CniAttacks, HostPortsThatNoRuleNamesAreRefused) {
  const auto with = [](int port) {
    Json request = RequestFor("web");
    request["port_mappings"] = {
        {{"hostPort", port}, {"containerPort", 80}, {"protocol", "tcp"}}};
    return request;
  };
  for (const int port : {22, 18079, 18091, 65535}) {
    EXPECT_EQ(CodeOfRun(AddPlan(), with(port)), "PermissionDenied") << port;
  }
  ExpectNothingRun();
  Json network = Network("net", {Plugin("first")});
  network["plugins"][0]["capabilities"] = {{"portMappings", true}};
  WriteNetwork("net.conflist", network);
  NaiveRun(with(22));
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_NAIVE(
      Calls()[0]["config"]["runtimeConfig"]["portMappings"][0]["hostPort"] ==
      22);
}

// A path below /run/netns can lead anywhere, so the executor checks the inode
// of the namespace behind it.
TEST_F(CniAttacks, TheHostsNamespaceIsNotTakenForAnAllocations) {
  CniPlan plan = AddPlan();
  plan.netns_inode = inode_ + 1;
  EXPECT_EQ(CodeOfRun(plan, RequestFor("web")), "FailedPrecondition");
  plan.netns_inode = 0;
  EXPECT_EQ(CodeOfRun(plan, RequestFor("web")), "InvalidArgument");
  Unmount("/run/netns/web");
  ASSERT_EQ(
      ::mount("/proc/self/ns/net", "/run/netns/web", nullptr, MS_BIND, nullptr),
      0);
  EXPECT_EQ(CodeOfRun(AddPlan(), RequestFor("web")), "PermissionDenied");
  plan.netns_inode = InodeOf("/proc/self/ns/net");
  EXPECT_EQ(CodeOfRun(plan, RequestFor("web")), "PermissionDenied");
  ExpectNothingRun();
  const Inventory before = Inventory::Take();
  Shell("ip -n web link add evil0 type veth peer evil1");
  EXPECT_NAIVE(Difference(before, Inventory::Take()).find("link evil0") !=
               std::string::npos);
}

TEST_F(CniAttacks, ANameIsNoOptionPathOrCommand) {
  for (const char* text : {"../web", "a/b", "..", "", "web;id", "web id"}) {
    const exec::WireName name = Unchecked(text);
    for (const CniVerb verb : {CniVerb::kAdd, CniVerb::kCheck, CniVerb::kDel}) {
      CniPlan plan = AddPlan();
      plan.verb = verb;
      plan.allocation = name;
      EXPECT_EQ(CodeOfRun(plan, RequestFor(text)), "InvalidArgument") << text;
      plan = AddPlan();
      plan.verb = verb;
      plan.network = name;
      EXPECT_EQ(CodeOfRun(plan, RequestFor("web", text)), "InvalidArgument")
          << text;
    }
  }
  // A name may begin like an option, and must not be taken for one.
  for (const char* text : {"--help", "-h", "--gc"}) {
    CniPlan plan = AddPlan();
    plan.verb = CniVerb::kDel;
    plan.allocation = Unchecked(text);
    EXPECT_NE(CodeOfRun(plan, RequestFor(text)), "") << text;
  }
  ExpectNothingRun();
  EXPECT_FALSE(Exists("/run/pwned"));
  Shell("echo >/dev/null " + std::string("web; touch /run/pwned"));
  EXPECT_NAIVE(Exists("/run/pwned"));
}

// A naive reader, which reads the whole file itself.
class NaiveReader {
 public:
  explicit NaiveReader(int fd) : pid_(::fork()) {
    if (pid_ == 0) {
      std::array<char, 4096> some{};
      while (::read(fd, some.data(), some.size()) > 0) {
      }
      ::_exit(0);
    }
  }
  ~NaiveReader() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  NaiveReader(const NaiveReader&) = delete;
  NaiveReader& operator=(const NaiveReader&) = delete;

  bool IsHeldUp() const {
    ::usleep(300'000);
    siginfo_t ended = {};
    ::waitid(P_PID, static_cast<id_t>(pid_), &ended,
             WEXITED | WNOHANG | WNOWAIT);
    return ended.si_pid == 0;
  }

 private:
  pid_t pid_ = -1;
};

class CniRequestAttacks : public CniAttacks {
 protected:
  void ExpectRefused(UniqueFd request) {
    EXPECT_EQ(CodeOfRun(AddPlan(), std::move(request)), "InvalidArgument");
    ExpectNothingRun();
  }
};

TEST_F(CniRequestAttacks, APipeThatNobodyWritesToHoldsNobodyUp) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe2(ends.data(), O_CLOEXEC), 0);
  const UniqueFd in(ends[1]);
  const UniqueFd out(ends[0]);
  ExpectRefused(UniqueFd(::fcntl(out.get(), F_DUPFD_CLOEXEC, 0)));
  const NaiveReader reader(out.get());
  EXPECT_NAIVE(reader.IsHeldUp());
}

TEST_F(CniRequestAttacks, AFileOfAHungFuseServerHoldsNobodyUp) {
  MakeDirectories("/run/fuse");
  FuseServer server("/run/fuse");
  ASSERT_TRUE(server.valid()) << errno;
  const UniqueFd fd(::open("/run/fuse/file", O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(fd.valid()) << errno;
  fds_.emplace_back(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
  server.Hang();
  EXPECT_EQ(CodeOf(Call(PlanKind::kRunCni,
                        [&](PlanBody* body) { body->cni = AddPlan(); })),
            "InvalidArgument");
  EXPECT_EQ(CodeOf(Call(PlanKind::kWriteNetworkFile,
                        [](PlanBody* body) {
                          body->network_file = exec::NetworkFilePlan{};
                          body->network_file.allocation = ToWire("web");
                        })),
            "InvalidArgument");
  const NaiveReader reader(fd.get());
  EXPECT_NAIVE(reader.IsHeldUp());
  server.GoOn();
  ExpectNothingRun();
}

TEST_F(CniRequestAttacks, WhatIsNoMemoryIsNotRead) {
  for (const char* path : {"/", "/dev/zero", "/proc/self/mem"}) {
    ExpectRefused(UniqueFd(::open(path, O_RDONLY | O_CLOEXEC)));
  }
  const UniqueFd zeroes(::open("/dev/zero", O_RDONLY | O_CLOEXEC));
  const NaiveReader reader(zeroes.get());
  EXPECT_NAIVE(reader.IsHeldUp());
}

// A request within the bounds is read and run, so size alone is the reason.
TEST_F(CniRequestAttacks, AGibibyteOfNothingIsNotReadWhole) {
  UniqueFd zeroes(::memfd_create("request", MFD_CLOEXEC));
  ASSERT_EQ(::ftruncate(zeroes.get(), off_t{1} << 30U), 0);
  ExpectRefused(UniqueFd(::fcntl(zeroes.get(), F_DUPFD_CLOEXEC, 0)));
  std::array<char, 65536> some{};
  off_t naive = 0;  // the bytes that a reader reads who stops at the end
  ASSERT_EQ(::lseek(zeroes.get(), 0, SEEK_SET), 0);
  for (ssize_t got = 1; got > 0; naive += got) {
    got = ::read(zeroes.get(), some.data(), some.size());
  }
  EXPECT_NAIVE(naive == off_t{1} << 30U);
  ASSERT_EQ(::ftruncate(zeroes.get(), 0), 0);
  const std::string text = RequestFor("web").dump();
  ASSERT_EQ(::pwrite(zeroes.get(), text.data(), text.size(), 0),
            static_cast<ssize_t>(text.size()));
  EXPECT_EQ(CodeOfRun(AddPlan(), std::move(zeroes)), "");
}

TEST_F(CniAttacks, PluginsInheritNothing) {
  WriteFile("/run/secret", "");
  const UniqueFd leaked(::open("/run/secret", O_RDONLY));  // NOLINT
  ASSERT_EQ(::setenv("SECRET", "1", 1), 0);
  const auto inherited = [](const Json& call) {
    const auto& environment = call["environment"];
    return !call["fds"].empty() ||
           std::find(environment.begin(), environment.end(), "SECRET=1") !=
               environment.end();
  };
  EXPECT_EQ(CodeOfRun(AddPlan(), RequestFor("web")), "");
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_FALSE(inherited(Calls()[0])) << Calls()[0];
  const Json environment = Calls().at(0)["environment"];
  for (const Json& variable : environment) {
    const auto text = variable.get<std::string>();
    EXPECT_TRUE(text.starts_with("CNI_") || text.starts_with("PATH=")) << text;
  }
  ForgetCalls();
  Json config = Plugin("first");
  config["cniVersion"] = "1.0.0";
  WriteFile("/run/config", config.dump());
  Shell("CNI_COMMAND=ADD /run/plugins/first </run/config >/dev/null");
  ASSERT_EQ(Calls().size(), 1U);
  EXPECT_NAIVE(inherited(Calls()[0])) << Calls()[0];
  ::unsetenv("SECRET");
}

// A type of a plugin list names a file in the plugins' directories, so it
// cannot lead to a program elsewhere.
TEST_F(CniAttacks, ATypeLeadsToNoOtherProgram) {
  const std::string own = fs::read_symlink("/proc/self/exe").parent_path();
  for (const std::string& type :
       {std::string("../../bin/sh"), std::string("../plugins/first"),
        std::string("/bin/sh"), own + "/mountd-exec", own + "/mountd-cni-run",
        std::string("mountd-exec"), std::string("..")}) {
    Json plugin = Plugin("first");
    plugin["type"] = type;
    WriteNetwork("net.conflist", Network("net", {plugin}));
    EXPECT_NE(CodeOfRun(AddPlan(), RequestFor("web")), "") << type;
    plugin = Plugin("first");
    plugin["ipam"] = {{"type", type}};
    WriteNetwork("net.conflist", Network("net", {plugin}));
    EXPECT_NE(CodeOfRun(AddPlan(), RequestFor("web")), "") << type;
    ExpectNothingRun();
  }
  EXPECT_NAIVE(::access("/run/plugins/../../bin/sh", X_OK) == 0);
  EXPECT_NAIVE(::access(("/run/plugins/../.." + own + "/mountd-exec").c_str(),
                        X_OK) == 0);
}

TEST_F(CniAttacks, WhatOthersCanWriteIsNeitherReadNorRun) {
  const auto refused = [this](const char* what) {
    EXPECT_NE(CodeOfRun(AddPlan(), RequestFor("web")), "") << what;
    ExpectNothingRun();
  };
  for (const char* path : {"/run/networks", "/run/networks/net.conflist",
                           "/run/plugins", "/run/plugins/first"}) {
    const fs::perms mode = fs::status(path).permissions();
    fs::permissions(path, fs::perms(0777));
    refused(path);
    // A naive runner reads and runs files that any user may have changed.
    EXPECT_NAIVE(AsAttacker([path] { return ::access(path, W_OK); }) == 0)
        << path;
    fs::permissions(path, mode);
    const std::string real = std::string(path) + ".real";
    fs::rename(path, real);
    fs::create_symlink(real, path);
    refused((std::string(path) + " is a link").c_str());
    fs::remove(path);
    fs::rename(real, path);
  }
  EXPECT_EQ(CodeOfRun(AddPlan(), RequestFor("web")), "");
  EXPECT_EQ(CallNames().size(), 1U);
}

}  // namespace
}  // namespace mountd::testing
