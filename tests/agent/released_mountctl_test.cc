// SPDX-License-Identifier: LGPL-2.1-or-later
// mountctl against a mountd of the last release.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <thread>
#include <vector>

#include "tests/agent/fake_release.h"
#include "tests/support/program.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ProgramOutcome;
using mountd::test::RunningProgram;
using mountd::test::RunProgram;
using testing::HasSubstr;
using CommandLine = std::vector<std::string>;

constexpr char kTrace[] =
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// The commands that mountctl 0.1.0 had, with the options that it had.
std::vector<CommandLine> CommandsOfTheRelease() {
  return {{"run", MOUNTD_EXAMPLE_JOB},
          {"stop", "web"},
          {"status"},
          {"status", "web"},
          {"receipt", "web"},
          {"alloc", "list"},
          {"alloc", "status", "web"},
          {"alloc", "release", "web"},
          {"alloc", "ip", "web"},
          {"reconcile", "--epoch", "7", "--scope", "s", "--dry-run", "web"},
          {"drain", "--dry-run"},
          {"volume", "list"},
          {"volume", "status", "web", "data"},
          {"volume", "stats", "web", "data"},
          {"volume", "expand", "web", "data", "1536MiB"},
          {"volume", "create", "csi", "data", "--capacity", "1GiB"},
          {"volume", "delete", "csi", "vol-1"},
          {"volume", "snapshot", "create", "csi", "vol-1", "nightly"},
          {"volume", "snapshot", "delete", "csi", "snap-1"},
          {"volume", "snapshot", "list", "csi"},
          {"mount", "web", "server", "data", "--source", "volume:data"},
          {"mount", "web", "server", "data", "--source", "host:shared",
           "--replace"},
          {"unmount", "web", "server", "data"},
          {"repair", "web", "server", "data"},
          {"tree"},
          {"tree", "web", "--ascii"},
          {"inbox", "web", "server"},
          {"open-tree", "web", "--source", "host:shared", "--", "echo", "ran"},
          {"open-inbox", "web", "server", "--", "echo", "ran"},
          {"remove-tree", "/"},
          {"chown-tree", "/", "1000", "100"},
          {"network", "status", "web"},
          {"network", "list"},
          {"holders", "web", "server", "data"},
          {"verify", "web", "fine", std::to_string(::getpid())},
          {"plugin", "register", "csi", "--type", "monolith", "--alloc", "a",
           "--mount-dir", "/csi"},
          {"plugin", "status", "csi-local"},
          {"plugin", "unregister", "csi"},
          {"plugin", "list"},
          {"owed"},
          {"owed", "--retry"},
          {"capabilities"},
          {"operations"},
          {"stats"},
          {"reload"},
          {"metrics"},
          {"call", "GetPlugin", R"(["csi-local"])"},
          {"call", "ListOwed"}};
}

class OldDaemonOfMountctl : public testing::Test {
 protected:
  // Returns the command line, in an environment with that TRACEPARENT.
  CommandLine Line(const std::string& trace, const CommandLine& command) const {
    CommandLine line{"/usr/bin/env", "TRACEPARENT=" + trace, MOUNTCTL,
                     "--address", server_.address()};
    line.insert(line.end(), command.begin(), command.end());
    return line;
  }
  void ExpectSuccessOfEach(const std::string& trace) const {
    for (const CommandLine& command : CommandsOfTheRelease()) {
      const ProgramOutcome outcome = RunProgram(Line(trace, command));
      EXPECT_EQ(outcome.status, 0)
          << testing::PrintToString(command) << outcome.out << outcome.err;
      // metrics succeeds without a mountd, too.
      EXPECT_EQ(outcome.err.find("org.mountd1.Error."), std::string::npos)
          << testing::PrintToString(command) << outcome.err;
    }
  }

  FakeRelease server_;
};

TEST_F(OldDaemonOfMountctl, ServesEachCommand) { ExpectSuccessOfEach(""); }

TEST_F(OldDaemonOfMountctl, ServesEachCommandInATraceOfTheEnvironment) {
  ExpectSuccessOfEach(kTrace);
}

TEST_F(OldDaemonOfMountctl, SendsEventsInATraceOfTheEnvironment) {
  RunningProgram events(Line(kTrace, {"events", "--json"}));
  while (!server_.EmitSignals()) {
    std::this_thread::yield();
  }
  EXPECT_THAT(events.ReadLine(), HasSubstr("OperationDone"));
  events.Signal(SIGINT);
  EXPECT_EQ(events.Wait(), 0);
}

// A name that the caller asked for is not left out.
TEST_F(OldDaemonOfMountctl, RefusesNamesOfTheCommandLine) {
  for (const CommandLine& command :
       {CommandLine{"--traceparent", kTrace, "owed"},
        CommandLine{"--request-id", "r1", "owed"},
        CommandLine{"--traceparent", kTrace, "call", "ListOwed"},
        CommandLine{"call", "ListOwed",
                    R"([{"traceparent": ")" + std::string(kTrace) + "\"}]"}}) {
    const ProgramOutcome outcome = RunProgram(Line(kTrace, command));
    EXPECT_EQ(outcome.status, 1) << testing::PrintToString(command);
    EXPECT_THAT(outcome.err, HasSubstr("is not known"));
  }
  EXPECT_THAT(RunProgram(Line("", {"--request-id", "r1", "owed"})).err,
              HasSubstr("this mountd is older than its client"));
}

}  // namespace
}  // namespace mountd::agent::test
