// SPDX-License-Identifier: LGPL-2.1-or-later
//
//
// Calls on the system bus that only an administrator may make: mountd's
// questions to polkit, and the call's outcome for each answer.
#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <set>

#include "dbus/methods/administrator_actions.h"
#include "tests/dbus/api_test.h"
#include "tests/support/fakes/fake_polkit.h"
#include "tests/support/naive.h"

namespace mountd::test {
namespace {

using Says = FakePolkit::Says;

constexpr char kDenied[] = "org.mountd1.Error.PermissionDenied";

// "web" is alice's allocation, and bob makes the calls.
class PolkitCalls : public ApiTest {
 protected:
  void SetUp() override {
    if (!IsRoot()) {
      GTEST_SKIP() << "callers are other users: needs root";
    }
    StartWithBus();
    alice_ = ConnectBus(kAlice);
    bob_ = ConnectBus(kBob);
    ASSERT_NE(alice_, nullptr);
    ASSERT_NE(bob_, nullptr);
    ASSERT_EQ(sd_bus_set_allow_interactive_authorization(bob_->raw(), 1), 0);
    Prepare(*alice_);
  }

  static void Prepare(BusClient& client) {
    const Answer prepared =
        client.Call("PrepareAllocation", "sa{sv}", "web", 0);
    ASSERT_TRUE(prepared.ok()) << prepared.message;
  }
  static Answer Release(BusClient& client) {
    return client.Call("ReleaseAllocation", "sa{sv}", "web", 0);
  }
  bool StillThere() {
    return alice_->Call("GetAllocation", "sa{sv}", "web", 0).ok();
  }
  static std::string NameOf(BusClient& client) {
    const char* name = nullptr;
    sd_bus_get_unique_name(client.raw(), &name);
    return name;
  }
  struct Answers {
    Answer allowed;
    Answer other;
  };
  // Releases "web" by two connections at once. polkit allows it to the first,
  // and no longer when the other one makes the same call.
  Answers ReleaseByBoth(FakePolkit& polkit, BusClient& allowed,
                        BusClient& other) {
    polkit.Say(Says::kYes);
    executor().script().Block("RemoveAllocation");
    const std::uint64_t first =
        allowed.Send("ReleaseAllocation", "sa{sv}", "web", 0);
    allowed.Fence();
    EXPECT_TRUE(executor().script().AwaitBlocked("RemoveAllocation"));
    polkit.Say(Says::kNo);
    const std::uint64_t second =
        other.Send("ReleaseAllocation", "sa{sv}", "web", 0);
    other.Fence();
    executor().script().UnblockAll();
    Answers answers;
    answers.allowed = allowed.Await(first);
    answers.other = other.Await(second);
    return answers;
  }
  bool AwaitQuestions(const FakePolkit& polkit, std::size_t count) {
    return Eventually([&] { return polkit.questions().size() >= count; });
  }

  std::unique_ptr<BusClient> alice_;
  std::unique_ptr<BusClient> bob_;
};

TEST_F(PolkitCalls, WhoMayByPolkitMayThisOnce) {
  FakePolkit polkit(Says::kYes);
  const Answer released = Release(*bob_);
  EXPECT_TRUE(released.ok()) << released.error << ": " << released.message;
  ASSERT_EQ(polkit.questions().size(), 1U);
  const FakePolkit::Question question = polkit.questions().front();
  EXPECT_EQ(question.subject_kind, "system-bus-name");
  EXPECT_EQ(question.sender, NameOf(*bob_));
  EXPECT_EQ(question.action, "org.mountd1.release");
  EXPECT_EQ(question.details.at("method"), "ReleaseAllocation");
  EXPECT_EQ(question.details.at("object"), "allocation web");
  EXPECT_NE(question.details.at("polkit.message").find("$(object)"),
            std::string::npos);
  EXPECT_EQ(question.flags, 1U);
  EXPECT_FALSE(StillThere());

  // The next call is another question.
  Prepare(*alice_);
  polkit.Say(Says::kNo);
  EXPECT_EQ(Release(*bob_).error, kDenied);
  EXPECT_TRUE(StillThere());
}

TEST_F(PolkitCalls, NobodyIsBotheredForACallThatDoesNotAllowIt) {
  FakePolkit polkit(Says::kChallenge);
  const auto bob = ConnectBus(kBob);
  ASSERT_NE(bob, nullptr);
  const Answer released = Release(*bob);
  EXPECT_EQ(released.error, kDenied);
  EXPECT_NE(released.message.find("an administrator must authenticate"),
            std::string::npos)
      << released.message;
  ASSERT_EQ(polkit.questions().size(), 1U);
  EXPECT_EQ(polkit.questions().front().flags, 0U);
  // A polkit rule that says yes needs no authentication.
  polkit.Say(Says::kYes);
  EXPECT_TRUE(Release(*bob).ok());
}

TEST_F(PolkitCalls, WhateverIsNoYesIsANo) {
  FakePolkit polkit(Says::kNo);
  const std::string before = server().Records();
  for (const auto& [says, why] :
       {std::pair(Says::kNo, "polkit: the caller is not authorized"),
        std::pair(Says::kChallenge, "no authentication agent is running"),
        std::pair(Says::kDismissed, "dismissed the authentication"),
        std::pair(Says::kError, "polkit does not answer")}) {
    SCOPED_TRACE(why);
    polkit.Say(says);
    const Answer released = Release(*bob_);
    EXPECT_EQ(released.error, kDenied);
    EXPECT_NE(released.message.find("belongs to another user"),
              std::string::npos);
    EXPECT_NE(released.message.find(why), std::string::npos)
        << released.message;
  }
  EXPECT_EQ(server().Records(), before);
}

TEST_F(PolkitCalls, WithoutPolkitItIsRefused) {
  const Answer released = Release(*bob_);
  EXPECT_EQ(released.error, kDenied);
  EXPECT_NE(released.message.find("polkit does not answer"), std::string::npos)
      << released.message;
  EXPECT_TRUE(StillThere());
}

TEST_F(PolkitCalls, ItIsAskedWhereItMattersAlone) {
  FakePolkit polkit(Says::kYes);
  // These calls concern bob's own objects, or are ones that nobody makes in
  // another user's name.
  EXPECT_TRUE(alice_->Call("GetAllocation", "sa{sv}", "web", 0).ok());
  EXPECT_EQ(bob_->Call("PrepareAllocation", "sa{sv}", "web", 0).error, kDenied);
  EXPECT_EQ(bob_->Call("PrepareInbox", "ssa{sv}", "web", "server", 0).error,
            kDenied);
  EXPECT_EQ(bob_->Call("ReleaseAllocation", "sa{sv}", "db", 0).error,
            "org.mountd1.Error.NotFound");
  // Root needs no question.
  EXPECT_TRUE(ConnectBus()->Call("GetAllocation", "sa{sv}", "web", 0).ok());
  // On the socket only the credentials decide who the caller is.
  const auto peer = ConnectPeer(kBob);
  ASSERT_NE(peer, nullptr);
  EXPECT_EQ(Release(*peer).error, kDenied);
  EXPECT_TRUE(polkit.questions().empty());
  EXPECT_TRUE(StillThere());
}

TEST_F(PolkitCalls, ListsAreOfAllUsersOnlyWhenAskedFor) {
  FakePolkit polkit(Says::kYes);
  const auto all_users = [&](const char* method) {
    return bob_->Call(method, "a{sv}", 1, "all_users", "b", 1);
  };
  EXPECT_EQ(bob_->Call("ListAllocations", "a{sv}", 0).text, "[]");
  EXPECT_TRUE(polkit.questions().empty());
  EXPECT_EQ(all_users("ListAllocations").text,
            R"([("web", 1, "", "prepared")])");
  EXPECT_TRUE(all_users("ListVolumes").ok());
  EXPECT_TRUE(all_users("ListOwed").ok());
  EXPECT_TRUE(all_users("ListHostVolumes").ok());
  EXPECT_TRUE(all_users("ListFilesystems").ok());
  EXPECT_TRUE(all_users("ListNetworks").ok());
  EXPECT_TRUE(bob_->Call("ListNetworks", "a{sv}", 1, "uid", "u", 0).ok());
  EXPECT_TRUE(all_users("RetryOwed").ok());
  EXPECT_TRUE(bob_->Call("Reload", "a{sv}", 0).ok());
  std::multiset<std::string> actions;
  for (const FakePolkit::Question& question : polkit.questions()) {
    actions.insert(question.action);
  }
  EXPECT_EQ(actions, (std::multiset<std::string>{
                         "org.mountd1.inspect", "org.mountd1.inspect",
                         "org.mountd1.inspect", "org.mountd1.inspect",
                         "org.mountd1.inspect", "org.mountd1.inspect",
                         "org.mountd1.inspect", "org.mountd1.reload",
                         "org.mountd1.retry-owed"}));
  polkit.Say(Says::kNo);
  EXPECT_EQ(all_users("ListAllocations").error, kDenied);
  EXPECT_EQ(all_users("ListHostVolumes").error, kDenied);
  EXPECT_EQ(all_users("RetryOwed").error, kDenied);
}

// mountd decides again after the answer.
TEST_F(PolkitCalls, ItIsAllLookedAtAgain) {
  FakePolkit polkit(Says::kNothing);
  const std::uint64_t call =
      bob_->Send("UnpublishVolume", "ssa{sv}", "web", "data", 0);
  bob_->Fence();
  ASSERT_TRUE(AwaitQuestions(polkit, 1));
  EXPECT_FALSE(bob_->answered(call));
  // No other call waits meanwhile, not even one on the same object.
  ASSERT_TRUE(Release(*alice_).ok());
  polkit.Answer(Says::kYes);
  EXPECT_EQ(bob_->Await(call).error, "org.mountd1.Error.NotFound");
}

TEST_F(PolkitCalls, NothingIsDoneForWhoHasGone) {
  FakePolkit polkit(Says::kNothing);
  bob_->Send("ReleaseAllocation", "sa{sv}", "web", 0);
  bob_->Fence();
  ASSERT_TRUE(AwaitQuestions(polkit, 1));
  bob_.reset();
  polkit.Answer(Says::kYes);
  const auto carol = ConnectBus(kBob);
  ASSERT_NE(carol, nullptr);
  carol->Fence();
  EXPECT_TRUE(Eventually([this] { return server().running() == 0; }));
  EXPECT_TRUE(StillThere());
}

TEST_F(PolkitCalls, OneUsersQuestionsAreBounded) {
  FakePolkit polkit(Says::kNothing);
  std::vector<std::uint64_t> calls;
  for (std::uint32_t i = 0; i < dbus::Polkit::kMaxQuestionsOfUser; ++i) {
    calls.push_back(bob_->Send("ReleaseAllocation", "sa{sv}", "web", 0));
  }
  ASSERT_TRUE(AwaitQuestions(polkit, calls.size()));
  const Answer more = Release(*bob_);
  EXPECT_EQ(more.error, kDenied);
  EXPECT_NE(more.message.find("too many polkit requests"), std::string::npos)
      << more.message;
  // The bound applies to this user alone.
  const auto stranger = ConnectBus(kStranger);
  ASSERT_NE(stranger, nullptr);
  const std::uint64_t other =
      stranger->Send("ReleaseAllocation", "sa{sv}", "web", 0);
  stranger->Fence();
  ASSERT_TRUE(AwaitQuestions(polkit, calls.size() + 1));
  polkit.Answer(Says::kNo);
  for (const std::uint64_t call : calls) {
    EXPECT_EQ(bob_->Await(call).error, kDenied);
  }
  EXPECT_EQ(stranger->Await(other).error, kDenied);
  polkit.Say(Says::kYes);
  EXPECT_TRUE(Release(*bob_).ok());
}

// The first call was allowed already, so a call that joins it needs no
// question.
TEST_F(PolkitCalls, TheSameCallJoinsWhatIsUnderWay) {
  FakePolkit polkit(Says::kYes);
  executor().script().Block("RemoveAllocation");
  const std::uint64_t first =
      bob_->Send("ReleaseAllocation", "sa{sv}", "web", 0);
  bob_->Fence();
  ASSERT_TRUE(executor().script().AwaitBlocked("RemoveAllocation"));
  const std::uint64_t second =
      bob_->Send("ReleaseAllocation", "sa{sv}", "web", 0);
  bob_->Fence();
  executor().script().UnblockAll();
  EXPECT_TRUE(bob_->Await(first).ok());
  EXPECT_TRUE(bob_->Await(second).ok());
  EXPECT_EQ(polkit.questions().size(), 1U);
}

// Another session of the user, for example one over the network, may not do
// what the session at the seat may. polkit's answer for one session does not
// apply to the other, even while the allowed call hangs.
TEST_F(PolkitCalls, AnotherSessionOfTheUserIsAskedAboutItself) {
  FakePolkit polkit(Says::kYes);
  // A naive mountd tells callers apart by their uid alone, as mountd tells
  // connections apart. To it two sessions are one connection.
  EXPECT_NAIVE(ReleaseByBoth(polkit, *bob_, *bob_).other.ok() &&
               polkit.questions().size() == 1);
  Prepare(*alice_);
  const auto other_session = ConnectBus(kBob);
  ASSERT_NE(other_session, nullptr);
  executor().script().FailNext("RemoveAllocation",
                               MakeError(Code::kInternal, "unlink", "web"));
  const Answers answers = ReleaseByBoth(polkit, *bob_, *other_session);
  EXPECT_FALSE(answers.allowed.ok());
  // The second call has not joined the first session's call.
  EXPECT_EQ(answers.other.error, kDenied);
  ASSERT_EQ(polkit.questions().size(), 3U);
  EXPECT_EQ(polkit.questions().back().sender, NameOf(*other_session));
}

TEST_F(PolkitCalls, ABusThatGoesTakesItsQuestionsAlong) {
  auto polkit = std::make_unique<FakePolkit>(Says::kNothing);
  bob_->Send("ReleaseAllocation", "sa{sv}", "web", 0);
  bob_->Fence();
  ASSERT_TRUE(AwaitQuestions(*polkit, 1));
  bus().Stop();
  EXPECT_TRUE(bob_->AwaitDisconnect());
  polkit.reset();
  const auto peer = ConnectPeer(kAlice);
  ASSERT_NE(peer, nullptr);
  EXPECT_TRUE(peer->Call("GetAllocation", "sa{sv}", "web", 0).ok());
  bus().Start();
  EXPECT_TRUE(Eventually([this] { return ServedOnTheBus(); }));
}

TEST_F(PolkitCalls, ItIsNotAskedAfterPolkitHasEnded) {
  auto polkit = std::make_unique<FakePolkit>(Says::kNothing);
  const std::uint64_t call =
      bob_->Send("ReleaseAllocation", "sa{sv}", "web", 0);
  bob_->Fence();
  ASSERT_TRUE(AwaitQuestions(*polkit, 1));
  polkit.reset();
  EXPECT_EQ(bob_->Await(call).error, kDenied);
  EXPECT_TRUE(StillThere());
}

// mountd asks exactly about the installed actions.
TEST(PolkitPolicy, HasTheActionsThatAreAskedAbout) {
  std::ifstream file(MOUNTD_POLKIT_POLICY);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const std::regex action("<action id=\"([^\"]+)\">");
  std::set<std::string> installed;
  for (std::sregex_iterator at(text.begin(), text.end(), action), end;
       at != end; ++at) {
    installed.insert((*at)[1]);
  }
  std::set<std::string> asked;
  for (const dbus::AdministratorAction& one : dbus::AdministratorActions()) {
    asked.emplace(one.id);
  }
  EXPECT_EQ(installed, asked);
}

}  // namespace
}  // namespace mountd::test
