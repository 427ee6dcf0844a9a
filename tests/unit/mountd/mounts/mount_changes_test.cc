// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>

#include "mountd/mounts/mounts.h"
#include "mountd/plan/wire.h"
#include "tests/support/fakes/core.h"
#include "tests/support/full_disk.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/mounts/mounts_test.h"

// Sets of mounts, replacements and inboxes; mounts_test.cc has single mounts.
namespace mountd {
namespace {

class MountChanges : public MountsTest {
 protected:
  // Returns all objects once nothing is left to be tried again.
  std::vector<std::string> Existing() {
    mounts().ReleaseLeftAnchors();
    return executor().Existing();
  }
};

TEST_F(MountChanges, ASetIsMountedWholeOrNotAtAll) {
  ASSERT_EQ(MessageOf(Bind(Spec("kept", "data"))), "Ok");
  const std::vector<std::string> before = Existing();
  const std::vector<BindMountRequest> set = {
      Spec("kept", "data"), Spec("a", "data"), Spec("b", "other"),
      Spec("c", "data")};
  for (const auto when : {FailWhen::kBefore, FailWhen::kAfter}) {
    executor().FailNext("Attach", Code::kInternal, when);
    EXPECT_EQ(Outcome(mounts().Bind(set)), "Internal");
    EXPECT_EQ(Existing(), before);
    EXPECT_EQ(mounts().Of("web")->size(), 1U);
  }
  const auto bound = mounts().Bind(set);
  ASSERT_EQ(MessageOf(bound), "Ok");
  EXPECT_EQ(bound->size(), 4U);
  EXPECT_EQ(bound->at(2).record.wish.source, "other");
  EXPECT_EQ(mounts().Of("web")->size(), 4U);
}

TEST_F(MountChanges, WhatOfASetWasMadeBeforeTheFailureIsUndone) {
  ASSERT_EQ(MessageOf(Bind(Spec("kept", "data"))), "Ok");
  const std::vector<std::string> before = Existing();
  BindMountRequest other = Spec("kept", "data");
  other.wish.attributes = exec::kReadOnly;
  EXPECT_EQ(
      Outcome(mounts().Bind({Spec("a", "data"), Spec("b", "other"), other})),
      "AlreadyExists");
  EXPECT_EQ(Outcome(mounts().Bind({Spec("a", "data"), Spec("a", "other")})),
            "InvalidArgument");
  EXPECT_EQ(Existing(), before);
  EXPECT_EQ(mounts().Of("web")->size(), 1U);
}

TEST_F(MountChanges, ASetThatWasCutOffIsTakenAwayAtTheStart) {
  const std::vector<std::string> before = Existing();
  for (const char* name : {"a", "b"}) {
    ASSERT_EQ(MessageOf(Bind(Spec(name, "data"))), "Ok");
    // The record is as after SIGKILL between the last plan and the store's last
    // write.
    MountRecord intent = *RecordOf(name);
    intent.state = MountRecordState::kAttaching;
    ASSERT_TRUE(boot().mounts.PutMount(intent));
  }
  ASSERT_TRUE(mounts().Recover());
  EXPECT_EQ(Existing(), before);
  EXPECT_EQ(mounts().Of("web")->size(), 0U);
}

TEST_F(MountChanges, AReplacementHasItsOwnRecordAndFreesTheOldSource) {
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  const std::uint64_t old = executor().MountIdOf("web/task/d");
  const auto replaced = mounts().Replace(Spec("d", "other"));
  ASSERT_EQ(MessageOf(replaced), "Ok");
  EXPECT_EQ(replaced->old_mount_id, old);
  EXPECT_NE(replaced->config.record.mount_id, old);
  EXPECT_EQ(RecordOf("d")->wish.source, "other");
  EXPECT_EQ(RecordOf("d")->state, MountRecordState::kAttached);
  EXPECT_EQ(executor().AnchorOf("data"), 0U);
  // The same call again has nothing to do.
  EXPECT_EQ(mounts().Replace(Spec("d", "other"))->old_mount_id, 0U);
}

TEST_F(MountChanges, AReplacementThatFailsLeavesTheOldMount) {
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  const MountRecord before = *RecordOf("d");
  const std::vector<std::string> existing = Existing();
  executor().FailNext("Attach", Code::kFailedPrecondition, FailWhen::kBefore);
  EXPECT_EQ(Outcome(mounts().Replace(Spec("d", "other"))),
            "FailedPrecondition");
  EXPECT_EQ(RecordOf("d")->state, MountRecordState::kAttached);
  EXPECT_EQ(RecordOf("d")->mount_id, before.mount_id);
  EXPECT_EQ(Existing(), existing);
}

TEST_F(MountChanges, AReplacementWithoutAnIntentHasNoPlan) {
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  const std::size_t plans = executor().plans().size();
  {
    const FullDisk full;
    EXPECT_NE(Outcome(mounts().Replace(Spec("d", "other"))), "Ok");
  }
  EXPECT_EQ(executor().plans().size(), plans);
  EXPECT_EQ(RecordOf("d")->state, MountRecordState::kAttached);
  EXPECT_EQ(RecordOf("d")->wish.source, "data");
  EXPECT_EQ(boot().anchors.ListAnchors()->size(), 1U);
}

// The volume's anchor is beneath another program's mount, and has a user.
TEST_F(MountChanges, AReplacementThatFindsNoAnchorForgetsNone) {
  const std::vector<std::string> before = Existing();
  ASSERT_EQ(MessageOf(Bind(Spec("a", "data"))), "Ok");
  ASSERT_EQ(MessageOf(Bind(Spec("d", "other"))), "Ok");
  executor().SetOwnMount("data");
  ASSERT_EQ(MessageOf(mounts().Replace(Spec("d", "data"))), "Ok");
  for (const char* name : {"a", "d"}) {
    ASSERT_EQ(MessageOf(Unmount(name)), "Ok");
  }
  EXPECT_EQ(Existing(), before);
}

TEST_F(MountChanges, AReplacementWithoutAnAnswerIsFinishedByTheSameCall) {
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  executor().FailNext("Attach", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_EQ(Outcome(mounts().Replace(Spec("d", "other"))), "Unavailable");
  EXPECT_EQ(RecordOf("d")->state, MountRecordState::kReplacing);
  ASSERT_TRUE(mounts().Recover());
  EXPECT_EQ(RecordOf("d")->state, MountRecordState::kReplacing);
  ASSERT_EQ(MessageOf(mounts().Replace(Spec("d", "other"))), "Ok");
  EXPECT_EQ(RecordOf("d")->mount_id, executor().MountIdOf("web/task/d"));
  EXPECT_EQ(RecordOf("d")->state, MountRecordState::kAttached);
}

TEST_F(MountChanges, AReplacementWithoutAnAnswerIsUndoneByUnmount) {
  const std::vector<std::string> before = Existing();
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  executor().FailNext("Attach", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_EQ(Outcome(mounts().Replace(Spec("d", "other"))), "Unavailable");
  ASSERT_EQ(MessageOf(Unmount("d")), "Ok");
  EXPECT_EQ(Existing(), before);
  EXPECT_FALSE(RecordOf("d"));
}

TEST_F(MountChanges, AReplacementWithoutAnAnswerDoesNotDoubtTheOldSource) {
  ASSERT_EQ(MessageOf(Bind(Spec("kept", "data"))), "Ok");
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  executor().FailNext("Attach", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_EQ(Outcome(mounts().Replace(Spec("d", "other"))), "Unavailable");
  ASSERT_EQ(MessageOf(Unmount("d")), "Ok");
  EXPECT_EQ(
      boot().anchors.ListAnchors()->at({exec::SourceKind::kHostVolume, "data"}),
      executor().AnchorOf("data"));
}

TEST_F(MountChanges, ARepairMountsTheSameAgain) {
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  const std::uint64_t old = executor().MountIdOf("web/task/d");
  const auto repaired = mounts().Repair(RequestOf(*RecordOf("d")));
  ASSERT_EQ(MessageOf(repaired), "Ok");
  EXPECT_EQ(repaired->old_mount_id, old);
  EXPECT_NE(executor().MountIdOf("web/task/d"), old);
  EXPECT_EQ(RecordOf("d")->mount_id, executor().MountIdOf("web/task/d"));
  // A mount that another program has removed is mounted again, reported or not.
  executor().LoseMount("web/task/d");
  ASSERT_EQ(MessageOf(mounts().Repair(RequestOf(*RecordOf("d")))), "Ok");
  EXPECT_EQ(RecordOf("d")->mount_id, executor().MountIdOf("web/task/d"));
  EXPECT_EQ(Outcome(mounts().Repair(Spec("none", "data"))), "NotFound");
}

TEST_F(MountChanges, ARepairThatFailsLeavesWhatIsThere) {
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  const std::uint64_t old = executor().MountIdOf("web/task/d");
  executor().FailNext("Attach", Code::kNotFound, FailWhen::kBefore);
  EXPECT_EQ(Outcome(mounts().Repair(RequestOf(*RecordOf("d")))), "NotFound");
  EXPECT_EQ(executor().MountIdOf("web/task/d"), old);
  EXPECT_EQ(RecordOf("d")->state, MountRecordState::kAttached);
}

BindMountRequest OfFilesystem(const std::string& name) {
  BindMountRequest spec = Spec(name, "homes");
  spec.wish.source_kind = exec::SourceKind::kFilesystem;
  return spec;
}

TEST_F(MountChanges, ARepairOfADeadFilesystemMountsItAnewForAll) {
  const std::vector<std::string> before = Existing();
  ASSERT_EQ(MessageOf(mounts().Bind({OfFilesystem("a"), OfFilesystem("b")})),
            "Ok");
  const AnchorKey key{exec::SourceKind::kFilesystem, "homes"};
  const std::uint64_t dead = executor().AnchorOf("file system homes");
  const std::uint64_t others = executor().MountIdOf("web/task/b");
  executor().SetHealth("file system homes", exec::MountHealth::kDead);
  ASSERT_EQ(MessageOf(mounts().Repair(OfFilesystem("a"))), "Ok");
  const std::uint64_t alive = executor().AnchorOf("file system homes");
  EXPECT_NE(alive, dead);
  EXPECT_EQ(boot().anchors.ListAnchors()->at(key), alive);
  EXPECT_EQ(executor().MountIdOf("web/task/b"), others);
  ASSERT_EQ(MessageOf(Bind(OfFilesystem("c"))), "Ok");
  ASSERT_EQ(MessageOf(mounts().Repair(OfFilesystem("b"))), "Ok");
  EXPECT_NE(executor().MountIdOf("web/task/b"), others);
  EXPECT_EQ(executor().AnchorOf("file system homes"), alive);
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(executor().AnchorOf("file system homes"), alive);
    ASSERT_EQ(MessageOf(Unmount(name)), "Ok");
  }
  EXPECT_EQ(Existing(), before);
}

// mountd does not know which mount is there now.
TEST_F(MountChanges, AFilesystemMountedAnewWithoutAnAnswerIsReleasedToo) {
  const std::vector<std::string> before = Existing();
  ASSERT_EQ(MessageOf(Bind(OfFilesystem("a"))), "Ok");
  executor().SetHealth("file system homes", exec::MountHealth::kDead);
  executor().FailNext("Attach", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_EQ(Outcome(mounts().Repair(OfFilesystem("a"))), "Unavailable");
  ASSERT_TRUE(mounts().Recover());
  ASSERT_EQ(MessageOf(Unmount("a")), "Ok");
  EXPECT_EQ(Existing(), before);
}

TEST_F(MountChanges, OnlyWhatIsMountedInAnInboxCanBeReplaced) {
  EXPECT_EQ(Outcome(mounts().Replace(Spec("d", "data"))), "NotFound");
  BindMountRequest spec = Spec("d", "data");
  spec.wish.target_kind = exec::TargetKind::kDirectory;
  spec.wish.place = "/var/lib/agent/web";
  ASSERT_EQ(MessageOf(Bind(spec)), "Ok");
  EXPECT_EQ(Outcome(mounts().Replace(Spec("d", "other"))), "NotSupported");
  EXPECT_EQ(ConfigOf(*RecordOf("d")).host_path, "/var/lib/agent/web");
  // A mount of another directory is another mount.
  EXPECT_EQ(Outcome(Bind(Spec("d", "data"))), "AlreadyExists");
}

// A container's mounts go with it, and no event reports that.
TEST_F(MountChanges, AContainersNextIsMountedAnew) {
  BindMountRequest spec = Spec("d", "data");
  spec.wish.target_kind = exec::TargetKind::kContainer;
  spec.wish.place = "4026532000";
  ASSERT_EQ(MessageOf(Bind(spec)), "Ok");
  const std::uint64_t first = RecordOf("d")->mount_id;
  ASSERT_EQ(MessageOf(Bind(spec)), "Ok");
  EXPECT_EQ(RecordOf("d")->mount_id, first);
  EXPECT_EQ(ConfigOf(*RecordOf("d")).host_path, "");
  BindMountRequest next = spec;
  next.wish.place = "4026532001";
  EXPECT_EQ(Outcome(Bind(next)), "AlreadyExists");
  executor().LoseMount("web/task/d");
  ASSERT_EQ(MessageOf(Bind(next)), "Ok");
  EXPECT_NE(RecordOf("d")->mount_id, first);
  // The kernel may reuse the namespace's inode.
  executor().LoseMount("web/task/d");
  ASSERT_EQ(MessageOf(Bind(next)), "Ok");
  EXPECT_EQ(RecordOf("d")->mount_id, executor().MountIdOf("web/task/d"));
  EXPECT_EQ(Outcome(mounts().Replace(Spec("d", "other"))), "NotSupported");
}

TEST_F(MountChanges, AnInboxStaysUntilItIsRemoved) {
  const InboxRecord inbox{"web", "task"};
  EXPECT_EQ(*mounts().PrepareInbox(inbox), "/run/mountd/base/a/web/task");
  EXPECT_EQ(*mounts().PrepareInbox(inbox), "/run/mountd/base/a/web/task");
  EXPECT_EQ(*boot().inboxes.InboxesOf("web"), std::vector<std::string>{"task"});
  ASSERT_EQ(MessageOf(Bind(Spec("d", "data"))), "Ok");
  EXPECT_EQ(Outcome(mounts().RemoveInbox(inbox)), "Busy");
  ASSERT_EQ(MessageOf(Unmount("d")), "Ok");
  ASSERT_EQ(MessageOf(mounts().RemoveInbox(inbox)), "Ok");
  EXPECT_TRUE(boot().inboxes.InboxesOf("web")->empty());
}

TEST(MountLimits, AreOfTheUserAndOfInboxes) {
  Config config;
  config.limits.mounts_per_uid = 2;
  config.limits.inboxes_per_allocation = 1;
  Core core(config);
  ASSERT_TRUE(core.executor->PrepareAllocation({exec::ToWire("web"), 1}));
  ASSERT_EQ(MessageOf(core.mounts->Bind(Spec("a", "data"))), "Ok");
  ASSERT_EQ(MessageOf(core.mounts->Bind(Spec("b", "data"))), "Ok");
  EXPECT_NE(MessageOf(core.mounts->Bind(Spec("c", "data")))
                .find("limits.mounts_per_uid"),
            std::string::npos);
  BindMountRequest others = Spec("d", "data");
  others.uid = 7;
  EXPECT_EQ(MessageOf(core.mounts->Bind(others)), "Ok");
  ASSERT_EQ(MessageOf(core.mounts->PrepareInbox({"web", "a"})), "Ok");
  EXPECT_EQ(MessageOf(core.mounts->PrepareInbox({"web", "a"})), "Ok");
  EXPECT_NE(MessageOf(core.mounts->PrepareInbox({"web", "b"}))
                .find("limits.inboxes_per_allocation"),
            std::string::npos);
}

}  // namespace
}  // namespace mountd
