// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The log line of a call names the rules that its answer rests on.
#include "mountd/base/decisions.h"

#include <gtest/gtest.h>

#include "mountd/service/services.h"
#include "tests/support/matchers.h"
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
    ASSERT_THAT(services().allocations.PrepareAllocation(agent_, NameOf("web"),
                                                         "", kCgroup),
                IsOk());
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
  EXPECT_THAT(services().mounts.BindMounts(agent_, {Mount("data"), writable}),
              IsErr(Code::kPermissionDenied));
  EXPECT_EQ(agent_.decisions->Rules(), "");
}

TEST_F(DecisionsTest, OneThatFailedOtherwiseWasAllowed) {
  executor().FailNext("Attach", Code::kBusy);
  EXPECT_THAT(services().mounts.BindMount(agent_, Mount("data")),
              IsErr(Code::kBusy));
  EXPECT_EQ(agent_.decisions->Rules(), "10");
}

TEST_F(DecisionsTest, WhoseNamespaceItIsMattersWhereOneIsGiven) {
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  EXPECT_EQ(agent_.decisions->Rules(), "10");
}

TEST_F(DecisionsTest, OfADirectoryAllThatMayHaveItAre) {
  const UniqueFd directory;
  ASSERT_THAT(services().trees.RemoveTree(agent_, directory), IsOk());
  EXPECT_EQ(agent_.decisions->Rules(), "10,30");
}

TEST_F(DecisionsTest, AnAdministratorsIsWhereOthersHaveSomething) {
  EXPECT_THAT(services().node.ListOwed(admin_), IsOk());
  EXPECT_EQ(admin_.decisions->Rules(), "");
  OwedRecord owed;
  owed.kind = OwedKind::kUnmount;
  owed.object = "web/task/m";
  owed.uid = Core::kAgent;
  ASSERT_THAT(core_.state->owed.AddOwed(owed), IsOk());
  EXPECT_EQ(services().node.ListOwed(admin_)->size(), 1U);
  EXPECT_EQ(admin_.decisions->Rules(), "20");
  EXPECT_EQ(services().node.ListOwed(Core::By(Core::kOther))->size(), 0U);
}

// The log tells whose data an administrator has read.
TEST_F(DecisionsTest, WhatAnAdministratorReadsOfOthersIsRecorded) {
  const auto others = [](const auto& read) {
    const CallContext call = Core::By(Core::kAdmin);
    EXPECT_THAT(read(call), IsOk());
    return call.decisions->Others();
  };
  const std::string agent = std::to_string(Core::kAgent);
  EXPECT_EQ(others([this](const CallContext& call) {
              return services().allocations.GetAllocation(call, NameOf("web"));
            }),
            agent);
  EXPECT_EQ(others([this](const CallContext& call) {
              return services().allocations.ListAllocations(call);
            }),
            agent);
  EXPECT_EQ(others([this](const CallContext& call) {
              return services().volumes.ListVolumes(call);
            }),
            "");
  LeaseRecord lease;
  lease.key.name = "lease";
  lease.allocation = "web";
  lease.kind = LeaseKind::kHeartbeat;
  lease.timeout_ms = 60'000;
  ASSERT_THAT(services().lease_verbs.AcquireLease(Core::By(Core::kAgent), lease,
                                                  nullptr),
              IsOk());
  EXPECT_EQ(others([this](const CallContext& call) {
              return services().lease_verbs.ListLeases(call);
            }),
            agent);
  EXPECT_EQ(others([this](const CallContext& call) {
              return services().grants.ListHostVolumes(call,
                                                       {.uid = Core::kAgent});
            }),
            agent);
  const GrantsOf everybody{.all_users = true};
  EXPECT_EQ(others([&](const CallContext& call) {
              return services().grants.ListHostVolumes(call, everybody);
            }),
            "all");
  EXPECT_EQ(others([&](const CallContext& call) {
              return services().grants.ListFilesystems(call, everybody);
            }),
            "all");
  EXPECT_EQ(others([&](const CallContext& call) {
              return services().grants.ListNetworks(call, everybody);
            }),
            "all");
  EXPECT_EQ(others([this](const CallContext& call) {
              return services().grants.ListHostVolumes(call);
            }),
            "");
  EXPECT_THAT(services().grants.ListHostVolumes(agent_, everybody),
              IsErr(Code::kPermissionDenied));
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  EXPECT_EQ(others([this](const CallContext& call) {
              return services().plugins.ListPlugins(call);
            }),
            agent);
  // Nobody's own data are others'.
  EXPECT_THAT(services().allocations.ListAllocations(agent_), IsOk());
  EXPECT_THAT(services().plugins.ListPlugins(agent_), IsOk());
  EXPECT_EQ(services().lease_verbs.ListLeases(agent_)->size(), 1U);
  EXPECT_EQ(agent_.decisions->Others(), "");
  EXPECT_EQ(agent_.decisions->Rules(), "");
}

TEST_F(DecisionsTest, ManyOthersAreCutShort) {
  Decisions decisions;
  for (std::uint32_t uid = 1; uid <= 100; ++uid) {
    decisions.UsedAsAdministrator(uid);
  }
  EXPECT_EQ(decisions.Others(), "1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,...");
  decisions.UsedAllAsAdministrator();
  EXPECT_EQ(decisions.Others(), "all");
  decisions.Denied();
  EXPECT_EQ(decisions.Others(), "");
  decisions.Denied();
  EXPECT_EQ(decisions.Others(), "");
}

TEST_F(DecisionsTest, AnAdministratorsIsWhereProcessesOfOthersAre) {
  const auto mounted = services().mounts.BindMount(agent_, Mount("data"));
  ASSERT_THAT(mounted, IsOk());
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
