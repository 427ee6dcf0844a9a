// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The log line of a call names the rules that its answer rests on.
#include "mountd/base/decisions.h"

#include <gtest/gtest.h>

#include "mountd/service/services.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

constexpr std::uint64_t kCgroup = 77;

// The agent's rule is at line 10, the administrator's at line 20, and line 30
// has one more rule of the agent.
Config ConfigWithLines() {
  Config config = Core::DefaultConfig();
  RuleConfig more;
  for (RuleConfig& rule : config.rules) {
    rule.line = rule.administer ? 20 : 10;
    rule.cgroups = {"/agent"};
  }
  more.line = 30;
  more.uids = {Core::kAgent};
  more.alloc_roots = {"/srv/other"};
  more.host_namespaces = true;
  config.rules.push_back(more);
  return config;
}

class DecisionsTest : public CoreFixture {
 protected:
  DecisionsTest() : CoreFixture(ConfigWithLines()) {}
  void SetUp() override {
    executor().PutCgroup(kCgroup, "/agent/web");
    ASSERT_EQ(MessageOf(services().allocations.PrepareAllocation(
                  agent_, NameOf("web"), "", kCgroup)),
              "Ok");
    agent_ = Core::By(Core::kAgent);
  }

  static BindMountRequest Mount(const std::string& source) {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "task";
    spec.name = "m";
    spec.wish.source = source;
    return spec;
  }

  CallContext admin_ = Core::By(Core::kAdmin);
};

TEST_F(DecisionsTest, OfACallThatIsDeniedNoneIs) {
  Decisions decisions;
  decisions.AllowedByRule(12);
  decisions.AllowedByRule(9);
  EXPECT_EQ(decisions.Rules(), "9,12");
  decisions.Denied();
  EXPECT_EQ(decisions.Rules(), "");

  // The second of the two mounts is refused.
  BindMountRequest writable = Mount("logs");
  writable.name = "l";
  EXPECT_EQ(
      Outcome(services().mounts.BindMounts(agent_, {Mount("data"), writable})),
      "PermissionDenied");
  EXPECT_EQ(agent_.decisions->Rules(), "");
}

TEST_F(DecisionsTest, OneThatFailedOtherwiseWasAllowed) {
  executor().FailNext("Attach", Code::kBusy);
  EXPECT_EQ(Outcome(services().mounts.BindMount(agent_, Mount("data"))),
            "Busy");
  EXPECT_EQ(agent_.decisions->Rules(), "10");
}

TEST_F(DecisionsTest, WhoseNamespaceItIsMattersWhereOneIsGiven) {
  ASSERT_EQ(
      MessageOf(services().networks.SetupNetwork(agent_, NameOf("web"), {})),
      "Ok");
  EXPECT_EQ(agent_.decisions->Rules(), "10");
}

TEST_F(DecisionsTest, OfADirectoryAllThatMayHaveItAre) {
  const UniqueFd directory;
  ASSERT_EQ(Outcome(services().trees.RemoveTree(agent_, directory)), "Ok");
  EXPECT_EQ(agent_.decisions->Rules(), "10,30");
}

TEST_F(DecisionsTest, AnAdministratorsIsWhereOthersHaveSomething) {
  EXPECT_EQ(Outcome(services().node.ListOwed(admin_)), "Ok");
  EXPECT_EQ(admin_.decisions->Rules(), "");
  OwedRecord owed;
  owed.kind = OwedKind::kUnmount;
  owed.object = "web/task/m";
  owed.uid = Core::kAgent;
  ASSERT_EQ(Outcome(core_.state->owed.AddOwed(owed)), "Ok");
  EXPECT_EQ(services().node.ListOwed(admin_)->size(), 1U);
  EXPECT_EQ(admin_.decisions->Rules(), "20");
  EXPECT_EQ(services().node.ListOwed(Core::By(Core::kOther))->size(), 0U);
}

TEST_F(DecisionsTest, AnAdministratorsIsWhereProcessesOfOthersAre) {
  const auto mounted = services().mounts.BindMount(agent_, Mount("data"));
  ASSERT_EQ(MessageOf(mounted), "Ok");
  const auto holders = [&](const CallContext& call) {
    return services().tasks.ListHolders(call, NameOf("web"), NameOf("task"),
                                        NameOf("m"), exec::HolderScope::kNode);
  };
  const CallContext asking = Core::By(Core::kAgent);
  exec::Holder holder;
  holder.pid = 7;
  holder.uid = Core::kAgent;
  executor().AddHolder(mounted->record.mount_id, holder, 0);
  EXPECT_EQ(holders(asking)->holders.size(), 1U);
  EXPECT_EQ(asking.decisions->Rules(), "");
}

}  // namespace
}  // namespace mountd
