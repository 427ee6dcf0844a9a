// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The mountctl program against a fake Manager: exit statuses, its output on
// stdout and stderr, and valid JSON with --json.
#include "tests/agent/mountctl_test.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ProgramOutcome;
using mountd::test::RunningProgram;
using mountd::test::RunOnTerminal;
using mountd::test::RunProgram;
using nlohmann::json;
using testing::HasSubstr;
using testing::StartsWith;

TEST_F(MountctlTest, HelpIsOnStdoutAndSucceeds) {
  const ProgramOutcome outcome = RunProgram({MOUNTCTL, "--help"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("Exit status:"));
  EXPECT_EQ(outcome.err, "");
}

TEST_F(MountctlTest, AWrongCommandLineIsStatusTwoAndAsksNothing) {
  const std::vector<std::vector<std::string>> wrong{
      {},
      {"frobnicate"},
      {"status", "--frob"},
      {"stop"},
      {"plugin"},
      {"plugin", "register", "x", "--type", "both"},
      {"mount", "a", "t", "n"},
      {"mount", "a", "t", "n", "--source", "/etc"},
      {"mount", "a", "t", "n", "--source", "host:x", "--propagation", "slave"},
      {"run", "/nowhere/job.toml"},
      {"--patience", "30000", "status"}};
  for (const auto& arguments : wrong) {
    const ProgramOutcome outcome = Run(arguments);
    EXPECT_EQ(outcome.status, 2) << testing::PrintToString(arguments);
    EXPECT_NE(outcome.err, "") << testing::PrintToString(arguments);
    EXPECT_EQ(outcome.out, "") << testing::PrintToString(arguments);
  }
  EXPECT_TRUE(script().calls().empty());
}

TEST_F(MountctlTest, AnErrorOfTheDaemonIsStatusOneAndItsNameAndMessage) {
  script().Fail("GetAllocation",
                {"org.mountd1.Error.NotFound", "allocation web: not prepared"});
  const ProgramOutcome outcome = Run({"status", "web"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err,
            "mountctl: org.mountd1.Error.NotFound: allocation web: not "
            "prepared\n");
  EXPECT_EQ(outcome.out, "");
}

TEST_F(MountctlTest, WithoutADaemonIsStatusOneAndUnavailable) {
  server_.Stop();
  const ProgramOutcome outcome = Run({"status"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err,
              StartsWith("mountctl: org.mountd1.Error.Unavailable: "));
  EXPECT_THAT(outcome.err, HasSubstr("\nmountctl: mountd is not there: see "));
  server_.Start();
}

TEST_F(MountctlTest, AnErrorOfAPluginThatIsAwaySaysWhatToDo) {
  script().Fail("GetAllocation", {"org.mountd1.Error.Unavailable",
                                  "plugin away: use plugin csi: is gone"});
  const ProgramOutcome outcome = Run({"status", "web"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err,
            "mountctl: org.mountd1.Error.Unavailable: plugin away: use plugin "
            "csi: is gone\n"
            "mountctl: mountd answers, and the plugin does not: look at the "
            "plugin, then give the same command again\n");
  EXPECT_EQ(outcome.out, "");
}

TEST_F(MountctlTest, AnErrorOfARestartSaysWhatToDo) {
  script().Fail("GetAllocation",
                {"org.mountd1.Error.Unavailable", "restarting: plan executor"});
  EXPECT_THAT(Run({"status", "web"}).err,
              HasSubstr("\nmountctl: mountd restarts: give the same command "
                        "again in a moment\n"));
}

TEST_F(MountctlTest, TimeoutZeroAnswersInProgressAtOnce) {
  script().Fail("ReleaseAllocation", {"org.mountd1.Error.InProgress", "op-9"});
  const ProgramOutcome outcome = Run({"stop", "web", "--timeout", "0"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "mountctl: org.mountd1.Error.InProgress: op-9\n");
}

TEST_F(MountctlTest, HoldersTellsWhatIsKnownOfEach) {
  const ProgramOutcome outcome = Run({"holders", "web", "server", "data"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("12   1000  sh       fd 5  yes"));
  EXPECT_THAT(outcome.out, HasSubstr("13   -     -        -     -"));
  EXPECT_THAT(outcome.out, HasSubstr("and others"));
  EXPECT_THAT(outcome.out, HasSubstr("look at every process"));
  const json holders = RunJson({"holders", "web", "server", "data", "--node"});
  EXPECT_EQ(script().last_call(), "ListHolders web server data {scope=node;}");
  EXPECT_EQ(holders["holders"][0]["how"], "fd 5");
  EXPECT_EQ(holders["complete"], false);
}

TEST_F(MountctlTest, HandedOutTellsWhoHasEach) {
  const ProgramOutcome outcome = Run({"handed-out", "web"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(script().last_call(), "ListHandedOut web {}");
  EXPECT_THAT(outcome.out, HasSubstr("detached host:shared\n"));
  EXPECT_THAT(outcome.out, HasSubstr("inbox server\n"));
  EXPECT_THAT(outcome.out, HasSubstr("12   1000  sh       fd 5  yes"));
  EXPECT_THAT(outcome.out, HasSubstr("no unique mount ids"));
  const json list = RunJson({"handed-out", "web"});
  EXPECT_EQ(list["descriptors"][0]["source"], "shared");
  EXPECT_EQ(list["descriptors"][1]["task"], "server");
  EXPECT_EQ(list["descriptors"][1]["holders"][0]["pid"], 12);
  EXPECT_EQ(list["complete"], false);
}

TEST_F(MountctlTest, GrantsTellsWhatTheUserMayUse) {
  const ProgramOutcome outcome = Run({"grants"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(script().calls(),
              testing::ElementsAre("ListHostVolumes {}", "ListFilesystems {}",
                                   "ListNetworks {}"));
  EXPECT_THAT(outcome.out, HasSubstr("/srv/shared"));
  EXPECT_THAT(outcome.out, HasSubstr("private, host-to-task"));
  EXPECT_THAT(outcome.out, HasSubstr("10.88.0.0/16, fd88::/64"));
  EXPECT_THAT(outcome.out, HasSubstr("20000-20100"));
  EXPECT_THAT(outcome.out, HasSubstr("100000-165535, 7\n"));
  const json report = RunJson({"grants", "--uid", "0"});
  EXPECT_EQ(script().last_call(), "ListNetworks {uid=u0;}");
  EXPECT_EQ(report["host_volumes"][0]["path"], "/srv/shared");
  EXPECT_EQ(report["host_volumes"][0]["ids"][0]["last"], 165535);
  EXPECT_EQ(report["filesystems"][0]["options"][0], "soft");
  EXPECT_EQ(report["networks"][0]["limits"]["namespaces_per_uid"], 512);
  EXPECT_EQ(report["networks"][1]["mode"], "cni/net");
  EXPECT_EQ(Run({"grants", "--all-users"}).status, 0);
  EXPECT_EQ(script().last_call(), "ListNetworks {all_users=true;}");
  EXPECT_EQ(Run({"grants", "--uid", "joe"}).status, 2);
}

TEST_F(MountctlTest, GrantsSaysThatThereAreNone) {
  for (const char* method :
       {"ListHostVolumes", "ListFilesystems", "ListNetworks"}) {
    script().Empty(method);
  }
  EXPECT_THAT(Run({"grants"}).out, HasSubstr("no rule grants"));
}

TEST_F(MountctlTest, LeasesAreAcquiredAndFencesAreShown) {
  const ProgramOutcome acquired =
      Run({"lease", "acquire", "agent", "--scope", "prod", "--timeout", "5000",
           "--keep", "--stop-tasks", "freeze"});
  EXPECT_EQ(acquired.status, 0) << acquired.err;
  EXPECT_EQ(script().last_call(),
            "AcquireLease agent {on_lapse=keep;scope=prod;stop_tasks=freeze;"
            "timeout_ms=t5000;}");
  EXPECT_EQ(Run({"lease", "acquire", "agent", "--timeout", "5000", "--scope",
                 "a", "--alloc", "b"})
                .status,
            2);
  EXPECT_EQ(Run({"lease", "release", "agent", "--uid", "7"}).status, 0);
  EXPECT_EQ(script().last_call(), "ReleaseLease agent {uid=u7;}");
  const ProgramOutcome fence = Run({"fence", "web"});
  EXPECT_EQ(fence.status, 0) << fence.err;
  EXPECT_EQ(script().last_call(), "GetFence web {}");
  EXPECT_THAT(fence.out, HasSubstr("2023-11-14 22:13:23 UTC"));
  EXPECT_EQ(RunJson({"fence", "web"})["volumes_detached"], true);
  EXPECT_EQ(RunJson({"lease", "list"})[0]["state"], "lapsed");
}

TEST_F(MountctlTest, VerifySaysSoByItsStatus) {
  const std::string pid = std::to_string(::getpid());
  const ProgramOutcome lost = Run({"verify", "web", "server", pid});
  EXPECT_EQ(lost.status, 1);
  EXPECT_THAT(lost.out, HasSubstr("lost-propagation"));
  EXPECT_EQ(lost.err, "");
  EXPECT_EQ(script().last_call(), "VerifyTask web server fd {}");
  const json report = RunJson({"verify", "web", "fine", pid});
  EXPECT_EQ(report["ok"], true);
  EXPECT_EQ(report["mounts"][0]["master"], 13);
  EXPECT_EQ(Run({"verify", "web", "server", "x"}).status, 2);
  EXPECT_THAT(Run({"verify", "web", "server", "-1"}).err,
              HasSubstr("pidfd_open"));
}

TEST_F(MountctlTest, TreeDrawsWhatTheCallerSeesOrOne) {
  const ProgramOutcome all = Run({"tree", "--ascii"});
  EXPECT_EQ(all.status, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("web\n`-server\n  `-data"));
  EXPECT_THAT(all.out, HasSubstr("`-web/server/data"));
  EXPECT_EQ(script().count("ListAllocations"), 1U);
  const json one = RunJson({"tree", "bare"});
  EXPECT_EQ(one["allocations"][0]["id"], "bare");
  EXPECT_EQ(one["groups"].size(), 2U);
  EXPECT_EQ(script().count("ListAllocations"), 1U);
  script().Fail("GetAllocation", {"org.mountd1.Error.NotFound", "gone"});
  EXPECT_EQ(Run({"tree", "web"}).status, 1);
  // An allocation that is released meanwhile is left out.
  script().Fail("GetAllocation", {"org.mountd1.Error.NotFound", "gone"});
  EXPECT_EQ(Run({"tree"}).out, "");
}

TEST_F(MountctlTest, OperationsTellsWhatEachIsAt) {
  const ProgramOutcome outcome = Run({"operations"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out,
              HasSubstr("op-1  ReleaseAllocation  allocation web"));
  EXPECT_THAT(outcome.out,
              HasSubstr("1m 30s  1        stage 2/7, attempt 3 (Unavailable)"));
  const json operations = RunJson({"operations"});
  ASSERT_EQ(operations.size(), 1U);
  EXPECT_EQ(operations[0]["step"], "stage");
  EXPECT_EQ(operations[0]["elapsed_ms"], 90'000);
  EXPECT_EQ(operations[0]["error"], "Unavailable");
  script().Empty("ListOperations");
  EXPECT_EQ(Run({"operations"}).out, "no call is pending\n");
  EXPECT_EQ(RunJson({"operations"}), json::array());
}

// mountctl clears the line before the command's own output.
TEST_F(MountctlTest, WhoWaitsAtATerminalIsToldForWhat) {
  ::setenv("TERM", "xterm", 1);
  script().HoldUntil("ReleaseAllocation", "ListOperations", 2);
  const ProgramOutcome outcome = RunOnTerminal(Command({"stop", "web"}));
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("web"));
  // The line is as wide as the terminal without its last column.
  EXPECT_THAT(outcome.err,
              StartsWith("\r\x1b[KReleaseAllocation allocation web: stage 2/7, "
                         "attempt 3 (Una\r\x1b[K"));
  EXPECT_THAT(outcome.err, testing::EndsWith("\r\x1b[K"));
  EXPECT_EQ(script().count("ReleaseAllocation"), 1U);
}

TEST_F(MountctlTest, WhoWaitsElsewhereIsToldNothing) {
  const auto waits = [&] {
    script().HoldUntil("ReleaseAllocation", "ListOperations", 1,
                       std::chrono::milliseconds(1600));
  };
  ::setenv("TERM", "xterm", 1);
  waits();
  EXPECT_EQ(RunOnTerminal(Command({"stop", "web", "--json"})).err, "");
  EXPECT_EQ(Run({"stop", "web"}).err, "");
  ::setenv("TERM", "dumb", 1);
  EXPECT_EQ(RunOnTerminal(Command({"stop", "web"})).err, "");
  EXPECT_EQ(script().count("ListOperations"), 0U);
}

TEST_F(MountctlTest, EveryListingAndStatusHasJson) {
  const json overview = RunJson({"status"});
  EXPECT_EQ(overview["version"], "0.1.0");
  EXPECT_EQ(overview["plugins"].size(), 2U);
  EXPECT_EQ(overview["allocations"][0]["id"], "web");
  EXPECT_EQ(overview["volumes"][0]["users"][0]["alias"], "data");
  EXPECT_EQ(overview["owed"][0]["attempts"], 4);

  const json allocation = RunJson({"status", "web"});
  EXPECT_EQ(allocation["networks"][0]["ports"][0]["host"], 8080);
  EXPECT_EQ(allocation["mounts"][0]["peer_group"], 12);
  EXPECT_EQ(allocation["volumes"][0]["host_path"], "/p/data");
  EXPECT_EQ(RunJson({"alloc", "status", "web"}), allocation);
  EXPECT_TRUE(RunJson({"status", "bare"})["networks"].empty());

  EXPECT_EQ(RunJson({"alloc", "list"}), overview["allocations"]);
  EXPECT_EQ(RunJson({"volume", "list"}), overview["volumes"]);
  EXPECT_EQ(RunJson({"plugin", "list"}), overview["plugins"]);
  json owed = RunJson({"owed"});
  EXPECT_GT(owed[0]["age_seconds"], 1'000'000);
  owed[0]["age_seconds"] = overview["owed"][0]["age_seconds"];
  EXPECT_EQ(owed, overview["owed"]);
  EXPECT_EQ(RunJson({"network", "status", "web"}), allocation["networks"]);
  EXPECT_EQ(RunJson({"network", "list"})["default"]["free"], 250);
  EXPECT_TRUE(RunJson({"network", "list"}).contains("cni/net"));
  EXPECT_EQ(allocation["networks"][0]["mac"], "02:4d:0a:58:00:02");
  EXPECT_EQ(RunJson({"alloc", "ip", "web"}),
            json::parse(R"(["10.88.0.2", "fd00::2"])"));
  EXPECT_EQ(Run({"alloc", "ip", "web"}).out, "10.88.0.2\nfd00::2\n");
  EXPECT_EQ(RunJson({"plugin", "status", "csi-local"})["node_id"], "n1");
  EXPECT_EQ(RunJson({"receipt", "web"})["serial"], 7);
  EXPECT_EQ(RunJson({"capabilities"})["missing"]["statmount"],
            "needs Linux 6.8");
  EXPECT_EQ(RunJson({"stats"})[0]["p99_us"], 900);
}

TEST_F(MountctlTest, NetworkStatusOfAnAllocationWithoutOneIsNotFound) {
  const ProgramOutcome outcome = Run({"network", "status", "bare"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("org.mountd1.Error.NotFound"));
}

TEST_F(MountctlTest, NetworkShowAsksForOneNetwork) {
  EXPECT_EQ(RunJson({"network", "show", "web"})["address"], "10.88.0.2");
  EXPECT_EQ(script().last_call(), "GetNetwork web {}");
  EXPECT_EQ(Run({"network", "show", "web", "eth1"}).status, 0);
  EXPECT_EQ(script().last_call(), "GetNetwork web {interface=eth1;}");
}

TEST_F(MountctlTest, NetworkPortsReplacesAll) {
  EXPECT_EQ(RunJson({"network", "ports", "web", "http=8080:80/tcp+udp?",
                     "[::]:8081"})["address"],
            "10.88.0.2");
  EXPECT_EQ(script().last_call(),
            "UpdatePorts web http,,8080,80,1,tcp+udp? ,::,8081,0,1,tcp {}");
  EXPECT_EQ(
      Run({"network", "ports", "web", "--none", "--interface", "eth1"}).status,
      0);
  EXPECT_EQ(script().last_call(), "UpdatePorts web {interface=eth1;}");
  EXPECT_EQ(Run({"network", "ports", "web"}).status, 2);
  EXPECT_EQ(Run({"network", "ports", "web", "--none", "8080"}).status, 2);
  EXPECT_EQ(Run({"network", "ports", "web", "http"}).status, 2);
}

TEST_F(MountctlTest, OpenNamespaceRunsACommandWithTheNamespaceAsItsFd) {
  const ProgramOutcome outcome = Run({"open-namespace", "web", "--", "sh", "-c",
                                      "echo \"$0\" >&3; exit 7", "x"});
  EXPECT_EQ(outcome.status, 7);
  EXPECT_EQ(script().last_call(),
            "GetNetwork web {interface=eth0;netns_fd=true;}");
  script().Fail("GetNetwork", {"org.mountd1.Error.PermissionDenied", "no"});
  EXPECT_EQ(Run({"open-namespace", "web", "--", "true"}).status, 1);
}

TEST_F(MountctlTest, OpenTreeRunsACommandWithTheTreeAsItsFd) {
  const ProgramOutcome outcome =
      Run({"open-tree", "web", "--source", "host:shared", "--propagation",
           "host-to-task", "--", "sh", "-c", "echo \"$0\" >&3; exit 7", "x y"});
  EXPECT_EQ(outcome.status, 7);
  // The fake's tree is the fake's own stderr.
  EXPECT_EQ(outcome.err, "");
  EXPECT_EQ(script().last_call(), "OpenTree web host:shared host-to-task {}");
  script().Fail("OpenTree", {"org.mountd1.Error.PermissionDenied", "no rule"});
  EXPECT_EQ(
      Run({"open-tree", "web", "--source", "host:shared", "--", "true"}).status,
      1);
  EXPECT_EQ(Run({"open-tree", "web", "--source", "host:shared", "--", "echo",
                 "[a,b]"})
                .out,
            "[a,b]\n");
  EXPECT_EQ(Run({"open-tree", "web", "--source", "host:shared"}).status, 2);
  const ProgramOutcome none =
      Run({"open-tree", "web", "--source", "host:x", "--", "/no/such/command"});
  EXPECT_EQ(none.status, 1);
  EXPECT_THAT(none.err, HasSubstr("/no/such/command"));
}

TEST_F(MountctlTest, MountAndUnmountAskForExactlyThat) {
  EXPECT_EQ(RunJson({"mount", "web", "t", "n", "--source", "host:shared",
                     "--propagation", "bidirectional"})["mount_id"],
            11);
  EXPECT_EQ(script().last_call(),
            "BindMount web t n host:shared rw bidirectional {}");
  EXPECT_EQ(
      Run({"mount", "web", "t", "n", "--source", "volume:data", "--read-only"})
          .status,
      0);
  EXPECT_EQ(script().last_call(),
            "BindMount web t n volume:data ro private {}");
  EXPECT_EQ(Run({"mount", "web", "t", "n", "--source", "tmpfs", "--size", "1M",
                 "--mode", "0750", "--noswap"})
                .status,
            0);
  EXPECT_EQ(script().last_call(),
            "BindMount web t n tmpfs: rw private "
            "{mode=u488;noswap=true;size=t1048576;}");
  EXPECT_EQ(Run({"mount", "web", "t", "n", "--source", "host:x", "--noatime",
                 "--nosymfollow", "--idmap", "1000:2000:1", "--idmap", "3:4:5"})
                .status,
            0);
  EXPECT_EQ(script().last_call(),
            "BindMount web t n host:x rw private "
            "{idmap=1000:2000:1+3:4:5+;noatime=true;nosymfollow=true;}");
  EXPECT_EQ(Run({"mount", "web", "t", "n", "--source", "directory:/"}).status,
            0);
  EXPECT_EQ(script().last_call(),
            "BindMount web t n directory: rw private {source_directory=h;}");
  EXPECT_NE(
      Run({"mount", "web", "t", "n", "--source", "directory:/nowhere"}).status,
      0);
  EXPECT_EQ(Run({"mount", "web", "t", "n", "--source", "host:x", "--uidmap",
                 "1:2:3", "--gidmap", "4:5:6"})
                .status,
            0);
  EXPECT_EQ(script().last_call(),
            "BindMount web t n host:x rw private "
            "{gidmap=4:5:6+;uidmap=1:2:3+;}");
  EXPECT_NE(
      Run({"mount", "web", "t", "n", "--source", "host:x", "--uidmap", "1:2:3"})
          .status,
      0);
  EXPECT_EQ(
      Run({"mount", "web", "t", "n", "--source", "filesystem:homes"}).status,
      0);
  EXPECT_EQ(script().last_call(),
            "BindMount web t n filesystem:homes rw private {}");
  EXPECT_TRUE(RunJson({"mount", "web", "t", "n", "--source", "host:shared",
                       "--replace"})["old_holders"]["more"]);
  EXPECT_EQ(script().last_call(),
            "ReplaceMount web t n host:shared rw private {}");
  EXPECT_EQ(Run({"unmount", "web", "t", "n"}).status, 0);
  EXPECT_EQ(script().last_call(), "Unmount web t n {}");
}

TEST_F(MountctlTest, ASizeIsNotAnotherNumberThanWasWritten) {
  for (const char* size :
       {"-1", "16777216T", "9223372036854775808", "1X", ""}) {
    EXPECT_NE(
        Run({"mount", "web", "t", "n", "--source", "tmpfs", "--size", size})
            .status,
        0)
        << size;
  }
  EXPECT_EQ(script().last_call(), "");
  EXPECT_EQ(Run({"mount", "web", "t", "n", "--source", "tmpfs", "--size",
                 "9223372036854775807"})
                .status,
            0);
  EXPECT_EQ(script().last_call(),
            "BindMount web t n tmpfs: rw private {size=t9223372036854775807;}");
}

TEST_F(MountctlTest, TreesAreOpenedHereAndPassed) {
  const ProgramOutcome removed = Run({"remove-tree", "/"});
  EXPECT_EQ(removed.status, 0);
  EXPECT_EQ(removed.out, "3 removed\n");
  EXPECT_TRUE(script().last_call().starts_with("RemoveTree "));
  const ProgramOutcome given = Run({"chown-tree", "/", "1000", "100"});
  EXPECT_EQ(given.status, 0);
  EXPECT_EQ(given.out, "3 given, 1 left, which others own\n");
  EXPECT_TRUE(script().last_call().find(" 1000:100 ") != std::string::npos);
  EXPECT_EQ(RunJson({"remove-tree", "/"})["done"], 3);
  EXPECT_EQ(Run({"remove-tree", "/nowhere"}).status, 1);
  EXPECT_EQ(Run({"chown-tree", "/", "1000"}).status, 2);
}

TEST_F(MountctlTest, PluginRegisterPrintsWhatTheTaskNeeds) {
  const ProgramOutcome outcome =
      Run({"plugin", "register", "csi", "--type", "monolith", "--alloc", "a",
           "--mount-dir", "/csi"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(script().last_call(),
            "RegisterPlugin csi monolith [a] {mount_dir=/csi;}");
  EXPECT_THAT(outcome.out, HasSubstr("CSI_ENDPOINT  unix:///csi/csi.sock"));
  EXPECT_EQ(RunJson({"plugin", "register", "csi"})["mounts"][0]["task_path"],
            "/csi");
  EXPECT_EQ(script().last_call(), "RegisterPlugin csi node [] {}");
  EXPECT_EQ(Run({"plugin", "unregister", "csi"}).status, 0);
  EXPECT_EQ(script().last_call(), "UnregisterPlugin csi {}");
}

TEST_F(MountctlTest, WaitingForAPluginThatStaysSickIsStatusOne) {
  EXPECT_EQ(Run({"plugin", "status", "csi", "--wait", "20"}).status, 0);
  EXPECT_EQ(Run({"plugin", "status", "sick"}).status, 0);
  const ProgramOutcome outcome =
      Run({"plugin", "status", "sick", "--wait", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("still unhealthy after 1 s"));
}

TEST_F(MountctlTest, RunDoesTheStepsInOrder) {
  script().Fail("GetAllocation", {"org.mountd1.Error.NotFound", "no"});
  const ProgramOutcome outcome = Run({"run", MOUNTD_EXAMPLE_JOB});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(
      script().calls(),
      testing::ElementsAre(
          "GetAllocation web {}", "PrepareAllocation web {scope=example;}",
          "SetupNetwork web bridge http,,8080,80,1,tcp {}",
          "PublishVolume web data web-data csi-local "
          "{access_mode=single-node-writer;} {} {} {}",
          "BindMount web server data volume:data rw private "
          "{task_path=/data;}",
          "BindMount web server shared-private host:shared rw private "
          "{task_path=/shared/private;}",
          "BindMount web server shared-host-to-task host:shared rw "
          "host-to-task {task_path=/shared/host-to-task;}",
          "BindMount web server shared-bidirectional host:shared rw "
          "bidirectional {task_path=/shared/bidirectional;}"));
  EXPECT_THAT(outcome.out, HasSubstr("publish  data"));
}

TEST_F(MountctlTest, RunPassesADirectoryByItsDescriptor) {
  const std::string path = server_.path() + ".toml";
  const auto run = [&](const std::string& directory) {
    std::ofstream(path) << "[allocation]\nid = 'web'\n[[mount]]\ntask = 't'\n"
                           "name = 'n'\nsource = 'directory:"
                        << directory << "'\n";
    return Run({"run", path});
  };
  const ProgramOutcome outcome = run("/");
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(script().last_call(),
            "BindMount web t n directory: rw private {source_directory=h;}");
  EXPECT_THAT(outcome.out, HasSubstr("directory"));
  const ProgramOutcome nowhere = run("/nowhere");
  EXPECT_EQ(nowhere.status, 1);
  EXPECT_THAT(nowhere.err, HasSubstr("/nowhere"));
  EXPECT_EQ(script().count("BindMount"), 1U);
  std::remove(path.c_str());
}

TEST_F(MountctlTest, RunAsJsonHasConfigsAndTimes) {
  const json result = RunJson({"run", MOUNTD_EXAMPLE_JOB});
  EXPECT_EQ(result["allocation"], "web");
  EXPECT_EQ(result["host_path"], "/run/mountd/base/a/web");
  EXPECT_EQ(result["network"]["address"], "10.88.0.2");
  EXPECT_EQ(result["volumes"][0]["alias"], "data");
  EXPECT_EQ(result["mounts"].size(), 4U);
  EXPECT_EQ(result["mounts"][3]["propagation"], "bidirectional");
  EXPECT_EQ(result["steps"].size(), 7U);
  EXPECT_TRUE(result["steps"][0]["us"].is_number());
}

TEST_F(MountctlTest, RunReleasesANewAllocationWhenAStepFails) {
  script().Fail("GetAllocation", {"org.mountd1.Error.NotFound", "no"});
  script().Fail("PublishVolume",
                {"org.mountd1.Error.Unavailable", "no plugin"});
  const ProgramOutcome outcome = Run({"run", MOUNTD_EXAMPLE_JOB});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err,
            "mountctl: org.mountd1.Error.Unavailable: no plugin\n");
  EXPECT_EQ(script().last_call(), "ReleaseAllocation web {}");
  EXPECT_EQ(script().count("BindMount"), 0U);
}

TEST_F(MountctlTest, ReleasesOnlyWhatIsBareIfTold) {
  EXPECT_EQ(Run({"alloc", "release", "web", "--only-if", "unused"}).status, 0);
  EXPECT_EQ(script().last_call(), "ReleaseAllocation web {only_if=unused;}");
  EXPECT_EQ(Run({"stop", "web", "--only-if", "empty"}).status, 0);
  EXPECT_EQ(script().last_call(), "ReleaseAllocation web {only_if=empty;}");
  EXPECT_EQ(Run({"stop", "web", "--only-if", "bare"}).status, 2);
}

TEST_F(MountctlTest, RunKeepsWhatItMadeIfTold) {
  script().Fail("GetAllocation", {"org.mountd1.Error.NotFound", "no"});
  script().Fail("BindMount", {"org.mountd1.Error.Busy", "in use"});
  EXPECT_EQ(Run({"run", "--keep", MOUNTD_EXAMPLE_JOB}).status, 1);
  EXPECT_EQ(script().count("ReleaseAllocation"), 0U);
}

TEST_F(MountctlTest, RunNeverReleasesAnAllocationThatWasThereBefore) {
  script().Fail("BindMount", {"org.mountd1.Error.Busy", "in use"});
  const ProgramOutcome outcome = Run({"run", MOUNTD_EXAMPLE_JOB});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(script().count("ReleaseAllocation"), 0U);
  EXPECT_THAT(outcome.out, HasSubstr("which existed before"));
}

// mountd may be restarting at the first call and answer the next one.
TEST_F(MountctlTest, RunNeverReleasesAnAllocationThatMayHaveBeenThere) {
  script().Fail("GetAllocation", {"org.mountd1.Error.Unavailable", "starting"});
  script().Fail("BindMount", {"org.mountd1.Error.Busy", "in use"});
  const ProgramOutcome outcome = Run({"run", MOUNTD_EXAMPLE_JOB});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(script().count("ReleaseAllocation"), 0U);
  EXPECT_THAT(outcome.out, HasSubstr("which may have existed before"));
}

TEST_F(MountctlTest, RunThatMayNotPrepareReleasesNothing) {
  script().Fail("GetAllocation", {"org.mountd1.Error.PermissionDenied", "no"});
  script().Fail("PrepareAllocation",
                {"org.mountd1.Error.PermissionDenied", "not yours"});
  EXPECT_EQ(Run({"run", MOUNTD_EXAMPLE_JOB}).status, 1);
  EXPECT_EQ(script().count("ReleaseAllocation"), 0U);
}

TEST_F(MountctlTest, ABrokenJobIsStatusTwoWithLineAndReason) {
  const std::string path = server_.path() + ".toml";
  std::ofstream(path) << "[allocation]\nid = 1\n";
  const ProgramOutcome outcome = Run({"run", path});
  EXPECT_EQ(outcome.status, 2);
  EXPECT_EQ(outcome.err,
            "mountctl: " + path + ":2: allocation.id: must be a string\n");
  std::remove(path.c_str());
}

TEST_F(MountctlTest, SoakRunsWholeAllocationsAndPrintsEachOperation) {
  const json series =
      RunJson({"soak", "--allocations", "5", "--mounts", "2", "--ports", "3"});
  ASSERT_EQ(series.size(), 4U);
  EXPECT_EQ(series[2]["operation"], "BindMount");
  EXPECT_EQ(series[2]["calls"], 10);
  EXPECT_GE(series[3]["p99_us"], series[3]["p50_us"]);
  EXPECT_EQ(script().count("ReleaseAllocation"), 5U);
}

TEST_F(MountctlTest, SoakEndsAtTheFirstFailureAndReleases) {
  script().Fail("SetupNetwork", {"org.mountd1.Error.AlreadyExists", "taken"});
  EXPECT_EQ(Run({"soak", "--allocations", "5"}).status, 1);
  EXPECT_EQ(script().count("PrepareAllocation"), 1U);
  EXPECT_EQ(script().count("ReleaseAllocation"), 1U);
}

TEST_F(MountctlTest, ReconcileSaysWhatBecameOfEach) {
  const ProgramOutcome shown =
      Run({"reconcile", "--epoch", "7", "--scope", "s", "--dry-run", "web"});
  EXPECT_EQ(shown.status, 0) << shown.err;
  EXPECT_THAT(script().calls(),
              testing::ElementsAre("Reconcile [s] 7 web dry {}"));
  EXPECT_THAT(shown.out, HasSubstr("processes in its cgroup"));
  EXPECT_THAT(shown.out, HasSubstr("bare, volume/data"));
  const json all = RunJson({"reconcile", "--epoch", "8"});
  EXPECT_EQ(all[0]["holders"]["holders"][0]["pid"], 12);
  EXPECT_EQ(all[1]["outcome"], "released");
  EXPECT_EQ(all[2]["needs"][0], "bare");
  EXPECT_EQ(Run({"reconcile", "web"}).status, 2);
  script().Fail("Reconcile", {"org.mountd1.Error.FailedPrecondition", "old"});
  EXPECT_EQ(Run({"reconcile", "--epoch", "1"}).status, 1);
}

TEST_F(MountctlTest, OwedRetryTriesThenLists) {
  EXPECT_EQ(Run({"owed", "--retry"}).status, 0);
  EXPECT_THAT(script().calls(),
              testing::ElementsAre("RetryOwed {}", "ListOwed {}"));
}

TEST_F(MountctlTest, WhatIsListedIsOfAllUsersWhenToldSo) {
  EXPECT_EQ(Run({"--all-users", "owed", "--retry"}).status, 0);
  EXPECT_EQ(Run({"alloc", "list", "--all-users"}).status, 0);
  EXPECT_EQ(Run({"--all-users", "volume", "list"}).status, 0);
  EXPECT_THAT(script().calls(),
              testing::ElementsAre("RetryOwed {all_users=true;}",
                                   "ListOwed {all_users=true;}",
                                   "ListAllocations {all_users=true;}",
                                   "ListVolumes {all_users=true;}"));
}

constexpr char kParent[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

TEST_F(MountctlTest, CallsHaveTheNamesThatOptionsGive) {
  EXPECT_EQ(
      Run({"--traceparent", kParent, "--request-id", "r1", "owed"}).status, 0);
  EXPECT_EQ(Run({"call", "ListOwed", "--request-id", "r2"}).status, 0);
  EXPECT_EQ(Run({"--request-id", "r2", "call", "ListOwed",
                 R"([{"request_id": "r3"}])"})
                .status,
            0);
  EXPECT_THAT(
      script().calls(),
      testing::ElementsAre(
          "ListOwed {request_id=r1;traceparent=" + std::string(kParent) + ";}",
          "ListOwed {request_id=r2;}", "ListOwed {request_id=r3;}"));
  EXPECT_EQ(Run({"--traceparent", "00-1-2-01", "owed"}).status, 2);
  EXPECT_EQ(Run({"--request-id", "a b", "owed"}).status, 2);
}

// An option goes before the environment, where a wrong one is ignored.
TEST_F(MountctlTest, CallsAreInTheTraceOfTheEnvironment) {
  const auto run_in = [&](const std::string& traceparent,
                          const std::vector<std::string>& arguments) {
    std::vector<std::string> command = Command(arguments);
    command.insert(command.begin(),
                   {"/usr/bin/env", "TRACEPARENT=" + traceparent});
    EXPECT_EQ(RunProgram(command).status, 0);
    return script().last_call();
  };
  const std::string parent = kParent;
  const std::string other = "00-" + std::string(32, 'a') + parent.substr(35);
  EXPECT_EQ(run_in(parent, {"owed"}), "ListOwed {traceparent=" + parent + ";}");
  EXPECT_EQ(run_in(parent, {"owed", "--traceparent", other}),
            "ListOwed {traceparent=" + other + ";}");
  EXPECT_EQ(run_in("nonsense", {"owed"}), "ListOwed {}");
  EXPECT_EQ(run_in("", {"owed"}), "ListOwed {}");
}

TEST_F(MountctlTest, EventsArePrintedAsTheyComeUntilItIsInterrupted) {
  RunningProgram events(Command({"events", "--json"}));
  while (!server_.EmitSignals()) {
    std::this_thread::yield();
  }
  EXPECT_EQ(json::parse(events.ReadLine())["operation"], "op-1");
  EXPECT_EQ(json::parse(events.ReadLine())["done"], 7);
  EXPECT_EQ(json::parse(events.ReadLine())["step"], "stage");
  EXPECT_EQ(json::parse(events.ReadLine())["signal"], "PluginAdded");
  EXPECT_EQ(json::parse(events.ReadLine())["state"], "healthy");
  EXPECT_EQ(json::parse(events.ReadLine())["allocation"], "web");
  EXPECT_EQ(json::parse(events.ReadLine())["count"], 2);
  EXPECT_EQ(json::parse(events.ReadLine())["signal"], "OwedOverdue");
  events.Signal(SIGINT);
  EXPECT_EQ(events.Wait(), 0);
}

TEST_F(MountctlTest, SpansAreExportedToAFileUntilItIsInterrupted) {
  const TempDirectory directory;
  const std::string path = directory.File("spans");
  RunningProgram events(Command({"events", "--otlp", path, "--unsampled"}));
  while (!server_.EmitSpans()) {
    std::this_thread::yield();
  }
  EXPECT_THAT(script().calls(),
              testing::ElementsAre("Subscribe {spans=true;}"));
  // Other signals are nothing to export.
  EXPECT_TRUE(server_.EmitSignals());
  std::string line;
  while (!std::getline(std::ifstream(path), line)) {
    std::this_thread::yield();
  }
  events.Signal(SIGINT);
  EXPECT_EQ(events.Wait(), 0);
  EXPECT_EQ(events.ReadLine(), "");
  const json request = json::parse(line);
  const json& spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"];
  ASSERT_EQ(spans.size(), 2U);
  EXPECT_EQ(spans[0]["traceId"], "0af7651916cd43dd8448eb211c80319c");
  EXPECT_EQ(spans[0]["spanId"], "00f067aa0ba902b7");
  EXPECT_EQ(spans[0]["startTimeUnixNano"], "1700000000000000000");
  EXPECT_EQ(spans[0]["attributes"].back()["key"], "mountd.spans_left_out");
  EXPECT_EQ(spans[1]["parentSpanId"], "00f067aa0ba902b7");
  EXPECT_EQ(spans[1]["kind"], 3);
  EXPECT_EQ(spans[1]["status"]["message"], "Busy");
}

TEST_F(MountctlTest, SpansGoNowhereElse) {
  EXPECT_EQ(Run({"events", "--otlp", "/nowhere/spans"}).status, 1);
  EXPECT_EQ(Run({"events", "--unsampled"}).status, 2);
  EXPECT_TRUE(script().calls().empty());
}

TEST_F(MountctlTest, EventsEndWithStatusOneWhenTheDaemonDoes) {
  RunningProgram events(Command({"events"}));
  while (!server_.EmitSignals()) {
    std::this_thread::yield();
  }
  EXPECT_THAT(events.ReadLine(), StartsWith("OperationDone"));
  server_.Stop();
  EXPECT_EQ(events.Wait(), 1);
}

}  // namespace
}  // namespace mountd::agent::test
