// SPDX-License-Identifier: LGPL-2.1-or-later
// An fd that was handed out is listed for as long as a process has it.
#include <gtest/gtest.h>

#include "mountd/service/services.h"
#include "tests/support/fakes/failing_store.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

constexpr std::uint64_t kCgroupOfWeb = 77;  // /agent/web

Config HandedOutConfig() {
  Config config = Core::DefaultConfig();
  config.rules[0].cgroups = {"/agent"};
  config.limits.mounts_per_allocation = 2;
  config.limits.mounts_per_uid = 3;
  return config;
}

class HandedOutTest : public CoreFixture {
 protected:
  HandedOutTest() : CoreFixture(HandedOutConfig()) {
    executor().PutCgroup(kCgroupOfWeb, "/agent/web");
    Prepare("web", Core::kAgent, kCgroupOfWeb);
  }
  void Prepare(const std::string& allocation, std::uint32_t uid = Core::kAgent,
               std::uint64_t cgroup = 0) {
    EXPECT_THAT(services().allocations.PrepareAllocation(
                    Core::By(uid), NameOf(allocation), "", cgroup),
                IsOk());
  }
  void Release(const std::string& allocation,
               std::uint32_t uid = Core::kAgent) {
    EXPECT_THAT(services().allocations.ReleaseAllocation(Core::By(uid),
                                                         NameOf(allocation)),
                IsOk());
  }
  std::string Open(const std::string& allocation = "web",
                   std::uint32_t uid = Core::kAgent) {
    BindMountRequest spec;
    spec.allocation = allocation;
    spec.wish.source = "data";
    return Outcome(services().mounts.OpenTree(Core::By(uid), spec));
  }
  // Adds a process that has the last fd that was handed out.
  void Hold(std::uint32_t pid, std::uint32_t uid = Core::kAgent,
            std::uint64_t cgroup = 0) {
    exec::Holder holder;
    holder.pid = pid;
    holder.uid = uid;
    holder.kind = exec::HolderKind::kFd;
    executor().AddHolder(executor().last_handed_out(), holder, cgroup);
  }
  Result<HandedOutReport> List(const std::string& allocation = "web",
                               std::uint32_t uid = Core::kAgent) {
    return services().tasks.ListHandedOut(Core::By(uid), NameOf(allocation));
  }
  // Returns how many fds are listed; -1 for an error.
  int Listed(const std::string& allocation = "web",
             std::uint32_t uid = Core::kAgent) {
    const auto list = List(allocation, uid);
    return list ? static_cast<int>(list->descriptors.size()) : -1;
  }
};

TEST_F(HandedOutTest, IsListedUntilNobodyHasIt) {
  EXPECT_EQ(Listed(), 0);
  ASSERT_EQ(Open(), "Ok");
  Hold(10);
  ASSERT_THAT(services().inboxes.PrepareInbox(Core::By(Core::kAgent),
                                              {"web", "task"}, true),
              IsOk());
  Hold(11);
  core_.Restart();
  const auto list = List();
  ASSERT_THAT(list, IsOk());
  EXPECT_TRUE(list->complete);
  ASSERT_EQ(list->descriptors.size(), 2U);
  const HandedOutReport::Descriptor& tree = list->descriptors[0];
  EXPECT_EQ(tree.record.kind, HandedOutKind::kDetached);
  EXPECT_EQ(tree.record.name, "data");
  ASSERT_EQ(tree.holders.holders.size(), 1U);
  EXPECT_EQ(tree.holders.holders[0].pid, 10U);
  EXPECT_TRUE(tree.holders.complete);
  const HandedOutReport::Descriptor& inbox = list->descriptors[1];
  EXPECT_EQ(inbox.record.kind, HandedOutKind::kInbox);
  EXPECT_EQ(inbox.record.name, "task");
  ASSERT_EQ(inbox.holders.holders.size(), 1U);
  EXPECT_EQ(inbox.holders.holders[0].pid, 11U);
  executor().EndProcesses();
  EXPECT_EQ(Listed(), 0);
  EXPECT_TRUE(core_.boot->handed_out.HandedOutOf("web")->empty());
}

// Every process of the host can open the namespace by its path, so the fd needs
// no rule (detached). It still counts and is listed, because it outlives the
// release.
TEST_F(HandedOutTest, ANamespaceIsListedAndOnlyItsUsers) {
  const auto get = [&](std::uint32_t uid, bool open) {
    return Outcome(
        services().networks.GetNetwork(Core::By(uid), NameOf("web"), "", open));
  };
  EXPECT_EQ(get(Core::kAgent, true), "NotFound");
  NetworkRequest alone;
  alone.mode = NetworkMode::kNone;
  ASSERT_THAT(services().networks.SetupNetwork(Core::By(Core::kAgent),
                                               NameOf("web"), alone),
              IsOk());
  EXPECT_EQ(get(Core::kAgent, false), "Ok");
  EXPECT_EQ(Listed(), 0);
  EXPECT_EQ(get(Core::kOther, false), "PermissionDenied");
  EXPECT_EQ(get(Core::kOther, true), "PermissionDenied");
  EXPECT_EQ(get(Core::kAdmin, false), "Ok");
  EXPECT_EQ(get(Core::kAdmin, true), "PermissionDenied");
  EXPECT_EQ(executor().script().Count("OpenNamespace"), 0U);
  ASSERT_EQ(get(Core::kAgent, true), "Ok");
  Hold(10);
  Release("web");
  core_.Restart();
  const auto list = List();
  ASSERT_THAT(list, IsOk());
  ASSERT_EQ(list->descriptors.size(), 1U);
  EXPECT_EQ(list->descriptors[0].record.kind, HandedOutKind::kNamespace);
  ASSERT_EQ(list->descriptors[0].holders.holders.size(), 1U);
  EXPECT_EQ(list->descriptors[0].holders.holders[0].pid, 10U);
  executor().EndProcesses();
  EXPECT_EQ(Listed(), 0);
}

TEST_F(HandedOutTest, NamespacesCountAgainstTheLimit) {
  NetworkRequest alone;
  alone.mode = NetworkMode::kNone;
  const auto open = [&] {
    return Outcome(services().networks.GetNetwork(Core::By(Core::kAgent),
                                                  NameOf("web"), "", true));
  };
  ASSERT_THAT(services().networks.SetupNetwork(Core::By(Core::kAgent),
                                               NameOf("web"), alone),
              IsOk());
  for (std::uint32_t pid = 10; pid < 12; ++pid) {
    ASSERT_EQ(Open(), "Ok");
    Hold(pid);
  }
  EXPECT_EQ(open(), "ResourceExhausted");
  executor().EndProcesses();
  EXPECT_EQ(open(), "Ok");
}

TEST_F(HandedOutTest, IsListedAfterTheRelease) {
  ASSERT_EQ(Open(), "Ok");
  Hold(10);
  Release("web");
  EXPECT_EQ(Listed(), 1);
  EXPECT_EQ(Listed("web", Core::kAdmin), 1);
  EXPECT_THAT(List("web", Core::kOther), IsErr(Code::kPermissionDenied));
  executor().EndProcesses();
  EXPECT_EQ(Listed(), 0);
  EXPECT_THAT(List("other"), IsErr(Code::kNotFound));
}

TEST_F(HandedOutTest, IsNotListedToTheNextOwnerOfTheName) {
  ASSERT_EQ(Open(), "Ok");
  Hold(10);
  Release("web");
  Prepare("web");
  EXPECT_EQ(Listed(), 1);
  ASSERT_THAT(
      core_.boot->handed_out.PutHandedOut({{1, 2, 3}, "web", Core::kOther}),
      IsOk());
  executor().AddHolder(1, {});
  EXPECT_EQ(Listed(), 1);
  EXPECT_EQ(Listed("web", Core::kOther), 1);
  EXPECT_EQ(Listed("web", Core::kAdmin), 2);
}

TEST_F(HandedOutTest, ASearchThatMissedSomeForgetsNothing) {
  ASSERT_EQ(Open(), "Ok");
  executor().SetBlind(true);
  const auto list = List();
  ASSERT_EQ(list->descriptors.size(), 1U);
  EXPECT_FALSE(list->descriptors[0].holders.complete);
  executor().SetBlind(false);
  executor().FailNext("FindHolders", Code::kUnavailable);
  EXPECT_THAT(List(), IsErr(Code::kUnavailable));
  EXPECT_EQ(core_.boot->handed_out.HandedOutOf("web")->size(), 1U);
  EXPECT_EQ(Listed(), 0);
}

TEST_F(HandedOutTest, OfOthersProcessesOnlyAdministratorsAreToldMore) {
  ASSERT_EQ(Open(), "Ok");
  Hold(10, 4321);
  Hold(11, 4321, kCgroupOfWeb);
  const auto list = List();
  ASSERT_EQ(list->descriptors.size(), 1U);
  ASSERT_EQ(list->descriptors[0].holders.holders.size(), 2U);
  EXPECT_FALSE(list->descriptors[0].holders.holders[0].details.has_value());
  EXPECT_TRUE(list->descriptors[0].holders.holders[1].details.has_value());
  const auto all = List("web", Core::kAdmin);
  EXPECT_TRUE(all->descriptors[0].holders.holders[0].details.has_value());
}

TEST_F(HandedOutTest, ACgroupThatIsGoneHidesNobody) {
  ASSERT_EQ(Open(), "Ok");
  Hold(10);
  ASSERT_THAT(core_.state->allocations.SetAllocationCgroup("web", 78), IsOk());
  EXPECT_EQ(Listed(), 1);
}

TEST_F(HandedOutTest, WithoutUniqueIdsNothingIsListed) {
  executor().TakeUniqueIds();
  ASSERT_EQ(Open(), "Ok");
  const auto list = List();
  ASSERT_THAT(list, IsOk());
  EXPECT_FALSE(list->complete);
  EXPECT_TRUE(list->descriptors.empty());
}

TEST_F(HandedOutTest, MoreThanTheLimitsIsResourceExhaustedWhileTheyAreHeld) {
  Prepare("db");
  ASSERT_EQ(Open(), "Ok");
  Hold(10);
  ASSERT_EQ(Open(), "Ok");
  ASSERT_EQ(Open(), "Ok");  // no process has the one before
  Hold(11);
  EXPECT_EQ(core_.boot->handed_out.CountHandedOut("web").value(), 2U);
  const auto inbox = services().inboxes.PrepareInbox(Core::By(Core::kAgent),
                                                     {"web", "task"}, true);
  EXPECT_THAT(inbox, IsErr(Code::kResourceExhausted));
  EXPECT_NE(MessageOf(inbox).find("limits.mounts_per_allocation"),
            std::string::npos);
  ASSERT_EQ(Open("db"), "Ok");
  Hold(12);
  EXPECT_EQ(Open("db"), "ResourceExhausted");
  Prepare("others", Core::kOther);
  EXPECT_EQ(Open("others", Core::kOther), "Ok");
  Release("web");
  EXPECT_EQ(Open("db"), "ResourceExhausted");
  executor().EndProcesses();
  EXPECT_EQ(Open("db"), "Ok");
  EXPECT_EQ(core_.boot->handed_out.CountHandedOutOfUser(Core::kAgent).value(),
            1U);
}

TEST_F(HandedOutTest, WhatCannotBeRecordedIsNotHandedOut) {
  {
    const FailingWrites failing(core_.boot->database(), "INSERT", "handed_out");
    EXPECT_NE(Open(), "Ok");
    EXPECT_EQ(executor().script().Count("OpenTree"), 1U);
  }
  EXPECT_EQ(core_.boot->handed_out.CountHandedOut("web").value(), 0U);
}

}  // namespace
}  // namespace mountd
