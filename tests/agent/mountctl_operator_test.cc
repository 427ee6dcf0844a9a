// SPDX-License-Identifier: LGPL-2.1-or-later
// mountctl's commands for operators, against a fake Manager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "tests/agent/mountctl_test.h"
#include "tests/support/temp_directory.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ProgramOutcome;
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

}  // namespace
}  // namespace mountd::agent::test
