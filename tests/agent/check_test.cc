// SPDX-License-Identifier: LGPL-2.1-or-later
// The verdicts of `mountctl doctor` on what it sees.
#include "agent/mountctl/doctor/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "agent/mountctl/doctor/daemon_checks.h"
#include "agent/mountctl/doctor/host_checks.h"

namespace mountd::agent::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

std::string Told(const Check& check) { return LineOf(check); }

SocketFacts Bob(int err) {
  SocketFacts facts{"/run/mountd/bus", {},    "0.1.0", "bob",
                    "mountd-agents",   false, false};
  if (err != 0) {
    facts.error = ErrnoError(err, "connect", facts.path);
    facts.error->code = Code::kUnavailable;
  }
  return facts;
}

TEST(Check, IsALineOfVerdictWhatWhyAndAdvice) {
  EXPECT_EQ(LineOf({Verdict::kFailed, "a", "b", "c"}), "failed   a: b; c");
  EXPECT_EQ(LineOf(Fine("a", "b")), "ok       a: b");
  EXPECT_EQ(LineOf({Verdict::kWarning, "a", "b", ""}), "warning  a: b");
  EXPECT_EQ(LineOf({Verdict::kUnknown, "a", "b", ""}), "unknown  a: b");
}

TEST(Check, NothingInItDrivesATerminal) {
  EXPECT_EQ(LineOf(Fine("plugin x", "\x1b[2J\n")), "ok       plugin x: ?[2J?");
}

TEST(Check, WhatTheCallerMayNotKnowIsNoFailure) {
  const Check denied =
      NotTold("owed", MakeError(Code::kPermissionDenied, "o", "", "no"));
  EXPECT_EQ(denied.verdict, Verdict::kUnknown);
  EXPECT_THAT(denied.why, HasSubstr("PermissionDenied: no"));
  const Check broken =
      NotTold("owed", MakeError(Code::kInternal, "o", "", "broken"));
  EXPECT_EQ(broken.verdict, Verdict::kFailed);
  EXPECT_EQ(NotSeen("root", ErrnoError(ENOENT, "open", "x")).verdict,
            Verdict::kUnknown);
  EXPECT_FALSE(AnyFailed({denied, Fine("a", "b")}));
  EXPECT_TRUE(AnyFailed({denied, broken}));
  EXPECT_EQ(ToJson(broken)["verdict"], "failed");
}

TEST(CheckSocket, ThatAnswersIsFine) {
  EXPECT_EQ(Told(CheckSocket(Bob(0))),
            "ok       socket: mountd 0.1.0 answers on /run/mountd/bus");
}

TEST(CheckSocket, WhoIsNotInTheGroupIsToldHowToGetIntoIt) {
  EXPECT_EQ(Told(CheckSocket(Bob(EACCES))),
            "failed   socket: bob may not connect to /run/mountd/bus, because "
            "it is not in the group mountd-agents; usermod -aG mountd-agents "
            "bob, then log in again, or restart the agent's service");
}

TEST(CheckSocket, WhoWasAddedMeanwhileLogsInAgain) {
  SocketFacts facts = Bob(EACCES);
  facts.listed = true;
  EXPECT_THAT(CheckSocket(facts).why, HasSubstr("after this session"));
  EXPECT_THAT(CheckSocket(facts).advice, testing::StartsWith("log in again"));
  facts.in_group = true;
  EXPECT_THAT(CheckSocket(facts).advice, HasSubstr("restart mountd.socket"));
}

TEST(CheckSocket, NobodyIsToldToJoinRootsGroup) {
  SocketFacts facts = Bob(EACCES);
  facts.group = "";
  EXPECT_THAT(CheckSocket(facts).why, HasSubstr("only root may use"));
  EXPECT_THAT(CheckSocket(facts).advice, testing::Not(HasSubstr("usermod")));
}

TEST(CheckSocket, TheBusesRefusalIsTheSame) {
  SocketFacts facts = Bob(0);
  facts.error = MakeError(Code::kPermissionDenied, "Version", "", "denied");
  EXPECT_THAT(CheckSocket(facts).advice, HasSubstr("usermod -aG"));
}

TEST(CheckSocket, EachOtherFailureHasItsOwnCure) {
  EXPECT_THAT(CheckSocket(Bob(ENOENT)).advice, HasSubstr("enable --now"));
  EXPECT_THAT(CheckSocket(Bob(ECONNREFUSED)).advice,
              HasSubstr("restart mountd.socket"));
  EXPECT_THAT(CheckSocket(Bob(ETIMEDOUT)).advice, HasSubstr("journalctl"));
  for (const int err : {ENOENT, ECONNREFUSED, ETIMEDOUT}) {
    EXPECT_EQ(CheckSocket(Bob(err)).verdict, Verdict::kFailed);
  }
}

TEST(CheckUnit, AServiceMayWaitForItsSocket) {
  const auto of = [](const char* name, const char* load, const char* active) {
    return CheckUnit({name, load, active});
  };
  EXPECT_EQ(of("mountd.service", "loaded", "active").verdict, Verdict::kOk);
  EXPECT_EQ(of("mountd.service", "loaded", "inactive").verdict, Verdict::kOk);
  EXPECT_EQ(of("mountd.socket", "loaded", "inactive").verdict,
            Verdict::kFailed);
  EXPECT_EQ(of("mountd.service", "loaded", "failed").verdict, Verdict::kFailed);
  EXPECT_THAT(of("mountd.service", "not-found", "inactive").advice,
              HasSubstr("mountd-service"));
  EXPECT_THAT(of("mountd.socket", "masked", "inactive").advice,
              HasSubstr("unmask mountd.socket"));
}

std::string Root(const std::string& tags) {
  return "21 1 0:5 / /proc rw shared:9 - proc proc rw\n"
         "27 1 8:1 / / rw,relatime " +
         tags + (tags.empty() ? "" : " ") + "- ext4 /dev/sda1 rw\n";
}

TEST(CheckRootPropagation, TellsWhatItMeansForVolumes) {
  EXPECT_EQ(CheckRootPropagation(Root("shared:1")).verdict, Verdict::kOk);
  EXPECT_EQ(CheckRootPropagation(Root("shared:1 master:2")).verdict,
            Verdict::kOk);
  const Check slave = CheckRootPropagation(Root("master:2"));
  EXPECT_EQ(slave.verdict, Verdict::kWarning);
  EXPECT_THAT(slave.why, HasSubstr("is a slave"));
  const Check alone = CheckRootPropagation(Root(""));
  EXPECT_EQ(alone.verdict, Verdict::kWarning);
  EXPECT_THAT(alone.why, HasSubstr("host-to-task and bidirectional"));
  EXPECT_THAT(alone.advice, HasSubstr("mount --make-rshared /"));
}

// Another root is mounted on the first one, and only the upper one is visible.
TEST(CheckRootPropagation, IsOfTheTopmost) {
  EXPECT_EQ(CheckRootPropagation(Root("shared:1") + Root("")).verdict,
            Verdict::kWarning);
}

TEST(CheckRootPropagation, OfNoRootIsUnknown) {
  EXPECT_EQ(CheckRootPropagation("").verdict, Verdict::kUnknown);
  EXPECT_EQ(CheckRootPropagation("x\n\n- -\n").verdict, Verdict::kUnknown);
}

TEST(CheckMountRoom, WarnsBeforeMountdRefuses) {
  const auto with = [](std::size_t count, std::uint64_t most) {
    return CheckMountRoom(std::string(count, '\n'), most, 1000);
  };
  EXPECT_EQ(with(100, 100'000).verdict, Verdict::kOk);
  EXPECT_EQ(with(18'001, 20'000).verdict, Verdict::kWarning);
  EXPECT_EQ(with(19'000, 20'000).verdict, Verdict::kFailed);
  EXPECT_EQ(with(30'000, 20'000).verdict, Verdict::kFailed);
  // The reserve for others is as configured.
  EXPECT_EQ(CheckMountRoom("\n\n", 10, 8).verdict, Verdict::kFailed);
  EXPECT_EQ(CheckMountRoom("\n\n", 10, 7).verdict, Verdict::kOk);
  EXPECT_THAT(with(19'000, 20'000).why, HasSubstr("19000 of 20000"));
  EXPECT_THAT(with(19'000, 20'000).advice, HasSubstr("fs.mount-max=40000"));
}

TEST(CheckForwarding, IsNeededOnceThereAreNetworks) {
  EXPECT_EQ(CheckForwarding(true, 0).verdict, Verdict::kOk);
  EXPECT_EQ(CheckForwarding(true, 3).verdict, Verdict::kOk);
  EXPECT_EQ(CheckForwarding(false, 0).verdict, Verdict::kOk);
  EXPECT_EQ(CheckForwarding(false, 3).verdict, Verdict::kFailed);
}

TEST(CheckFeatures, WhatRootHasNotConfiguredIsFine) {
  Capabilities offers;
  EXPECT_EQ(CheckFeatures(offers).at(0).what, "features");
  offers.missing = {
      {"bridge", "the configuration declares no [network.<name>]"},
      {"cni", "no rule grants this user any CNI network"},
      {"cni/calico", "its plugin does not exist"},
      {"mount-beneath", "the kernel is older than 6.5"}};
  const std::vector<Check> checks = CheckFeatures(offers);
  ASSERT_EQ(checks.size(), 4U);
  EXPECT_EQ(checks[0].verdict, Verdict::kOk);
  EXPECT_EQ(checks[1].verdict, Verdict::kOk);
  EXPECT_EQ(checks[2].verdict, Verdict::kWarning);
  EXPECT_THAT(checks[2].advice, HasSubstr("[cni]"));
  EXPECT_EQ(checks[3].verdict, Verdict::kWarning);
  EXPECT_THAT(checks[3].why, HasSubstr("older than 6.5"));
}

TEST(CheckPolicy, TellsWhetherARuleNamesTheCaller) {
  Capabilities offers;
  offers.network_modes = {"bridge", "none"};
  offers.host_ports = {{8080, 8080, 1}, {20000, 20100, 5}};
  offers.rules = true;
  const Check named = CheckPolicy({"alice", false}, offers);
  EXPECT_EQ(named.verdict, Verdict::kOk);
  EXPECT_THAT(named.why, HasSubstr("networks: bridge, none"));
  EXPECT_THAT(named.why, HasSubstr("host ports: 8080, 20000-20100"));
  EXPECT_EQ(named.why.find("everybody"), std::string::npos);
  offers.administrator = true;
  EXPECT_THAT(CheckPolicy({"alice", false}, offers).why,
              HasSubstr("a rule names alice, an administrator who sees and may "
                        "remove everybody"));
  offers.rules = offers.administrator = false;
  const Check unnamed = CheckPolicy({"bob", false}, offers);
  EXPECT_EQ(unnamed.verdict, Verdict::kFailed);
  EXPECT_THAT(unnamed.advice, HasSubstr("users = [\"bob\"]"));
  EXPECT_EQ(CheckPolicy({"root", true}, offers).verdict, Verdict::kOk);
}

TEST(CheckAddresses, WarnsAtATenthAndFailsAtNone) {
  Capabilities offers;
  offers.addresses = {{"a", {250, 200}}, {"b", {250, 25}}, {"c", {250, 0}}};
  const std::vector<Check> checks = CheckAddresses(offers);
  ASSERT_EQ(checks.size(), 3U);
  EXPECT_EQ(checks[0].verdict, Verdict::kOk);
  EXPECT_EQ(checks[1].verdict, Verdict::kWarning);
  EXPECT_THAT(checks[1].why, HasSubstr("25 of 250"));
  EXPECT_EQ(checks[2].verdict, Verdict::kFailed);
  EXPECT_THAT(checks[2].advice, HasSubstr("[network.c]"));
}

TEST(CheckHostPorts, AreOfAllRanges) {
  Capabilities offers;
  EXPECT_FALSE(CheckHostPorts(offers));
  offers.host_ports = {{80, 80, 0}, {90, 91, 1}};
  EXPECT_EQ(CheckHostPorts(offers)->verdict, Verdict::kOk);
  EXPECT_THAT(CheckHostPorts(offers)->why, HasSubstr("1 of 80, 90-91"));
  offers.host_ports = {{80, 80, 0}};
  EXPECT_EQ(CheckHostPorts(offers)->verdict, Verdict::kWarning);
}

TEST(CheckPlugins, EachStateHasItsVerdict) {
  std::vector<PluginStatus> plugins;
  for (const char* state :
       {"healthy", "starting", "unhealthy", "gone", "of a later release"}) {
    PluginStatus plugin;
    plugin.id = "csi";
    plugin.state = state;
    plugin.reason = "why";
    plugins.push_back(plugin);
  }
  const std::vector<Check> checks = CheckPlugins(plugins);
  ASSERT_EQ(checks.size(), 5U);
  EXPECT_EQ(Told(checks[0]), "ok       plugin csi: healthy");
  EXPECT_EQ(checks[1].verdict, Verdict::kWarning);
  EXPECT_EQ(checks[2].verdict, Verdict::kFailed);
  EXPECT_THAT(checks[2].why, HasSubstr("unhealthy: why"));
  EXPECT_THAT(checks[2].advice, HasSubstr("mountd-plugin-csi"));
  EXPECT_EQ(checks[3].verdict, Verdict::kWarning);
  EXPECT_EQ(checks[4].verdict, Verdict::kFailed);
  plugins[2].allocation = "csi-job";
  EXPECT_THAT(CheckPlugins(plugins)[2].advice, HasSubstr("allocation csi-job"));
  EXPECT_EQ(CheckPlugins({}).at(0).verdict, Verdict::kOk);
}

TEST(CheckOwed, FailsOnceItIsOwedForLong) {
  EXPECT_EQ(CheckOwed({}).verdict, Verdict::kOk);
  const OwedTeardown one{3, "unmount", "web/server/data", "EBUSY", 4, {}};
  const Check fresh = CheckOwed({1, seconds(61), {one}});
  EXPECT_EQ(fresh.verdict, Verdict::kWarning);
  EXPECT_EQ(
      fresh.why,
      "1 tear-down, the oldest for 1m 1s: unmount web/server/data: EBUSY");
  EXPECT_THAT(CheckOwed({2, seconds(1), {one}}).why, HasSubstr("2 tear-downs"));
  EXPECT_EQ(CheckOwed({1, seconds(301), {one}}).verdict, Verdict::kFailed);
  EXPECT_EQ(CheckOwed({1, seconds(301), {one}, seconds(302)}).verdict,
            Verdict::kWarning);
  EXPECT_THAT(CheckOwed({1, seconds(1), {}}).why,
              HasSubstr("you may see none"));
}

TEST(CheckStuck, AndDamagedStoresAreTold) {
  Capabilities offers;
  EXPECT_EQ(CheckStuck(offers).verdict, Verdict::kOk);
  EXPECT_EQ(CheckStores(offers).verdict, Verdict::kOk);
  offers.stuck_executors = 2;
  offers.stores_set_aside = {"boot.db.corrupt-1"};
  EXPECT_EQ(CheckStuck(offers).verdict, Verdict::kFailed);
  EXPECT_THAT(CheckStuck(offers).why, HasSubstr("2 hang"));
  EXPECT_EQ(CheckStores(offers).verdict, Verdict::kWarning);
  EXPECT_THAT(CheckStores(offers).why, HasSubstr("boot.db.corrupt-1"));
}

}  // namespace
}  // namespace mountd::agent::test
