// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/bundle/config.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tests/agent/driver/bundle/bundles.h"
#include "tests/support/matchers.h"

namespace mountd::driver {
namespace {

using Json = nlohmann::json;

Json Parsed(const ContainerConfig& config) {
  const auto text = ConfigFile(config);
  EXPECT_THAT(text, IsOk());
  return text ? Json::parse(*text) : Json();
}

TaskMount MountAt(const std::string& destination) {
  return {"/srv/volume", destination, false, false, TaskPropagation::kPrivate};
}

Result<void> CheckedAt(const std::string& destination) {
  return CheckTaskMounts({MountAt(destination)}, Inbox());
}

std::vector<std::string> OptionsAt(const Json& config,
                                   const std::string& destination) {
  for (const Json& mount : config.at("mounts")) {
    if (mount.at("destination") == destination) {
      return mount.at("options");
    }
  }
  return {"no mount"};
}

using Options = std::vector<std::string>;

TEST(DriverCapabilities, TheDefaultIsPodmans) {
  const std::set<std::string> podmans = {
      "CAP_CHOWN",   "CAP_DAC_OVERRIDE",     "CAP_FOWNER",    "CAP_FSETID",
      "CAP_KILL",    "CAP_NET_BIND_SERVICE", "CAP_SETFCAP",   "CAP_SETGID",
      "CAP_SETPCAP", "CAP_SETUID",           "CAP_SYS_CHROOT"};
  ASSERT_OK_AND_ASSIGN(const TaskCapabilities none, CapabilitiesWith({}));
  EXPECT_EQ(none.bounding, podmans);
  EXPECT_TRUE(none.added.empty());
}

TEST(DriverCapabilities, NamesComeInEachSpelling) {
  for (const char* text :
       {"net_raw", "NET_RAW", "cap_net_raw", "CAP_NET_RAW", "Cap_Net_Raw"}) {
    ASSERT_OK_AND_ASSIGN(const std::string name, CapabilityName(text));
    EXPECT_EQ(name, "CAP_NET_RAW");
  }
  for (const char* text : {"", "CAP_", "net raw", "CAP_CAP_CHOWN", "root"}) {
    EXPECT_THAT(CapabilityName(text), IsErr(Code::kInvalidArgument));
  }
}

TEST(DriverCapabilities, DroppingIsStrongerThanAdding) {
  ASSERT_OK_AND_ASSIGN(
      const TaskCapabilities both,
      CapabilitiesWith({{"net_raw", "sys_time"}, {"chown", "net_raw"}}));
  EXPECT_EQ(both.bounding.count("CAP_NET_RAW"), 0U);
  EXPECT_EQ(both.bounding.count("CAP_CHOWN"), 0U);
  EXPECT_EQ(both.added, (std::set<std::string>{"CAP_SYS_TIME"}));
  ASSERT_OK_AND_ASSIGN(const TaskCapabilities one,
                       CapabilitiesWith({{"kill"}, {"all"}}));
  EXPECT_EQ(one.bounding, (std::set<std::string>{"CAP_KILL"}));
  ASSERT_OK_AND_ASSIGN(const TaskCapabilities none,
                       CapabilitiesWith({{"ALL"}, {"all"}}));
  EXPECT_TRUE(none.bounding.empty());
  ASSERT_OK_AND_ASSIGN(const TaskCapabilities most,
                       CapabilitiesWith({{"all"}, {"sys_admin"}}));
  EXPECT_EQ(most.bounding.count("CAP_SYS_ADMIN"), 0U);
  EXPECT_EQ(most.bounding.count("CAP_NET_ADMIN"), 1U);
}

TEST(DriverProcess, ExecSaysNoNewPrivilegesItself) {
  ContainerProcess process = PlainContainer().process;
  process.env = {{"B", "2"}, {"A", "1=x"}, {"EMPTY", ""}};
  process.terminal = true;
  process.console_size = {24, 80};
  process.user = {1000, 1001, {7, 5, 7}};
  ASSERT_OK_AND_ASSIGN(const std::string text, ProcessFile(process));
  const Json file = Json::parse(text);
  EXPECT_EQ(file.at("noNewPrivileges"), true);
  EXPECT_EQ(file.at("env"), (Json{"A=1=x", "B=2", "EMPTY="}));
  EXPECT_EQ(file.at("user"),
            (Json{{"uid", 1000}, {"gid", 1001}, {"additionalGids", {5, 7}}}));
  EXPECT_EQ(file.at("consoleSize"), (Json{{"height", 24}, {"width", 80}}));
}

TEST(DriverProcess, AnotherUserThanRootHasOnlyAddedCapabilities) {
  ContainerProcess process = PlainContainer().process;
  process.user.uid = 1000;
  process.capabilities = *CapabilitiesWith({{"net_bind_service"}, {}});
  const Json sets = Json::parse(*ProcessFile(process)).at("capabilities");
  EXPECT_EQ(sets.at("bounding").size(), 11U);
  for (const char* set : {"effective", "permitted", "inheritable", "ambient"}) {
    EXPECT_EQ(sets.at(set), (Json{"CAP_NET_BIND_SERVICE"})) << set;
  }
  process.user.uid = 0;
  const Json root = Json::parse(*ProcessFile(process)).at("capabilities");
  EXPECT_FALSE(root.contains("ambient"));
  EXPECT_EQ(root.at("effective"), root.at("bounding"));
}

TEST(DriverProcess, NoSizeWithoutATerminal) {
  ContainerProcess process = PlainContainer().process;
  process.console_size = {24, 80};
  EXPECT_FALSE(Json::parse(*ProcessFile(process)).contains("consoleSize"));
  process.terminal = true;
  process.console_size = {0, 80};
  EXPECT_FALSE(Json::parse(*ProcessFile(process)).contains("consoleSize"));
  process.console_size = {65536, 80};
  EXPECT_THAT(ProcessFile(process), IsErr(Code::kInvalidArgument));
}

template <typename Change>
Result<std::string> ProcessAfter(Change change) {
  ContainerProcess process = PlainContainer().process;
  change(&process);
  return ProcessFile(process);
}

TEST(DriverProcess, WrongMembersAreNamed) {
  using P = ContainerProcess;
  const auto wrong = Code::kInvalidArgument;
  EXPECT_THAT(ProcessAfter([](P* p) { p->args.clear(); }),
              IsErrOf(wrong, "args"));
  EXPECT_THAT(ProcessAfter([](P* p) { p->args = {""}; }),
              IsErrOf(wrong, "args"));
  EXPECT_THAT(ProcessAfter([](P* p) {
                p->args = {"a", "\xff"};
              }),
              IsErrOf(wrong, "argument"));
  EXPECT_THAT(ProcessAfter([](P* p) {
                p->args = {"a", {"b\0c", 3}};
              }),
              IsErrOf(wrong, "argument"));
  EXPECT_THAT(ProcessAfter([](P* p) {
                p->args = {"a", std::string(131072, 'x')};
              }),
              IsErrOf(wrong, "128 KiB"));
  EXPECT_THAT(ProcessAfter([](P* p) { p->env[""] = "x"; }),
              IsErrOf(wrong, "variable"));
  EXPECT_THAT(ProcessAfter([](P* p) { p->env["A=B"] = "x"; }),
              IsErrOf(wrong, "A=B"));
  EXPECT_THAT(ProcessAfter([](P* p) { p->cwd = "work"; }),
              IsErrOf(wrong, "cwd"));
  EXPECT_THAT(ProcessAfter([](P* p) { p->cwd = ""; }), IsErrOf(wrong, "cwd"));
  EXPECT_THAT(ProcessAfter([](P* p) { p->user.uid = UINT32_MAX; }),
              IsErrOf(wrong, "user"));
  EXPECT_THAT(
      ProcessAfter([](P* p) { p->user.additional_gids = {UINT32_MAX}; }),
      IsErrOf(wrong, "user"));
  EXPECT_THAT(ProcessAfter([](P* p) {
                p->rlimits = {{"NOFILE", 1, 1}};
              }),
              IsErrOf(wrong, "NOFILE"));
  EXPECT_THAT(ProcessAfter([](P* p) {
                p->rlimits = {{"RLIMIT_NOFILE", 2, 1}};
              }),
              IsErrOf(wrong, "soft"));
  EXPECT_THAT(ProcessAfter([](P* p) {
                p->rlimits = {{"RLIMIT_CPU", 1, 1}, {"RLIMIT_CPU", 2, 2}};
              }),
              IsErrOf(wrong, "twice"));
}

// A value may be a password.
TEST(DriverProcess, AnErrorNeverShowsAVariablesValue) {
  const auto failed =
      ProcessAfter([](ContainerProcess* p) { p->env["KEY"] = "hidden\xff"; });
  ASSERT_THAT(failed, IsErrOf(Code::kInvalidArgument, "KEY"));
  EXPECT_EQ(failed.error().Message().find("hidden"), std::string::npos);
}

TEST(DriverMounts, DestinationsAreChecked) {
  for (const char* good : {"/a", "/a/b", "/procs", "/device", "/systems",
                           "/a/..b", "/a/.b", "/run/dev", "/a b"}) {
    EXPECT_THAT(CheckedAt(good), IsOk()) << good;
  }
  for (const char* bad : {"",           "/",        "a",
                          "./a",        "../a",     "/a/",
                          "//a",        "/a//b",    "/a/./b",
                          "/a/..",      "/../a",    "/a/../proc",
                          "/.",         "/..",      "/proc",
                          "/proc/self", "/sys",     "/sys/fs/cgroup",
                          "/dev",       "/dev/shm", "/dev/pts/0",
                          "/\xff"}) {
    EXPECT_THAT(CheckedAt(bad), IsErr(Code::kInvalidArgument)) << bad;
  }
  EXPECT_THAT(CheckedAt(std::string("/a\0/../proc", 11)),
              IsErr(Code::kInvalidArgument));
  EXPECT_THAT(CheckedAt("/" + std::string(4095, 'a')),
              IsErr(Code::kInvalidArgument));
}

TEST(DriverMounts, ASourceIsAnAbsolutePath) {
  TaskMount mount = MountAt("/a");
  for (const char* bad : {"", "srv", "/srv/../etc", "/srv\xff"}) {
    mount.source = bad;
    EXPECT_THAT(CheckTaskMounts({mount}, Inbox()),
                IsErr(Code::kInvalidArgument))
        << bad;
  }
}

TEST(DriverMounts, NoTwoHaveOneDestination) {
  const auto wrong = Code::kInvalidArgument;
  EXPECT_THAT(CheckTaskMounts({MountAt("/a"), MountAt("/b")}, Inbox()), IsOk());
  EXPECT_THAT(CheckTaskMounts({MountAt("/a"), MountAt("/a")}, Inbox()),
              IsErrOf(wrong, "/a"));
  const Inbox inbox{"/srv/inbox", "/inbox", {{"/data", "data"}}};
  EXPECT_THAT(CheckTaskMounts({MountAt("/a")}, inbox), IsOk());
  EXPECT_THAT(CheckTaskMounts({MountAt("/data")}, inbox), IsErr(wrong));
  EXPECT_THAT(CheckTaskMounts({MountAt("/data/x")}, inbox),
              IsErrOf(wrong, "link"));
  EXPECT_THAT(CheckTaskMounts({MountAt("/inbox")}, inbox), IsErr(wrong));
  EXPECT_THAT(CheckTaskMounts({MountAt("/inbox/data")}, inbox), IsErr(wrong));
  EXPECT_THAT(CheckTaskMounts({}, {"/srv/inbox", "/proc", {}}), IsErr(wrong));
  EXPECT_THAT(CheckTaskMounts({}, {"/i", "/inbox", {{"/a", "../x"}}}),
              IsErr(wrong));
  EXPECT_THAT(CheckTaskMounts({}, {"", "/inbox", {{"/a", "a"}}}),
              IsErrOf(wrong, "no inbox"));
  EXPECT_THAT(CheckTaskMounts({}, {"/i", "/inbox", {{"/a", "a"}, {"/a", "b"}}}),
              IsErr(wrong));
}

TEST(DriverMounts, BidirectionalIsRefusedWithTheReason) {
  TaskMount mount = MountAt("/a");
  mount.propagation = TaskPropagation::kBidirectional;
  EXPECT_THAT(CheckTaskMounts({mount}, Inbox()),
              IsErrOf(Code::kNotSupported, "never reaches the host"));
  ContainerConfig config = PlainContainer();
  config.mounts = {mount};
  EXPECT_THAT(ConfigFile(config), IsErr(Code::kNotSupported));
}

TEST(DriverMounts, EachIsNosuidAndNodev) {
  ContainerConfig config = PlainContainer();
  TaskMount slave = MountAt("/slave");
  slave.propagation = TaskPropagation::kHostToTask;
  slave.read_only = slave.no_exec = true;
  config.mounts = {MountAt("/a"), slave};
  config.inbox.source = "/srv/inbox";
  const Json file = Parsed(config);
  EXPECT_EQ(OptionsAt(file, "/a"),
            (Options{"rbind", "rprivate", "nosuid", "nodev"}));
  EXPECT_EQ(OptionsAt(file, "/slave"),
            (Options{"rbind", "rslave", "nosuid", "nodev", "noexec", "ro"}));
  EXPECT_EQ(OptionsAt(file, "/inbox"),
            (Options{"rbind", "rslave", "nosuid", "nodev", "ro"}));
  EXPECT_EQ(file.at("linux").at("rootfsPropagation"), "rslave");
}

TEST(DriverMounts, AParentComesBeforeItsChild) {
  ContainerConfig config = PlainContainer();
  config.mounts = {MountAt("/a/b/c"), MountAt("/z"), MountAt("/a"),
                   MountAt("/a/b")};
  std::vector<std::string> order;
  const Json file = Parsed(config);
  for (const Json& mount : file.at("mounts")) {
    if (mount.at("type") == "bind") {
      order.push_back(mount.at("destination"));
    }
  }
  EXPECT_EQ(order, (Options{"/z", "/a", "/a/b", "/a/b/c"}));
}

TEST(DriverMounts, WithoutATtyGroupDevptsHasNone) {
  ContainerConfig config = PlainContainer();
  config.default_mounts.has_tty_group = false;
  EXPECT_EQ(OptionsAt(Parsed(config), "/dev/pts"),
            (Options{"nosuid", "noexec", "newinstance", "ptmxmode=0666",
                     "mode=0620"}));
}

TEST(DriverConfig, OnlyWhatIsAskedForIsLimited) {
  EXPECT_EQ(Parsed(PlainContainer()).at("linux").at("resources"),
            Json::object());
  EXPECT_FALSE(Parsed(PlainContainer()).at("linux").contains("cgroupsPath"));
  ContainerConfig config = PlainContainer();
  config.resources.memory_max = 1000;
  EXPECT_EQ(Parsed(config).at("linux").at("resources"),
            (Json{{"memory", {{"limit", 1000}, {"swap", 1000}}}}));
  config.resources.memory_swap_max = 24;
  EXPECT_EQ(Parsed(config).at("linux").at("resources").at("memory"),
            (Json{{"limit", 1000}, {"swap", 1024}}));
}

template <typename Change>
Result<std::string> ConfigAfter(Change change) {
  ContainerConfig config = PlainContainer();
  change(&config);
  return ConfigFile(config);
}

TEST(DriverConfig, WrongMembersAreNamed) {
  using C = ContainerConfig;
  const auto wrong = Code::kInvalidArgument;
  EXPECT_THAT(ConfigAfter([](C* c) { c->rootfs = "rootfs"; }),
              IsErrOf(wrong, "rootfs"));
  for (const std::string& bad :
       {std::string(), std::string("a_b"), std::string("a/b"),
        std::string(65, 'a'), std::string("a\nb")}) {
    EXPECT_THAT(ConfigAfter([&](C* c) { c->hostname = bad; }),
                IsErrOf(wrong, "hostname"));
  }
  EXPECT_THAT(ConfigAfter([](C* c) { c->cgroups_path = "web"; }),
              IsErrOf(wrong, "cgroup"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->cgroups_path = "/a/../../b"; }),
              IsErrOf(wrong, "cgroup"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.memory_max = 0; }),
              IsErrOf(wrong, "memory.max"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.memory_max = UINT64_MAX; }),
              IsErrOf(wrong, "memory.max"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.memory_swap_max = 1; }),
              IsErrOf(wrong, "needs a limit of memory"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.cpu_weight = 0; }),
              IsErrOf(wrong, "cpu.weight"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.cpu_weight = 10001; }),
              IsErrOf(wrong, "cpu.weight"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.cpu_quota_us = 999; }),
              IsErrOf(wrong, "cpu.max"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.cpu_period_us = 1000001; }),
              IsErrOf(wrong, "period"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.pids_max = 0; }),
              IsErrOf(wrong, "pids.max"));
  EXPECT_THAT(ConfigAfter([](C* c) { c->resources.cpuset_cpus = "0;1"; }),
              IsErrOf(wrong, "cpuset"));
}

}  // namespace
}  // namespace mountd::driver
