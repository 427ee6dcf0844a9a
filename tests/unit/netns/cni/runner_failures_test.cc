// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Plugins that fail, lie, hang and leave things behind, and a runner that dies.
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>

#include "tests/support/eventually.h"
#include "tests/unit/netns/cni/runner_fixture.h"

namespace mountd::cni {
namespace {

using Names = std::vector<std::string>;
using mountd::testing::Eventually;

class CniFailures : public RunnerTest {
 protected:
  // Returns the answer of an ADD whose second plugin does this.
  static Json AddWithSecond(const Json& what,
                            const std::vector<std::string>& more = {}) {
    WriteNetwork("1.conflist",
                 Network("net", {Plugin("first"), Plugin("second", what),
                                 Plugin("third")}));
    return Run("add", RequestFor("web"), more);
  }

  static void ExpectNothingLeft() {
    EXPECT_FALSE(HasRecord("web"));
    for (const int daemon : Daemons()) {
      EXPECT_FALSE(IsAlive(daemon)) << daemon;
    }
    for (const Json& call : Calls()) {
      EXPECT_FALSE(IsAlive(call["pid"].get<int>())) << call;
    }
  }

  // Kills guard or worker during an ADD, and expects that DEL finds everything.
  static void KilledInTheMiddle(bool worker) {
    WriteNetwork("1.conflist",
                 Network("net", {Plugin("first"),
                                 Plugin("second", {{"ADD", {"hang"}}})}));
    test::RunningProgram runner(Command("add", RequestFor("web")));
    ASSERT_TRUE(Eventually([] { return Daemons().size() == 1; }));
    const int second = Calls().at(1)["pid"];
    if (worker) {
      ::kill(ChildOf(RunnerPid()), SIGKILL);
    } else {
      runner.Signal(SIGKILL);
    }
    EXPECT_NE(runner.Wait(), 0);
    EXPECT_TRUE(Eventually(
        [&] { return !IsAlive(second) && !IsAlive(Daemons().at(0)); }));
    ASSERT_TRUE(HasRecord("web"));
    EXPECT_EQ(RecordOf("web")["complete"], false);
    ForgetCalls();
    EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
    EXPECT_EQ(CallNames(), (Names{"DEL second", "DEL first"}));
    EXPECT_EQ(Calls().at(0)["config"]["prevResult"]["interfaces"].size(), 1U);
    ExpectNothingLeft();
  }
};

TEST_F(CniFailures, AFailureUndoesWhatWasTried) {
  const Json answer = AddWithSecond({{"ADD", {"error 7"}}});
  EXPECT_EQ(answer["ok"], false);
  EXPECT_EQ(answer["code"], "FailedPrecondition");
  EXPECT_EQ(answer["cni_code"], 7);
  EXPECT_EQ(answer["plugin"], "second");
  EXPECT_EQ(answer["detail"], "told to fail; by the [1mtest");
  EXPECT_EQ(answer["left"], Json::array());
  EXPECT_EQ(CallNames(),
            (Names{"ADD first", "ADD second", "DEL second", "DEL first"}));
  EXPECT_EQ(Calls().at(2)["config"]["prevResult"]["interfaces"].size(), 1U);
  ExpectNothingLeft();
}

TEST_F(CniFailures, TryAgainLaterIsTriedAgainAfterAnUndo) {
  const Json answer = AddWithSecond({{"ADD", {"error 11", "ok"}}});
  EXPECT_EQ(answer["ok"], true) << answer;
  EXPECT_EQ(CallNames(),
            (Names{"ADD first", "ADD second", "DEL second", "DEL first",
                   "ADD first", "ADD second", "ADD third"}));
}

TEST_F(CniFailures, ThreeAttemptsAreEnough) {
  const Json answer = AddWithSecond({{"ADD", {"error 11"}}});
  EXPECT_EQ(answer["code"], "Unavailable");
  EXPECT_EQ(CallNames().size(), 12U);
  ExpectNothingLeft();
}

TEST_F(CniFailures, AHangingPluginIsKilledAndUndone) {
  const Json answer =
      AddWithSecond({{"ADD", {"hang"}}}, {"--deadline-ms", "8000"});
  EXPECT_EQ(answer["code"], "DeadlineExceeded") << answer;
  EXPECT_EQ(answer["plugin"], "second");
  EXPECT_EQ(answer["left"], Json::array());
  EXPECT_EQ(CallNames(),
            (Names{"ADD first", "ADD second", "DEL second", "DEL first"}));
  ASSERT_EQ(Daemons().size(), 1U);
  ExpectNothingLeft();
}

TEST_F(CniFailures, ADaemonEndsWithItsPlugin) {
  const Json answer = AddWithSecond({{"ADD", {"daemon"}}});
  EXPECT_EQ(answer["ok"], true) << answer;
  ASSERT_EQ(Daemons().size(), 1U);
  EXPECT_FALSE(IsAlive(Daemons().at(0)));
}

TEST_F(CniFailures, WhatIsNoResultIsNone) {
  for (const char* what : {"huge", "garbage", "silent", "crash", "ips 65",
                           "ips 10000", "deep 32", "deep 100000"}) {
    const Json answer = AddWithSecond({{"ADD", {what}}}, {"--attempts", "1"});
    EXPECT_EQ(answer["code"], "Internal") << what << answer;
    EXPECT_EQ(answer["plugin"], "second") << what;
    ExpectNothingLeft();
    ForgetCalls();
  }
}

TEST_F(CniFailures, AResultIsChecked) {
  const std::vector<Json> bad = {
      {{"ips", {{{"address", "10.1.0.2"}}}}},
      {{"ips", {{{"address", "10.1.0.2/24"}, {"interface", 0}}}}},
      {{"interfaces", {{{"name", "a\nb"}}}}},
      {{"cniVersion", "0.4.0"}},
      {{"routes", {{{"dst", "everywhere"}}}}},
      {{"interfaces", {{{"name", "\u001b[2J"}}}}},
      {{"interfaces", {{{"name", "a\u009b2J"}}}}},
      {{"ips", {{{"address", 10}}}}},
      {{"ips", "10.1.0.2/24"}},
      {{"dns", Json::array()}},
  };
  for (const Json& result : bad) {
    Json plugin = Plugin("first");
    plugin["fake"]["result"] = result;
    WriteNetwork("1.conflist", Network("net", {plugin}));
    const Json answer = Run("add", RequestFor("web"));
    EXPECT_EQ(answer["code"], "Internal") << result;
    ExpectNothingLeft();
  }
}

TEST_F(CniFailures, WithinTheBoundsAllIsPassedOn) {
  for (const char* what : {"ips 64", "deep 31"}) {
    EXPECT_EQ(AddWithSecond({{"ADD", {what}}})["ok"], true) << what;
    EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
    ForgetCalls();
  }
}

TEST_F(CniFailures, ANetworkWithoutAnAddressIsUndone) {
  Json plugin = Plugin("first");
  plugin["fake"]["result"] = {{"interfaces", {{{"name", "eth0"}}}}};
  WriteNetwork("1.conflist", Network("net", {plugin}));
  EXPECT_EQ(Run("add", RequestFor("web"))["code"], "FailedPrecondition");
  EXPECT_EQ(CallNames(), (Names{"ADD first", "DEL first"}));
  ExpectNothingLeft();
}

TEST_F(CniFailures, WhatAPluginMoansIsCutAndCleaned) {
  const Json answer = AddWithSecond({{"ADD", {"moan"}}}, {"--attempts", "1"});
  const std::string detail = answer["detail"];
  EXPECT_EQ(detail.find("exited with status 3: no room left !!!"), 0U)
      << detail;
  EXPECT_LE(detail.size(), 300U);
}

TEST_F(CniFailures, DelGoesOnOverFailuresAndCanBeTriedAgain) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"DEL", {"crash", "ok"}}}),
                               Plugin("second"),
                               Plugin("third", {{"DEL", {"error 5", "ok"}}})}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  ForgetCalls();
  const Json answer = Run("del", RequestFor("web"));
  EXPECT_EQ(answer["ok"], false);
  EXPECT_EQ(answer["left"].size(), 2U) << answer;
  EXPECT_EQ(answer["plugin"], "third");
  EXPECT_EQ(CallNames(), (Names{"DEL third", "DEL second", "DEL first"}));
  EXPECT_TRUE(HasRecord("web"));
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  ExpectNothingLeft();
}

// The plugins that DEL has reached have nothing left to answer for.
TEST_F(CniFailures, AnAddAfterAFailedDelAttachesAgain) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"DEL", {"error 5", "ok"}}}),
                               Plugin("second")}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], false);
  const Json again = Run("add", RequestFor("web"));
  ASSERT_EQ(again["ok"], true) << again;
  EXPECT_EQ(again["existing"], false) << again;
  EXPECT_EQ(CallNames(),
            (Names{"ADD first", "ADD second", "DEL second", "DEL first",
                   "DEL second", "DEL first", "ADD first", "ADD second"}));
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  ExpectNothingLeft();
}

// A network that is being released gets no new addresses and ports.
TEST_F(CniFailures, ADelThatFailsAgainAndAgainNeverAdds) {
  WriteNetwork(
      "1.conflist",
      Network("net", {Plugin("first", {{"DEL", {"error 5", "error 5", "ok"}}}),
                      Plugin("second")}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  ForgetCalls();
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], false);
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], false);
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  EXPECT_EQ(CallNames(), (Names{"DEL second", "DEL first", "DEL second",
                                "DEL first", "DEL second", "DEL first"}));
  ExpectNothingLeft();
}

TEST_F(CniFailures, AHangInDelLeavesTimeForTheOthers) {
  WriteNetwork(
      "1.conflist",
      Network("net", {Plugin("first"), Plugin("second", {{"DEL", {"hang"}}})}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  const Json answer = Run("del", RequestFor("web"), {"--deadline-ms", "6000"});
  EXPECT_EQ(answer["code"], "DeadlineExceeded");
  EXPECT_EQ(CallNames().back(), "DEL first");
  EXPECT_EQ(answer["left"].size(), 1U);
}

TEST_F(CniFailures, WhatCannotBeUndoneIsToldAndKept) {
  const Json answer =
      AddWithSecond({{"ADD", {"error 11"}}, {"DEL", {"error 5", "ok"}}});
  EXPECT_EQ(answer["cni_code"], 11);
  EXPECT_EQ(answer["left"].size(), 1U) << answer;
  EXPECT_TRUE(HasRecord("web"));
  EXPECT_EQ(Run("del", RequestFor("web"))["ok"], true);
  EXPECT_EQ(CallNames(),
            (Names{"ADD first", "ADD second", "DEL second", "DEL first",
                   "DEL third", "DEL second", "DEL first"}));
  ExpectNothingLeft();
}

TEST_F(CniFailures, DelFindsWhatAKilledRunnerLeft) {
  KilledInTheMiddle(/*worker=*/false);
}

TEST_F(CniFailures, DelFindsWhatAKilledWorkerLeft) {
  KilledInTheMiddle(/*worker=*/true);
}

TEST_F(CniFailures, AddUndoesWhatAKilledRunnerLeft) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"hang", "ok"}}})}));
  test::RunningProgram runner(Command("add", RequestFor("web")));
  ASSERT_TRUE(Eventually([] { return Daemons().size() == 1; }));
  runner.Signal(SIGKILL);
  runner.Wait();
  const Json answer = Run("add", RequestFor("web"));
  EXPECT_EQ(answer["ok"], true) << answer;
  EXPECT_EQ(CallNames(), (Names{"ADD first", "DEL first", "ADD first"}));
  EXPECT_FALSE(IsAlive(Daemons().at(0)));
}

// The bridge plugin's DEL fails like this if its ADD was killed before it made
// its iptables chain.
TEST_F(CniFailures, WhatCannotBeUndoneInTheMiddleIsCompletedFirst) {
  WriteNetwork(
      "1.conflist",
      Network("net", {Plugin("first", {{"ADD", {"hang", "ok"}},
                                       {"DEL", {"error 999", "ok"}}})}));
  test::RunningProgram runner(Command("add", RequestFor("web")));
  ASSERT_TRUE(Eventually([] { return Daemons().size() == 1; }));
  runner.Signal(SIGKILL);
  runner.Wait();
  const Json answer = Run("del", RequestFor("web"), {"--recorded"});
  EXPECT_EQ(answer["ok"], true) << answer;
  EXPECT_EQ(CallNames(),
            (Names{"ADD first", "DEL first", "ADD first", "DEL first"}));
  ExpectNothingLeft();
}

TEST_F(CniFailures, ARecordThatCannotBeReadIsNotInTheWay) {
  WriteNetwork("1.conflist", Network("net", {Plugin("first")}));
  EXPECT_EQ(Run("add", RequestFor("web"))["ok"], true);
  WriteFile("/run/state/records/web@eth0", "{");
  EXPECT_EQ(Run("check", RequestFor("web"))["code"], "InvalidArgument");
  EXPECT_EQ(Run("del", RequestFor("web"), {"--recorded"})["known"], true);
  EXPECT_EQ(CallNames().back(), "DEL first");
  ExpectNothingLeft();
}

TEST_F(CniFailures, AnAttachmentsOperationsWaitForEachOther) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"wait /run/go"}}})}));
  test::RunningProgram one(Command("add", RequestFor("web")));
  ASSERT_TRUE(Eventually([] { return Calls().size() == 1; }));
  const Json refused = Run("del", RequestFor("web"), {"--deadline-ms", "100"});
  EXPECT_EQ(refused["code"], "DeadlineExceeded") << refused;
  test::RunningProgram two(Command("add", RequestFor("web")));
  WriteFile("/run/go", "");
  EXPECT_EQ(Json::parse(one.ReadLine(), nullptr, false)["existing"], false);
  EXPECT_EQ(Json::parse(two.ReadLine(), nullptr, false)["existing"], true);
  EXPECT_EQ(CallNames(), (Names{"ADD first"}));
}

TEST_F(CniFailures, DifferentAttachmentsDoNot) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"wait /run/go"}}})}));
  test::RunningProgram one(Command("add", RequestFor("web")));
  test::RunningProgram two(Command("add", RequestFor("other")));
  EXPECT_TRUE(Eventually([] { return Calls().size() == 2; }));
  WriteFile("/run/go", "");
  EXPECT_EQ(one.Wait(), 0);
  EXPECT_EQ(two.Wait(), 0);
}

TEST_F(CniFailures, GarbageIsNotCollectedBesideAnAdd) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"wait /run/go"}}})}));
  test::RunningProgram one(Command("add", RequestFor("web")));
  ASSERT_TRUE(Eventually([] { return Calls().size() == 1; }));
  EXPECT_EQ(Run("gc", Json::object(), {"--deadline-ms", "100"})["code"],
            "DeadlineExceeded");
  WriteFile("/run/go", "");
  EXPECT_EQ(one.Wait(), 0);
  EXPECT_EQ(Run("gc", Json::object())["removed"], Json({"web/eth0"}));
}

TEST_F(CniFailures, ARunnerThatHasToEndSaysSo) {
  WriteNetwork("1.conflist",
               Network("net", {Plugin("first", {{"ADD", {"hang"}}})}));
  test::RunningProgram runner(Command("add", RequestFor("web")));
  ASSERT_TRUE(Eventually([] { return Daemons().size() == 1; }));
  ::kill(ChildOf(RunnerPid()), SIGTERM);
  const Json answer = Json::parse(runner.ReadLine(), nullptr, false);
  EXPECT_EQ(answer["code"], "Aborted");
  EXPECT_EQ(answer["left"].size(), 1U);
  EXPECT_EQ(runner.Wait(), 0);
  EXPECT_FALSE(IsAlive(Daemons().at(0)));
  EXPECT_TRUE(HasRecord("web"));
}

}  // namespace
}  // namespace mountd::cni
