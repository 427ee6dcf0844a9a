// SPDX-License-Identifier: LGPL-2.1-or-later
// mountctl's commands for operators, against a fake Manager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/agent/mountctl_test.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ProgramOutcome;
using nlohmann::json;
using testing::HasSubstr;

class MountctlOperatorTest : public MountctlTest {};

std::string ContentOf(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file),
          std::istreambuf_iterator<char>()};
}

TEST_F(MountctlOperatorTest, MetricsAreOfTheNode) {
  const ProgramOutcome outcome = Run({"metrics"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  for (const char* line :
       {"mountd_up 1", "mountd_operations_total{method=\"BindMount\"} 9",
        "mountd_host_ports_free 42", "mountd_owed_teardowns 1",
        "mountd_plugins{state=\"healthy\"} 1",
        "mountd_plugin_healthy{plugin=\"sick\"} 0",
        "mountd_allocations{state=\"prepared\"} 1",
        "mountd_mounts{state=\"mounted\",health=\"unknown\"} 1"}) {
    EXPECT_THAT(outcome.out, HasSubstr(std::string(line) + "\n"));
  }
}

TEST_F(MountctlOperatorTest, MetricsOfAnAllocationThatGoesMeanwhileAreOthers) {
  script().Fail("GetAllocation", {"org.mountd1.Error.NotFound", "gone"});
  const ProgramOutcome outcome = Run({"metrics"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr("mountd_up 1\n"));
}

TEST_F(MountctlOperatorTest, MetricsOfADaemonThatDoesNotAnswerSucceed) {
  server_.Stop();
  const ProgramOutcome outcome = Run({"metrics"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_THAT(outcome.out, HasSubstr("mountd_up 0\n"));
  EXPECT_THAT(outcome.err, HasSubstr("org.mountd1.Error.Unavailable"));
  server_.Start();
}

TEST_F(MountctlOperatorTest, MetricsGoToAFile) {
  const TempDirectory directory;
  const std::string path = directory.File("mountd.prom");
  const ProgramOutcome outcome = Run({"metrics", "--output", path});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "");
  EXPECT_THAT(ContentOf(path), HasSubstr("mountd_up 1\n"));
  EXPECT_EQ(Run({"metrics", "--output", path + "/no"}).status, 1);
  EXPECT_EQ(Run({"--address", "nowhere", "metrics"}).status, 2);
}

// The report also depends on this machine, so the test looks only for the lines
// that do not.
TEST_F(MountctlOperatorTest, DoctorTellsWhatTheDaemonAnswers) {
  const ProgramOutcome outcome = Run({"doctor"});
  EXPECT_THAT(outcome.out, HasSubstr("ok       socket: mountd 0.1.0 answers"));
  EXPECT_THAT(outcome.out, HasSubstr("warning  feature statmount: not offered: "
                                     "needs Linux 6.8"));
  EXPECT_THAT(outcome.out, HasSubstr("ok       policy: a rule names "));
  EXPECT_THAT(outcome.out, HasSubstr("ok       plugin csi-local: healthy\n"));
  EXPECT_THAT(outcome.out, HasSubstr("failed   plugin sick: unhealthy: ?[2J"));
  EXPECT_THAT(outcome.out, HasSubstr("failed   owed: 1 tear-down,"));
  EXPECT_THAT(outcome.out, HasSubstr("addresses of default: 250 of 254"));
  EXPECT_THAT(outcome.out, HasSubstr("  root: "));
  EXPECT_EQ(outcome.status, 1);
  EXPECT_EQ(outcome.err, "");
  // doctor makes only calls that read.
  for (const std::string& call : script().calls()) {
    EXPECT_TRUE(call.starts_with("Get") || call.starts_with("List")) << call;
  }
}

TEST_F(MountctlOperatorTest, DoctorIsForProgramsToo) {
  const ProgramOutcome outcome = Run({"doctor", "--json"});
  const json report = json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << outcome.out;
  EXPECT_EQ(report["ok"], false);
  EXPECT_EQ(report["checks"][0]["what"], "socket");
  EXPECT_EQ(report["checks"][0]["verdict"], "ok");
}

TEST_F(MountctlOperatorTest, DoctorOfWhomNoRuleNamesAndOneThatMayNotKnow) {
  script().Empty("GetCapabilities");
  script().Fail("ListPlugins",
                {"org.mountd1.Error.PermissionDenied", "not yours"});
  const ProgramOutcome outcome = Run({"doctor"});
  EXPECT_THAT(outcome.out, HasSubstr("policy: no rule names "));
  EXPECT_THAT(outcome.out,
              HasSubstr("unknown  plugins: PermissionDenied: not yours\n"));
}

// The machine decides about the other checks, and nomad_check_test.cc has them.
TEST_F(MountctlOperatorTest, DoctorOfANomadClientAsksForItsRules) {
  const ProgramOutcome plain = Run({"doctor"});
  EXPECT_THAT(plain.out, testing::Not(HasSubstr("Nomad")));
  const ProgramOutcome outcome =
      Run({"doctor", "--nomad", "--nomad-config", "/proc/none"});
  EXPECT_THAT(outcome.out, HasSubstr("  networks: "));
  EXPECT_THAT(outcome.out, HasSubstr("unknown  Nomad's configuration: "));
  EXPECT_EQ(script().count("ListNetworks"), 1U);
  EXPECT_EQ(Run({"doctor", "--nomad-config", "/proc/none"}).status, 2);
}

TEST_F(MountctlOperatorTest, DoctorIsOfUseWithoutADaemon) {
  server_.Stop();
  const ProgramOutcome outcome = Run({"doctor"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("failed   socket: " + server_.path() +
                                     " does not exist; systemctl enable"));
  EXPECT_THAT(outcome.out, HasSubstr("  root: "));
  EXPECT_THAT(outcome.out, HasSubstr("  mounts: "));
  EXPECT_THAT(outcome.out, HasSubstr("unknown  mountd: "));
  server_.Start();
}

TEST_F(MountctlOperatorTest, DrainReleasesAllThereIs) {
  script().Empty("ListOwed");
  std::vector<std::string> all;
  for (int i = 0; i < 20; ++i) {
    all.push_back("a" + std::to_string(i));
  }
  script().SetAllocations(all);
  const ProgramOutcome outcome = Run({"drain"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(script().count("ReleaseAllocation"), 20U);
  for (const std::string& id : all) {
    EXPECT_THAT(outcome.out, HasSubstr("released  " + id + "  uid 1000\n"));
  }
  EXPECT_EQ(script().count("RetryOwed"), 0U);
}

TEST_F(MountctlOperatorTest, DrainOfNothingSaysSo) {
  script().Empty("ListOwed");
  script().SetAllocations({});
  const ProgramOutcome outcome = Run({"drain"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.out, "there is nothing to release\n");
}

TEST_F(MountctlOperatorTest, DrainTriesAgainWhatFailed) {
  script().Empty("ListOwed");
  script().Fail("ReleaseAllocation", {"org.mountd1.Error.Busy", "in use"});
  script().Fail("ReleaseAllocation", {"org.mountd1.Error.Busy", "in use"});
  const ProgramOutcome outcome = Run({"drain"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(script().count("ReleaseAllocation"), 3U);
  EXPECT_EQ(script().count("RetryOwed"), 2U);
}

TEST_F(MountctlOperatorTest, DrainOutlivesADaemonThatHangsUp) {
  script().Empty("ListOwed");
  script().Fail("ListVolumes", {.error = "", .hang_up = true});
  script().Fail("ReleaseAllocation", {.error = "", .hang_up = true});
  const ProgramOutcome outcome = Run({"drain"});
  EXPECT_EQ(outcome.status, 0) << outcome.err << outcome.out;
}

TEST_F(MountctlOperatorTest, DrainTellsWhatIsLeftAndWhoHoldsIt) {
  script().SetAllocations({"web", "db"});
  for (int i = 0; i < 200; ++i) {
    script().Fail("ReleaseAllocation", {"org.mountd1.Error.Busy", "in use"});
  }
  const ProgramOutcome outcome = Run({"drain", "--timeout", "1"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.out, HasSubstr("left      db  uid 1000: Busy: in use\n"));
  EXPECT_THAT(outcome.out, HasSubstr("left      web  uid 1000: Busy"));
  EXPECT_THAT(outcome.out,
              HasSubstr("held      web/server/data: pid 12 (sh, uid 1000, fd "
                        "5), pid 13, and perhaps others\n"));
  EXPECT_THAT(outcome.out, HasSubstr("owed      mount web/server/data, for "));
  EXPECT_THAT(outcome.err, HasSubstr("left: 2 allocations, 1 tear-down\n"));
  EXPECT_GT(script().count("RetryOwed"), 0U);
}

TEST_F(MountctlOperatorTest, DrainWaitsForWhatIsOwedAlone) {
  const ProgramOutcome outcome = Run({"drain", "--timeout", "1", "--json"});
  EXPECT_EQ(outcome.status, 1);
  const json report = json::parse(outcome.out, nullptr, false);
  ASSERT_FALSE(report.is_discarded()) << outcome.out;
  EXPECT_EQ(report["released"][0]["receipt"]["serial"], 7);
  EXPECT_TRUE(report["left"].empty());
  EXPECT_EQ(report["owed"][0]["reason"], "EBUSY");
  EXPECT_GT(script().count("RetryOwed"), 0U);
  EXPECT_EQ(script().count("ReleaseAllocation"), 1U);
}

TEST_F(MountctlOperatorTest, DrainWithoutTimeTriesOnce) {
  script().Empty("ListOwed");
  script().Fail("ReleaseAllocation", {"org.mountd1.Error.InProgress", "op-9"});
  const ProgramOutcome outcome = Run({"drain", "--timeout", "0", "--json"});
  EXPECT_EQ(outcome.status, 1);
  const json report = json::parse(outcome.out, nullptr, false);
  EXPECT_EQ(report["left"][0]["error"], "InProgress");
  EXPECT_EQ(report["held"][0]["holders"][0]["pid"], 12);
  EXPECT_EQ(script().count("ReleaseAllocation"), 1U);
}

TEST_F(MountctlOperatorTest, OneThatSomebodyElseReleasesIsGone) {
  script().Empty("ListOwed");
  script().Fail("ReleaseAllocation", {"org.mountd1.Error.NotFound", "gone"});
  EXPECT_EQ(Run({"drain"}).status, 0);
}

TEST_F(MountctlOperatorTest, DrainsDryRunChangesNothing) {
  const ProgramOutcome outcome = Run({"drain", "--dry-run"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.out, "would release  web  uid 1000\n");
  EXPECT_EQ(RunJson({"drain", "--dry-run"})["would_release"][0]["id"], "web");
  EXPECT_EQ(script().count("ReleaseAllocation"), 0U);
  EXPECT_EQ(script().count("RetryOwed"), 0U);
}

TEST_F(MountctlOperatorTest, DrainWithoutADaemonFails) {
  server_.Stop();
  const ProgramOutcome outcome = Run({"drain"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_THAT(outcome.err, HasSubstr("org.mountd1.Error.Unavailable"));
  server_.Start();
}

// Returns the words to which bash completes the last of the words.
std::string Completed(const std::string& words) {
  const std::string script =
      "source '" MOUNTCTL_COMPLETION "'; COMP_WORDS=(" + words +
      "); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _mountctl; "
      "printf '%s ' \"${COMPREPLY[@]}\"";
  const ProgramOutcome outcome =
      mountd::test::RunProgram({"/bin/bash", "-c", script});
  EXPECT_EQ(outcome.err, "");
  return outcome.out;
}

TEST_F(MountctlOperatorTest, BashCompletesTheCommandsAndTheirOptions) {
  const std::string program = std::string("'") + MOUNTCTL + "' ";
  EXPECT_EQ(Completed(program + "doc"), "doctor ");
  EXPECT_EQ(Completed(program + "dr"), "drain ");
  EXPECT_EQ(Completed(program + "metr"), "metrics ");
  EXPECT_EQ(Completed(program + "metrics --out"), "--output ");
  EXPECT_EQ(Completed(program + "drain --dr"), "--dry-run ");
  // bash itself completes a file's name.
  EXPECT_EQ(Completed(program + "metrics --output ''"), " ");
  // `drain` takes no allocation's name, but `status` does.
  ::setenv("MOUNTD_ADDRESS", server_.address().c_str(), 1);
  EXPECT_EQ(Completed(program + "drain w"), " ");
  EXPECT_EQ(Completed(program + "status w"), "web ");
  ::unsetenv("MOUNTD_ADDRESS");
}

}  // namespace
}  // namespace mountd::agent::test
