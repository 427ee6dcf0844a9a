// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Pending tear-downs: their objects, their owners and their end; and those that
// a start finds.
#include "mountd/service/teardowns.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "mountd/plan/wire.h"
#include "tests/support/matchers.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

class TeardownsTest : public CoreFixture {
 protected:
  void SetUp() override { Prepare("web"); }

  void Prepare(const std::string& allocation) {
    ASSERT_THAT(services().allocations.PrepareAllocation(
                    agent_, NameOf(allocation), ""),
                IsOk());
  }
  static BindMountRequest Spec(const std::string& name) {
    BindMountRequest spec;
    spec.allocation = "web";
    spec.task = "task";
    spec.name = name;
    spec.wish.source = "data";
    return spec;
  }
  void Bind(const std::string& name) {
    ASSERT_THAT(services().mounts.BindMount(agent_, Spec(name)), IsOk());
  }
  Result<void> Unmount(const std::string& name) {
    return services().mounts.Unmount(agent_, NameOf("web"), NameOf("task"),
                                     NameOf(name));
  }
  Result<ReceiptRecord> Release() {
    return services().allocations.ReleaseAllocation(agent_, NameOf("web"));
  }
  std::vector<OwedRecord> Owed() {
    return core_.state->owed.ListOwed().value();
  }
  OwedRecord Owe(OwedKind kind, const std::string& object) {
    EXPECT_THAT(
        core_.state->owed.AddOwed({0, kind, object, Core::kAgent, "why", 1, 1}),
        IsOk());
    return Owed().back();
  }
};

TEST_F(TeardownsTest, EachKindHasItsNameAndItsStrand) {
  const auto strand_of = [](OwedKind kind, const std::string& object) {
    return StrandOf({0, kind, object, 0, "", 1, 0});
  };
  EXPECT_EQ(OwedKindName(OwedKind::kRelease), "release");
  EXPECT_EQ(OwedKindName(OwedKind::kUnpublish), "unpublish");
  EXPECT_EQ(OwedKindName(OwedKind::kTeardownNetwork), "teardown-network");
  EXPECT_EQ(OwedKindName(OwedKind::kUnmount), "unmount");
  EXPECT_EQ(OwedKindName(OwedKind::kUnstage), "unstage");
  EXPECT_EQ(strand_of(OwedKind::kRelease, "web"), "allocation web");
  EXPECT_EQ(strand_of(OwedKind::kUnmount, "web/task/d"), "allocation web");
  EXPECT_EQ(strand_of(OwedKind::kUnstage, "nfs/v1"), "volume nfs/v1");
}

TEST_F(TeardownsTest, WhatIsOwedOfAnAllocationThatIsGoneIsForgotten) {
  for (const OwedKind kind : {OwedKind::kRelease, OwedKind::kUnpublish,
                              OwedKind::kTeardownNetwork, OwedKind::kUnmount}) {
    const OwedRecord owed = Owe(kind, "gone/what");
    EXPECT_THAT(services().node.RetryOwed(owed), IsOk());
    EXPECT_TRUE(Owed().empty());
  }
}

TEST_F(TeardownsTest, WhatWasDoneMeanwhileIsNotDoneAgain) {
  Bind("d");
  const OwedRecord owed = Owe(OwedKind::kUnmount, "web/task/d");
  ASSERT_THAT(core_.state->owed.RemoveOwed(owed.kind, owed.object), IsOk());
  EXPECT_THAT(services().node.RetryOwed(owed), IsOk());
  EXPECT_EQ(executor().script().Count("Detach"), 0U);
}

TEST_F(TeardownsTest, EachIsRetriedAsWhatItIs) {
  Bind("d");
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  executor().script().Forget();
  EXPECT_THAT(services().node.RetryOwed(Owe(OwedKind::kUnmount, "web/task/d")),
              IsOk());
  EXPECT_EQ(executor().script().Count("Detach web/task/d"), 1U);
  EXPECT_THAT(
      services().node.RetryOwed(Owe(OwedKind::kTeardownNetwork, "web/eth0")),
      IsOk());
  EXPECT_EQ(executor().script().Count("DeleteNetwork web"), 1U);
  EXPECT_THAT(services().node.RetryOwed(Owe(OwedKind::kUnpublish, "web/alias")),
              IsOk());
  EXPECT_TRUE(Owed().empty());
  EXPECT_THAT(services().node.RetryOwed(Owe(OwedKind::kRelease, "web")),
              IsOk());
  EXPECT_THAT(services().allocations.GetAllocation(agent_, NameOf("web")),
              IsErr(Code::kNotFound));
}

TEST_F(TeardownsTest, AnUnmountThatIsBusyIsNoDebtAndTellsByWhom) {
  Bind("d");
  executor().PutCgroup(7, "/agents/web");
  ASSERT_THAT(core_.state->allocations.SetAllocationCgroup("web", 7), IsOk());
  executor().SetBusy("web/task/d");
  // No process of the cgroup uses the mount, so the message names none.
  EXPECT_EQ(MessageOf(Unmount("d")).find("used by"), std::string::npos);
  exec::Holder holder;
  holder.pid = 42;
  holder.comm = {'s', 'h'};
  executor().AddHolder(executor().MountIdOf("web/task/d"), holder, 7);
  const Result<void> unmounted = Unmount("d");
  EXPECT_THAT(unmounted, IsErr(Code::kBusy));
  EXPECT_NE(MessageOf(unmounted).find("used by"), std::string::npos);
  EXPECT_TRUE(Owed().empty());
  // A release is pending, because it goes on.
  const auto released = Release();
  EXPECT_THAT(released, IsErr(Code::kBusy));
  EXPECT_NE(MessageOf(released).find("42"), std::string::npos);
  ASSERT_EQ(Owed().size(), 1U);
  EXPECT_EQ(Owed()[0].kind, OwedKind::kRelease);
}

TEST_F(TeardownsTest, OneThatCannotGoKeepsNoOther) {
  Bind("a");
  Bind("b");
  Bind("c");
  executor().SetBusy("web/task/a");
  executor().SetBusy("web/task/b");
  const auto released = Release();
  EXPECT_THAT(released, IsErr(Code::kBusy));
  // The error is that of the first failure, which was the last of those mounts.
  EXPECT_NE(MessageOf(released).find("web/task/b"), std::string::npos);
  EXPECT_EQ(executor().MountIdOf("web/task/c"), 0U);
}

TEST_F(TeardownsTest, AVolumeGoesBesideMountsOfOthers) {
  ASSERT_TRUE(core_.AddPlugin("nfs"));
  for (const char* alias : {"first", "second"}) {
    csi::PublishSpec publish;
    publish.allocation = "web";
    publish.alias = alias;
    publish.plugin = "nfs";
    publish.volume_id = alias;
    ASSERT_THAT(services().volumes.PublishVolume(agent_, publish, UniqueFd()),
                IsOk());
  }
  Bind("host");
  BindMountRequest spec = Spec("volume");
  spec.wish.source_kind = exec::SourceKind::kPublishedVolume;
  spec.wish.source = "second";
  ASSERT_THAT(services().mounts.BindMount(agent_, spec), IsOk());
  const auto unpublish = [&](const char* alias) {
    return Outcome(services().volumes.UnpublishVolume(agent_, NameOf("web"),
                                                      NameOf(alias)));
  };
  EXPECT_EQ(unpublish("first"), "Ok");
  EXPECT_EQ(unpublish("second"), "Busy");
  EXPECT_TRUE(Owed().empty());
}

// The caller got an error, and may never call again.
TEST_F(TeardownsTest, AMountThatCouldNotBeUndoneIsOwed) {
  executor().FailNext("Attach", Code::kInternal, FailWhen::kAfter);
  executor().FailNext("Detach", Code::kBusy);
  EXPECT_THAT(services().mounts.BindMount(agent_, Spec("d")),
              IsErr(Code::kInternal));
  ASSERT_EQ(Owed().size(), 1U);
  EXPECT_EQ(Owed()[0].kind, OwedKind::kUnmount);
  EXPECT_THAT(services().node.RetryOwed(Owed()[0]), IsOk());
  EXPECT_TRUE(Owed().empty());
  EXPECT_EQ(executor().MountIdOf("web/task/d"), 0U);
}

// ---- A user's plugins ----

TEST_F(TeardownsTest, APluginOfAnotherInstanceIsOneMore) {
  const auto add = [&](const char* type, const char* allocation) {
    PluginRecord record;
    record.id = "nfs";
    record.type = type;
    record.allocation = allocation;
    return Outcome(services().plugins.RegisterPlugin(agent_, record));
  };
  EXPECT_EQ(add("node", ""), "Ok");
  EXPECT_EQ(add("node", ""), "Ok");
  EXPECT_EQ(add("controller", ""), "Ok");
  EXPECT_EQ(add("node", "web"), "Ok");
  EXPECT_EQ(core_.plugins->Get("nfs")->instances.size(), 3U);
  EXPECT_THAT(services().plugins.UnregisterPlugin(agent_, NameOf("nowhere")),
              IsOk());
}

TEST_F(TeardownsTest, APluginThatRootDeclaresIsNoUsersToRegister) {
  Config config = Core::DefaultConfig();
  config.plugins["nfs"].type = "node";
  Core core(config);
  PluginRecord record;
  record.id = "nfs";
  record.type = "node";
  EXPECT_THAT(core.services->plugins.RegisterPlugin(agent_, record),
              IsErr(Code::kFailedPrecondition));
}

// ---- Tear-downs that a start finds ----

TEST_F(TeardownsTest, AStartOwesWhatWasCutOffAndNothingElse) {
  Bind("there");
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  EXPECT_THAT(services().recovery.OweCutOff(), IsOk());
  EXPECT_TRUE(Owed().empty());

  MountRecord record = RecordOf(Spec("cut"));
  record.state = MountRecordState::kAttaching;
  ASSERT_THAT(core_.boot->mounts.PutMount(record), IsOk());
  record = RecordOf(Spec("going"));
  record.state = MountRecordState::kDetaching;
  // The allocation of this record exists no more.
  record.allocation = "lost";
  ASSERT_THAT(core_.boot->mounts.PutMount(record), IsOk());
  NetworkRecord network = core_.boot->networks.ListNetworks()->front();
  network.state = NetworkRecordState::kDeleting;
  ASSERT_THAT(core_.boot->networks.SetNetworkState(network), IsOk());
  EXPECT_THAT(services().recovery.OweCutOff(), IsOk());
  std::vector<std::string> owed;
  for (const OwedRecord& one : Owed()) {
    owed.push_back(std::string(OwedKindName(one.kind)) + " " + one.object +
                   " of " + std::to_string(one.uid));
  }
  std::sort(owed.begin(), owed.end());
  EXPECT_EQ(owed, (std::vector<std::string>{"teardown-network web/eth0 of 1000",
                                            "unmount lost/task/going of 0",
                                            "unmount web/task/cut of 1000"}));
}

// An allocation that cannot be prepared prevents neither mountd's start nor the
// others'.
TEST_F(TeardownsTest, AStartGoesOnWhereOneAllocationCannotBePrepared) {
  Prepare("db");
  for (const char* allocation : {"web", "db"}) {
    ASSERT_THAT(core_.mounts->PrepareInbox({allocation, "task"}), IsOk());
  }
  executor().script().Forget();
  executor().FailNext("PrepareAllocation", Code::kInternal);
  executor().FailNext("PrepareInbox", Code::kInternal);
  EXPECT_THAT(services().recovery.Recover(), IsOk());
  EXPECT_EQ(executor().script().Count("PrepareAllocation"), 2U);
  EXPECT_EQ(executor().script().Count("PrepareInbox"), 2U);
}

// A mount that no executor could look at counts neither as lost nor as there.
TEST_F(TeardownsTest, AMountThatNobodyCouldLookAtStaysAsItIs) {
  Bind("d");
  executor().FailNext("InspectTarget", Code::kUnavailable);
  EXPECT_THAT(core_.mounts->Recover(), IsOk());
  EXPECT_EQ(core_.boot->mounts.GetMount("web", "task", "d").value()->state,
            MountRecordState::kAttached);
}

}  // namespace
}  // namespace mountd
