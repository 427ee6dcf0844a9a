// SPDX-License-Identifier: LGPL-2.1-or-later
// All that mountctl prints against the fake Manager, as text and as JSON, and
// the --help of each command, as files of tests/golden/mountctl/.
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/agent/mountctl_test.h"
#include "tests/golden/golden.h"

namespace mountd::agent::test {
namespace {

using mountd::test::ExpectGolden;
using mountd::test::ExpectGoldenFiles;
using mountd::test::ProgramOutcome;
using mountd::test::RunningProgram;
using mountd::test::RunProgram;

using Words = std::vector<std::string>;

// The commands without a golden file, and why.
const std::map<std::string, const char*> kNoGolden{
    {"doctor", "reports on the machine that runs the test"},
    {"exec", "needs a container; task_commands_test.cc has a fake one"},
    {"logs", "the same"},
    {"ps", "the same"},
    {"restart", "the same"},
    {"signal", "the same"},
    {"task run", "the same"},
    {"task stats", "the same"},
    {"soak", "prints nothing but times"}};

std::string Joined(const Words& words, char between) {
  std::string text;
  for (const std::string& word : words) {
    text += (text.empty() ? "" : std::string(1, between)) + word;
  }
  return text;
}

// Replaces what differs from run to run: ages, and the times of a job's steps.
// Columns after an age move with its width, so runs of spaces become one space
// in such an output.
std::string Masked(std::string text) {
  static const std::regex kAge("[0-9]+d [0-9]+h");
  if (std::regex_search(text, kAge)) {
    text = std::regex_replace(text, kAge, "AGE");
    text = std::regex_replace(text, std::regex("([^ \n]) {2,}"), "$1 ");
  }
  const std::vector<std::pair<const char*, const char*>> masks{
      {"(\"age_seconds\": )[0-9]+", "$1AGE"},
      {"(mountd_owed_oldest_age_seconds )[0-9]+", "$1AGE"},
      {"(\"us\": )[0-9]+", "$1TIME"},
      {"((?:prepare|network|publish|mount) +[^ \n]+) +[0-9]+\\.[0-9]+ ms",
       "$1 TIME"}};
  for (const auto& [pattern, mask] : masks) {
    text = std::regex_replace(text, std::regex(pattern), mask);
  }
  return text;
}

class MountctlGolden : public MountctlTest {
 protected:
  // Returns a command and all that it prints, as at a terminal.
  std::string Transcript(const Words& words) {
    const ProgramOutcome outcome = Run(words);
    std::string text = "$ mountctl " + Joined(words, ' ') + "\n" + outcome.out;
    std::istringstream errors(outcome.err);
    for (std::string line; std::getline(errors, line);) {
      text += "stderr: " + line + "\n";
    }
    if (outcome.status != 0) {
      text += "exit status " + std::to_string(outcome.status) + "\n";
    }
    // Text of plugins and users must not drive the terminal.
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    return Masked(std::move(text));
  }
  std::string Events(const Words& words);
  std::string BothTranscripts(Words words) {
    const std::string text = Transcript(words);
    words.emplace_back("--json");
    return text + Transcript(words);
  }
};

// A command, whose name names the golden file, and the calls in that file.
struct Case {
  const char* command;
  std::vector<Words> calls;
};

std::vector<Case> Cases() {
  const std::string self = std::to_string(::getpid());
  return {
      {"run", {{"run", MOUNTD_EXAMPLE_JOB}}},
      {"stop", {{"stop", "web"}}},
      {"status", {{"status"}, {"status", "web"}, {"status", "bare"}}},
      {"receipt", {{"receipt", "web"}}},
      {"alloc list", {{"alloc", "list"}}},
      {"alloc status", {{"alloc", "status", "web"}}},
      {"alloc release", {{"alloc", "release", "web"}}},
      {"alloc ip", {{"alloc", "ip", "web"}}},
      {"reconcile",
       {{"reconcile", "--epoch", "7", "--scope", "s", "--dry-run", "web"}}},
      {"drain", {{"drain", "--dry-run"}}},
      {"volume list",
       {{"volume", "list"}, {"volume", "list", "--plugin", "csi"}}},
      {"volume status",
       {{"volume", "status", "web", "data"},
        {"volume", "status", "--plugin", "csi-local", "--volume", "vol-1"}}},
      {"volume stats", {{"volume", "stats", "web", "data"}}},
      {"volume expand", {{"volume", "expand", "web", "data", "1536MiB"}}},
      {"volume create",
       {{"volume", "create", "csi", "data", "--capacity", "1GiB"}}},
      {"volume delete", {{"volume", "delete", "csi", "vol-1"}}},
      {"volume snapshot create",
       {{"volume", "snapshot", "create", "csi", "vol-1", "nightly"}}},
      {"volume snapshot delete",
       {{"volume", "snapshot", "delete", "csi", "snap-1"}}},
      {"volume snapshot list", {{"volume", "snapshot", "list", "csi"}}},
      {"mount",
       {{"mount", "web", "server", "data", "--source", "volume:data"},
        {"mount", "web", "server", "data", "--source", "host:shared",
         "--replace"}}},
      {"unmount", {{"unmount", "web", "server", "data"}}},
      {"repair", {{"repair", "web", "server", "data"}}},
      {"tree", {{"tree"}, {"tree", "web", "--ascii"}}},
      {"inbox", {{"inbox", "web", "server"}}},
      {"open-tree",
       {{"open-tree", "web", "--source", "host:shared", "--", "echo", "ran"}}},
      {"open-inbox", {{"open-inbox", "web", "server", "--", "echo", "ran"}}},
      {"open-namespace", {{"open-namespace", "web", "--", "echo", "ran"}}},
      {"remove-tree", {{"remove-tree", "/"}}},
      {"chown-tree", {{"chown-tree", "/", "1000", "100"}}},
      {"network status", {{"network", "status", "web"}}},
      {"network show", {{"network", "show", "web"}}},
      {"network ports", {{"network", "ports", "web", "http=8080:80"}}},
      {"network list", {{"network", "list"}}},
      {"holders", {{"holders", "web", "server", "data"}}},
      {"handed-out", {{"handed-out", "web"}}},
      {"verify", {{"verify", "web", "server", self}}},
      {"lease list", {{"lease", "list"}}},
      {"lease acquire",
       {{"lease", "acquire", "agent", "--alloc", "web", "--timeout", "5000",
         "--stop-tasks", "kill"}}},
      {"lease renew", {{"lease", "renew", "agent"}}},
      {"lease release", {{"lease", "release", "agent"}}},
      {"fence", {{"fence", "web"}}},
      {"plugin register",
       {{"plugin", "register", "csi", "--type", "monolith", "--alloc", "a",
         "--mount-dir", "/csi"}}},
      {"plugin status",
       {{"plugin", "status", "csi-local"}, {"plugin", "status", "sick"}}},
      {"plugin unregister", {{"plugin", "unregister", "csi"}}},
      {"plugin list", {{"plugin", "list"}}},
      {"owed", {{"owed"}, {"owed", "--retry"}}},
      {"capabilities", {{"capabilities"}}},
      {"grants", {{"grants"}, {"grants", "--uid", "0"}}},
      {"operations", {{"operations"}}},
      {"stats", {{"stats"}}},
      {"reload", {{"reload"}}},
      {"metrics", {{"metrics"}}},
      {"call", {{"call", "GetPlugin", "[\"csi-local\"]"}}}};
}

// The first three run a command that takes all further words, and the others
// print the same with --json.
bool HasJson(const std::string& command) {
  return command != "open-tree" && command != "open-inbox" &&
         command != "open-namespace" && command != "call" &&
         command != "metrics";
}

std::string FileOf(std::string command) {
  for (char& letter : command) {
    letter = letter == ' ' ? '-' : letter;
  }
  return command + ".txt";
}

// Replaces what differs from machine to machine and from user to user. The
// fake's pending call is this test's user's, and its column is as wide as that
// uid.
std::string Portable(std::string text) {
  const std::string self = std::to_string(::getpid());
  const std::string user = std::to_string(::geteuid());
  const std::vector<std::pair<std::string, const char*>> masks{
      {MOUNTD_EXAMPLE_JOB, "web.toml"},
      {"(mountctl verify web server) " + self, "$1 PID"},
      {"UID +FOR", "UID  FOR"},
      {"allocation web +" + user + " +1m", "allocation web  UID  1m"},
      {"(\"uid\": )" + user + "(,?\\s+\"waiters\")", "$1UID$2"}};
  for (const auto& [pattern, mask] : masks) {
    text = std::regex_replace(text, std::regex(pattern), mask);
  }
  return text;
}

TEST_F(MountctlGolden, EachCommandAsTextAndAsJson) {
  for (const Case& one : Cases()) {
    SCOPED_TRACE(one.command);
    std::string text;
    for (const Words& words : one.calls) {
      text += HasJson(words[0]) ? BothTranscripts(words) : Transcript(words);
    }
    ExpectGolden("mountctl/" + FileOf(one.command), Portable(text));
  }
}

// Returns what `words`, an `events` command, prints of each signal.
std::string MountctlGolden::Events(const Words& words) {
  RunningProgram events(Command(words));
  while (!server_.EmitSignals()) {
    std::this_thread::yield();
  }
  std::string text = "$ mountctl " + Joined(words, ' ') + "\n";
  constexpr int kSignals = 16;
  for (int i = 0; i < kSignals; ++i) {
    text += events.ReadLine() + "\n";
  }
  events.Signal(SIGINT);
  EXPECT_EQ(events.Wait(), 0);
  return Portable(Masked(text));
}

// Two tests, each with a server of its own, because a server emits to the
// earlier command's connection until it notices that connection's end.
TEST_F(MountctlGolden, EventsAsText) {
  ExpectGolden("mountctl/events.txt", Events({"events"}));
}

TEST_F(MountctlGolden, EventsAsJson) {
  ExpectGolden("mountctl/events-json.txt", Events({"events", "--json"}));
}

TEST_F(MountctlGolden, Errors) {
  std::string text = Transcript({"frobnicate"}) + Transcript({"status", "-x"}) +
                     Transcript({"mount", "a", "t", "n", "--source", "/etc"});
  script().Fail("GetAllocation",
                {"org.mountd1.Error.NotFound", "allocation web: not prepared"});
  text += Transcript({"status", "web"});
  script().Fail("ReleaseAllocation", {"org.mountd1.Error.InProgress", "op-9"});
  text += Transcript({"stop", "web", "--timeout", "0"});
  ExpectGolden("mountctl/errors.txt", text);
}

// The --help of one command, split into what a group of commands lists.
struct Help {
  std::string text;
  Words commands;
};

Help HelpOf(Words words) {
  words.insert(words.begin(), MOUNTCTL);
  words.emplace_back("--help");
  const ProgramOutcome outcome = RunProgram(words);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  Help help{outcome.out, {}};
  if (help.text.find("SUBCOMMAND") == std::string::npos) {
    return help;
  }
  const std::regex entry("^  ([a-z][a-z-]*)( .*)?$");
  std::istringstream lines(help.text);
  std::smatch found;
  for (std::string line; std::getline(lines, line);) {
    if (line == "Examples:" || line == "Exit status:" || line == "Details:") {
      break;
    }
    if (std::regex_match(line, found, entry)) {
      help.commands.push_back(found[1]);
    }
  }
  return help;
}

// Appends the help of the command and of those below it, each with one empty
// line at its end, whose number differs between versions of CLI11. Returns the
// names of the commands that are no groups.
Words AppendHelp(const Words& words, std::string* text) {
  const Help help = HelpOf(words);
  *text += "$ mountctl " + Joined(words, ' ') + (words.empty() ? "" : " ") +
           "--help\n" +
           help.text.substr(0, help.text.find_last_not_of('\n') + 1) + "\n\n";
  if (help.commands.empty()) {
    return {Joined(words, ' ')};
  }
  Words all;
  for (const std::string& command : help.commands) {
    Words longer = words;
    longer.push_back(command);
    const Words below = AppendHelp(longer, text);
    all.insert(all.end(), below.begin(), below.end());
  }
  return all;
}

TEST_F(MountctlGolden, TheHelpOfEachCommand) {
  std::string text;
  AppendHelp({}, &text);
  ExpectGolden("mountctl/help.txt", text);
}

TEST_F(MountctlGolden, NoCommandIsLeftOutAndNoFileIsLeftBehind) {
  std::map<std::string, bool> has;
  Words files{"errors.txt", "events.txt", "events-json.txt", "help.txt"};
  has["events"] = true;
  for (const Case& one : Cases()) {
    has[one.command] = true;
    files.push_back(FileOf(one.command));
  }
  std::string ignored;
  for (const std::string& command : AppendHelp({}, &ignored)) {
    EXPECT_TRUE(has[command] || kNoGolden.contains(command))
        << "mountctl " << command << " needs a row in Cases()";
  }
  ExpectGoldenFiles("mountctl", files);
}

}  // namespace
}  // namespace mountd::agent::test
