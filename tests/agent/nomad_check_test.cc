// SPDX-License-Identifier: LGPL-2.1-or-later
// The verdicts of `mountctl doctor --nomad`, and the facts that they are about.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "agent/mountctl/doctor/nomad_checks.h"
#include "agent/mountctl/doctor/nomad_facts.h"
#include "agent/mountctl/doctor/nomad_report.h"
#include "tests/support/matchers.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(CheckNomadUser, RefusesRoot) {
  EXPECT_EQ(CheckNomadUser("nomad", false).verdict, Verdict::kOk);
  const Check root = CheckNomadUser("root", true);
  EXPECT_EQ(root.verdict, Verdict::kFailed);
  EXPECT_THAT(root.advice, HasSubstr("runuser -u nomad"));
}

TEST(CheckSubordinateIds, WantsAsManyAsImagesUse) {
  const auto of = [](std::uint64_t count) {
    return CheckSubordinateIds("/etc/subuid", "nomad", count);
  };
  EXPECT_EQ(of(65'536).verdict, Verdict::kOk);
  EXPECT_EQ(of(1000).verdict, Verdict::kWarning);
  EXPECT_EQ(of(0).verdict, Verdict::kFailed);
  EXPECT_THAT(of(0).advice, HasSubstr("--add-subuids FIRST-LAST nomad"));
  EXPECT_EQ(CheckSubordinateIds("/etc/subgid", "nomad",
                                ErrnoError(EACCES, "open", "x"))
                .verdict,
            Verdict::kUnknown);
}

TEST(CheckProgram, NamesThePackage) {
  const auto of = [](const char* path, bool privileged) {
    return CheckProgram({"newuidmap", "uidmap", path, privileged});
  };
  EXPECT_EQ(of("/usr/bin/newuidmap", true).verdict, Verdict::kOk);
  EXPECT_EQ(of("", true).verdict, Verdict::kFailed);
  EXPECT_THAT(of("", true).advice, HasSubstr("apt-get install uidmap"));
  EXPECT_EQ(of("/usr/bin/newuidmap", false).verdict, Verdict::kFailed);
  EXPECT_THAT(of("/usr/bin/newuidmap", false).why, HasSubstr("set-user-ID"));
}

TEST(CheckUserNamespaces, KnowsEachSwitch) {
  EXPECT_EQ(CheckUserNamespaces({}).verdict, Verdict::kOk);
  EXPECT_EQ(CheckUserNamespaces({"1", "60000", "0"}).verdict, Verdict::kOk);
  const Check debian = CheckUserNamespaces({"0", "60000", {}});
  EXPECT_EQ(debian.verdict, Verdict::kFailed);
  EXPECT_THAT(debian.why, HasSubstr("unprivileged_userns_clone"));
  const Check none = CheckUserNamespaces({"1", "0", {}});
  EXPECT_EQ(none.verdict, Verdict::kFailed);
  EXPECT_THAT(none.why, HasSubstr("max_user_namespaces"));
  const Check apparmor = CheckUserNamespaces({{}, "60000", "1"});
  EXPECT_EQ(apparmor.verdict, Verdict::kFailed);
  EXPECT_THAT(apparmor.why, HasSubstr("AppArmor"));
}

TEST(CheckBridgeModule, IsWhatNomadLooksFor) {
  EXPECT_EQ(CheckBridgeModule(true).verdict, Verdict::kOk);
  EXPECT_EQ(CheckBridgeModule(false).verdict, Verdict::kFailed);
}

NomadUnit Running() {
  return {"loaded", "active", "nomad", true, {}, "/system.slice/nomad.service"};
}

TEST(CheckNomadUnit, RunsAsTheCallerWithADelegatedCgroup) {
  EXPECT_EQ(CheckNomadUnit(Running(), "nomad").verdict, Verdict::kOk);
  NomadUnit unit = Running();
  unit.load = "not-found";
  EXPECT_EQ(CheckNomadUnit(unit, "nomad").verdict, Verdict::kFailed);
  unit = Running();
  unit.user = "";
  EXPECT_EQ(CheckNomadUnit(unit, "nomad").verdict, Verdict::kFailed);
  EXPECT_THAT(CheckNomadUnit(unit, "nomad").why, HasSubstr("runs as root"));
  EXPECT_THAT(CheckNomadUnit(unit, "nomad").advice, HasSubstr("mountd-nomad"));
  EXPECT_THAT(CheckNomadUnit(Running(), "bob").advice,
              HasSubstr("runuser -u nomad"));
  unit = Running();
  unit.delegate = false;
  EXPECT_EQ(CheckNomadUnit(unit, "nomad").verdict, Verdict::kFailed);
  EXPECT_THAT(CheckNomadUnit(unit, "nomad").advice, HasSubstr("Delegate=yes"));
  for (const char* state : {"inactive", "failed"}) {
    unit = Running();
    unit.active = state;
    EXPECT_EQ(CheckNomadUnit(unit, "nomad").verdict, Verdict::kWarning);
  }
}

TEST(CheckNomadUnit, TheLastValueOfAVariableCounts) {
  NomadUnit unit = Running();
  unit.environment = {"PATH=/a", "XPATH=/b", "PATH=/c"};
  EXPECT_EQ(VariableOf(unit, "PATH"), "/c");
  EXPECT_EQ(VariableOf(unit, "HOME"), "");
}

TEST(CheckNomadCgroup, WantsDelegationAndControllers) {
  const auto of = [](bool exists, bool delegated, const char* controllers) {
    return CheckNomadCgroup({"/c", exists, delegated, controllers});
  };
  EXPECT_EQ(of(true, true, "cpuset cpu io memory pids").verdict, Verdict::kOk);
  EXPECT_EQ(of(false, false, "").verdict, Verdict::kUnknown);
  EXPECT_EQ(of(true, false, "cpu memory pids").verdict, Verdict::kFailed);
  const Check few = of(true, true, "cpuset pids");
  EXPECT_EQ(few.verdict, Verdict::kWarning);
  EXPECT_THAT(few.why, HasSubstr("no controller cpu, memory,"));
}

NetworkGrant Bridge(const char* name, std::vector<PortRange> ports) {
  NetworkGrant grant;
  grant.network = name;
  grant.mode = "bridge";
  grant.host_ports = std::move(ports);
  return grant;
}

TEST(CheckNomadGrants, WantTheNetworkOfTheUnitAndPorts) {
  const auto all = CheckNomadGrants({Bridge("default", {{20000, 32000}})}, "");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].verdict, Verdict::kOk);
  EXPECT_EQ(all[1].verdict, Verdict::kOk);

  NetworkGrant none;
  none.network = none.mode = "none";
  const auto nothing = CheckNomadGrants({none}, "");
  ASSERT_EQ(nothing.size(), 1U);
  EXPECT_EQ(nothing[0].verdict, Verdict::kFailed);
  EXPECT_THAT(nothing[0].advice, HasSubstr("networks = [\"default\"]"));

  const auto other = CheckNomadGrants({Bridge("default", {})}, "inner");
  ASSERT_EQ(other.size(), 2U);
  EXPECT_EQ(other[0].verdict, Verdict::kFailed);
  EXPECT_THAT(other[0].advice, HasSubstr("networks = [\"inner\"]"));
  EXPECT_EQ(other[1].verdict, Verdict::kFailed);
  EXPECT_THAT(other[1].advice, HasSubstr("host_ports"));
}

TEST(CheckGrantedCgroup, WantsARuleOfTheUserOrItsGroups) {
  constexpr char kCgroup[] = "/system.slice/nomad.service";
  const RuleOwner owner{{"nomad", "992"}, {"mountd-agents", "995"}};
  const auto of = [&](const std::string& who, const std::string& cgroups) {
    return CheckGrantedCgroup(
               "[[rule]]\n" + who + "\ncgroups = [" + cgroups + "]\n", owner,
               kCgroup)
        .verdict;
  };
  const std::string granted = "\"/system.slice/nomad.service\"";
  EXPECT_EQ(of("users = [\"nomad\"]", granted), Verdict::kOk);
  EXPECT_EQ(of("users = [992]", "\"/system.slice\""), Verdict::kOk);
  EXPECT_EQ(of("groups = [\"mountd-agents\"]", granted), Verdict::kOk);
  EXPECT_EQ(of("users = [\"alice\"]", granted), Verdict::kFailed);
  EXPECT_EQ(of("users = [\"nomad\"]", "\"/nomad.slice\""), Verdict::kFailed);
  EXPECT_EQ(CheckGrantedCgroup("", owner, kCgroup).verdict, Verdict::kFailed);
  EXPECT_EQ(CheckGrantedCgroup("[[", owner, kCgroup).verdict,
            Verdict::kUnknown);
}

TEST(CheckNames, SaysWhatIsMissing) {
  EXPECT_EQ(CheckNames("plugin", "/d", {}).verdict, Verdict::kOk);
  const Check missing = CheckNames("CNI plugins", "/d", {"bridge", "portmap"});
  EXPECT_EQ(missing.verdict, Verdict::kFailed);
  EXPECT_THAT(missing.why, HasSubstr("bridge, portmap"));
}

TEST(CheckIptables, IsTheStandIn) {
  EXPECT_EQ(CheckIptables("/n/bin/iptables", "/n/bin/iptables").verdict,
            Verdict::kOk);
  const Check real = CheckIptables("/usr/sbin/iptables", "/n/bin/iptables");
  EXPECT_EQ(real.verdict, Verdict::kFailed);
  EXPECT_THAT(real.advice, HasSubstr("PATH=/n/bin:"));
  EXPECT_EQ(CheckIptables("", "/n/bin/iptables").verdict, Verdict::kFailed);
}

TEST(CheckOwnDirectory, IsThereAndWritable) {
  const auto of = [](bool exists, bool writable) {
    return CheckOwnDirectory("d", {"/d", exists, writable}, "a").verdict;
  };
  EXPECT_EQ(of(true, true), Verdict::kOk);
  EXPECT_EQ(of(true, false), Verdict::kFailed);
  EXPECT_EQ(of(false, false), Verdict::kFailed);
}

TEST(ValueInHcl, ReadsOneKeyOfALine) {
  EXPECT_EQ(ValueInHcl("a = \"1\"\n  key= \"2\" # c\n", "key"), "2");
  EXPECT_EQ(ValueInHcl("client { key = \"3\" }\n", "key"), "3");
  EXPECT_EQ(ValueInHcl("# key = \"4\"\n// key = \"5\"\nkeys = \"6\"\n", "key"),
            "");
  EXPECT_EQ(ValueInHcl("key = \"7\"\nkey = \"8\"\n", "key"), "8");
  EXPECT_EQ(ValueInHcl("key\nkey =\nkey = \"\nkey = 9\n", "key"), "");
}

TEST(ReadNomadConfig, WaitsForNoFifoAndReadsNoDevice) {
  const TempDirectory directory;
  ASSERT_EQ(::mkfifo(directory.File("x.hcl").c_str(), 0600), 0);
  EXPECT_THAT(ReadNomadConfig(directory.File("")),
              IsErr(Code::kInvalidArgument));
  EXPECT_THAT(ReadNomadConfig("/dev/zero"), IsErr(Code::kInvalidArgument));
}

TEST(CheckNomadConfig, EachKeyHasItsCheck) {
  const NomadDirectories directories{"/p", "/c"};
  const auto verdicts = [&](const std::string& text) {
    std::vector<Verdict> all;
    for (const Check& check : CheckNomadConfig(text, directories)) {
      all.push_back(check.verdict);
    }
    return all;
  };
  EXPECT_THAT(verdicts("plugin_dir = \"/p\"\nclient {\n cni_path = \"/c\"\n}\n"
                       "plugin \"mountd\" {\n}\n"),
              ElementsAre(Verdict::kOk, Verdict::kOk, Verdict::kOk));
  EXPECT_THAT(
      verdicts("plugin_dir = \"/x\"\n# plugin \"mountd\" {\n"),
      ElementsAre(Verdict::kFailed, Verdict::kFailed, Verdict::kFailed));
}

// The facts and the report, of a directory in place of the machine.
class NomadReportTest : public testing::Test {
 protected:
  NomadReportTest() {
    places_.etc = At("etc");
    places_.sysctl = At("sysctl");
    places_.modules = At("modules");
    places_.cgroups = At("cgroup");
    places_.config = At("etc/nomad.d");
    places_.cache = At("cache");
    places_.installed = At("nomad");
    places_.path = At("nomad/bin") + ":" + At("bin");
    const std::string user = WhoAsks().users.front();
    Write("etc/subuid", user + ":100000:65536\n");
    Write("etc/subgid", user + ":100000:65536\n");
    Write("etc/mountd/mountd.toml",
          "[[rule]]\nusers = [\"" + user +
              "\"]\ncgroups = [\"/system.slice/nomad.service\"]\n");
    Write("etc/nomad.d/nomad.hcl",
          "data_dir = \"" + At("data") + "\"\nplugin_dir = \"" +
              At("nomad/plugins") + "\"\nclient {\n  cni_path = \"" +
              At("nomad/cni") + "\"\n}\nplugin \"mountd\" {}\n");
    struct utsname kernel = {};
    ::uname(&kernel);
    Write(std::string("modules/") + kernel.release + "/modules.dep",
          "kernel/net/bridge/bridge.ko: kernel/net/802/stp.ko\n");
    Write("sysctl/user/max_user_namespaces", "1000\n");
    fs::create_directories(At("cache"));
    for (const char* program :
         {"bin/crun", "bin/skopeo", "bin/umoci", "nomad/bin/iptables",
          "nomad/plugins/mountd", "nomad/cni/bridge", "nomad/cni/firewall",
          "nomad/cni/host-local", "nomad/cni/loopback", "nomad/cni/mountd",
          "nomad/cni/portmap", "bin/newuidmap", "bin/newgidmap"}) {
      Write(program, "");
      ::chmod(At(program).c_str(), 0755);
    }
    const std::string cgroup = "cgroup/system.slice/nomad.service/";
    Write(cgroup + "cgroup.controllers", "cpu memory pids\n");
    Write(cgroup + "cgroup.procs", "");
    Write(cgroup + "cgroup.subtree_control", "");
    unit_.user = user;
  }

  std::string At(const std::string& name) const {
    return directory_.File(name);
  }
  void Write(const std::string& name, const std::string& text) {
    fs::create_directories(fs::path(At(name)).parent_path());
    std::ofstream(At(name)) << text;
  }
  // Returns the objects of the checks that are not fine, but for those that
  // depend on who runs the test: the user, and the rights of its programs.
  std::vector<std::string> Wrong() {
    std::vector<std::string> wrong;
    for (const Check& check : CheckNomadClient(places_, unit_, nullptr)) {
      if (check.verdict != Verdict::kOk && check.what != "user" &&
          check.why.find("set-user-ID") == std::string::npos) {
        wrong.push_back(check.what);
      }
    }
    return wrong;
  }

  TempDirectory directory_;
  NomadPlaces places_;
  NomadUnit unit_ = Running();
};

TEST_F(NomadReportTest, FindsNothingWhereNothingIsMissing) {
  EXPECT_THAT(Wrong(), IsEmpty());
}

TEST_F(NomadReportTest, FindsEachThingThatIsMissing) {
  const std::map<std::string, std::string> things = {
      {"bin/crun", "program crun or runc"},
      {"bin/skopeo", "program skopeo"},
      {"bin/umoci", "program umoci"},
      {"bin/newuidmap", "program newuidmap"},
      {"bin/newgidmap", "program newgidmap"},
      {"nomad/bin/iptables", "iptables"},
      {"nomad/plugins/mountd", "plugin"},
      {"nomad/cni/portmap", "CNI plugins"},
      {"cache", "CNI cache"},
      {"etc/subuid", At("etc/subuid")},
      {"etc/subgid", At("etc/subgid")},
      {"etc/mountd/mountd.toml", "cgroups of rules"},
      {"cgroup/system.slice/nomad.service/cgroup.controllers", "cgroup"},
      {"etc/nomad.d", "Nomad's configuration"}};
  for (const auto& [thing, what] : things) {
    const std::string aside = At("aside");
    fs::rename(At(thing), aside);
    EXPECT_THAT(Wrong(), ElementsAre(what)) << thing;
    fs::rename(aside, At(thing));
  }
}

TEST_F(NomadReportTest, TheUnitsPathIsTheClients) {
  unit_.environment = {"PATH=" + At("bin")};
  EXPECT_THAT(Wrong(), ElementsAre("iptables"));
  unit_.environment = {"PATH=" + At("nomad/bin") + ":" + At("bin")};
  EXPECT_THAT(Wrong(), IsEmpty());
}

TEST_F(NomadReportTest, AKernelThatDoesNotNameTheBridge) {
  fs::remove_all(At("modules"));
  const bool loaded = ::access("/sys/module/bridge", F_OK) == 0;
  EXPECT_EQ(Wrong(), loaded ? std::vector<std::string>{}
                            : std::vector<std::string>{"kernel module bridge"});
}

TEST_F(NomadReportTest, ASwitchOfTheKernelIsFound) {
  Write("sysctl/kernel/unprivileged_userns_clone", "0\n");
  EXPECT_THAT(Wrong(), ElementsAre("user namespaces"));
}

TEST_F(NomadReportTest, DirectoriesOfTheClientAreWritable) {
  Write("etc/nomad.d/nomad.hcl",
        "data_dir = \"/proc/none/data\"\nplugin_dir = \"" +
            At("nomad/plugins") + "\"\ncni_path = \"" + At("nomad/cni") +
            "\"\nplugin \"mountd\" {}\n");
  EXPECT_THAT(Wrong(),
              ElementsAre("Nomad's data_dir", "Nomad's alloc_mounts_dir"));
  Write("etc/nomad.d/second.hcl", "data_dir = \"" + At("data") + "\"\n");
  EXPECT_THAT(Wrong(), IsEmpty());
}

TEST_F(NomadReportTest, ASetUserIdProgramIsPrivileged) {
  EXPECT_FALSE(IsPrivileged(At("bin/newuidmap")));
  EXPECT_FALSE(IsPrivileged(At("bin/nothing")));
  EXPECT_TRUE(IsPrivileged("/usr/bin/newuidmap"));
}

}  // namespace
}  // namespace mountd::agent::test
