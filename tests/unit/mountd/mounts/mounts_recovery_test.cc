// SPDX-License-Identifier: LGPL-2.1-or-later
// mountd recovers mounts after a restart.
#include "tests/unit/mountd/mounts/mounts_test.h"

namespace mountd {
namespace {

using exec::SourceKind;

class MountsRecoveryTest : public MountsTest {};

TEST_F(MountsRecoveryTest, AnIntentWithoutAMountIsForgotten) {
  Leave(MountRecordState::kAttaching, 0);
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_FALSE(RecordOf().has_value());
  EXPECT_EQ(Existing(), nothing_);
}

// The plan was carried out, and mountd did not get its answer. It does not know
// the anchor either: the store has no record of it, or that of an earlier
// anchor.
TEST_F(MountsRecoveryTest, AnIntentsMountAndAnchorAreTakenAway) {
  for (const std::uint64_t recorded : {0U, 999U}) {
    SCOPED_TRACE(recorded);
    Leave(MountRecordState::kAttaching, 0);
    if (recorded != 0) {
      ASSERT_EQ(Outcome(core_.boot->anchors.PutAnchor(kData, recorded)), "Ok");
    }
    exec::AttachPlan plan;
    plan.target = exec::Target("web", "task", "d");
    plan.source.host_volume = exec::ToWire("data");
    ASSERT_EQ(Outcome(executor().Attach(plan, -1)), "Ok");
    ASSERT_EQ(Existing(), mounted_);
    EXPECT_EQ(MessageOf(Recover()), "Ok");
    EXPECT_FALSE(RecordOf().has_value());
    EXPECT_EQ(Existing(), nothing_);
    EXPECT_TRUE(core_.boot->anchors.ListAnchors()->empty());
  }
}

// The mount is there and has no record, as after the loss of a store.
TEST_F(MountsRecoveryTest, WhatHasNoRecordIsFoundAndTakenOver) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  const MountRecord before = *RecordOf();
  ASSERT_EQ(Outcome(boot().mounts.RemoveMount(before)), "Ok");
  ASSERT_EQ(Outcome(boot().anchors.RemoveAnchor(kData)), "Ok");
  ASSERT_EQ(MessageOf(mounts().DoubtAllAnchors()), "Ok");
  const auto found = executor().ListTargets();
  ASSERT_TRUE(found && found->size() == 2U);
  for (const exec::FoundTarget& one : *found) {
    ASSERT_EQ(MessageOf(mounts().RecordFound(one, 7)), "Ok");
  }
  EXPECT_EQ(StateOf(), MountRecordState::kFound);
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  // The source's anchor stays, too, although the store has no record of it.
  EXPECT_EQ(Existing(), mounted_);
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(RecordOf()->mount_id, before.mount_id);
  EXPECT_EQ(Existing(), mounted_);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  mounts().ReleaseLeftAnchors();
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsRecoveryTest, WhatWasFoundAndIsGoneIsForgotten) {
  Leave(MountRecordState::kFound, 4711);
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_FALSE(RecordOf().has_value());
}

TEST_F(MountsRecoveryTest, AnIntentThatCannotBeUndoneDoesNotKeepFromStarting) {
  Leave(MountRecordState::kAttaching, 0);
  executor().ReplaceMount("web/task/d");
  executor().SetBusy("web/task/d");
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_EQ(StateOf(), MountRecordState::kAttaching);
  executor().SetBusy("web/task/d", false);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsRecoveryTest, AnIntentOnAVolumeThatIsGoneIsUndone) {
  BindMountRequest spec = Spec("d", "alias");
  spec.wish.source_kind = SourceKind::kPublishedVolume;
  Leave(MountRecordState::kAttaching, 0, spec);
  executor().ReplaceMount("web/task/d");
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_FALSE(RecordOf().has_value());
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsRecoveryTest, AMountThatIsStillThereIsTakenOver) {
  const auto before = Bind();
  ASSERT_EQ(MessageOf(before), "Ok");
  core_.Restart();
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(Bind()->record.mount_id, before->record.mount_id);
  EXPECT_EQ(executor().script().Count("Attach"), 1U);
}

TEST_F(MountsRecoveryTest, AMountThatIsGoneIsLostAndCanBeMadeAgain) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  executor().LoseMount("web/task/d");
  core_.Restart();
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_EQ(StateOf(), MountRecordState::kLost);
  EXPECT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(Existing(), mounted_);
}

TEST_F(MountsRecoveryTest, AnotherMountInItsPlaceIsNotOurs) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  executor().ReplaceMount("web/task/d");
  const std::uint64_t there = executor().MountIdOf("web/task/d");
  core_.Restart();
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_EQ(StateOf(), MountRecordState::kLost);
  EXPECT_EQ(Outcome(Unmount()), "FailedPrecondition");
  EXPECT_EQ(executor().MountIdOf("web/task/d"), there);
}

TEST_F(MountsRecoveryTest, TheStartWaitsForOneMountThatHangsAndNotForMore) {
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_EQ(MessageOf(Bind(Spec(name, "data"))), "Ok");
    Leave(MountRecordState::kAttaching, 0, Spec(name, "data"));
  }
  executor().FailNext("Detach", Code::kDeadlineExceeded, FailWhen::kBefore, 3);
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_EQ(executor().script().Count("Detach"), 1U);
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(StateOf(name), MountRecordState::kAttaching);
  }
}

// The detach may be what hangs, so mountd makes it pending, and starts.
TEST_F(MountsRecoveryTest, ADetachThatWasCutOffIsLeftToBeDoneAgain) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  Leave(MountRecordState::kDetaching, executor().MountIdOf("web/task/d"));
  core_.Restart();
  EXPECT_EQ(MessageOf(Recover()), "Ok");
  EXPECT_EQ(executor().script().Count("Detach"), 0U);
  EXPECT_EQ(StateOf(), MountRecordState::kDetaching);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsRecoveryTest, AnAnchorThatCouldNotGoIsReleasedLater) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  EXPECT_FALSE(mounts().HasLeftAnchors());
  executor().FailNext("ReleaseAnchor", Code::kUnavailable, FailWhen::kBefore,
                      2);
  ASSERT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_TRUE(mounts().HasLeftAnchors());
  mounts().ReleaseLeftAnchors();
  EXPECT_TRUE(mounts().HasLeftAnchors());
  EXPECT_NE(executor().AnchorOf("data"), 0U);
  mounts().ReleaseLeftAnchors();
  EXPECT_FALSE(mounts().HasLeftAnchors());
  EXPECT_EQ(Existing(), nothing_);
  EXPECT_TRUE(core_.boot->anchors.ListAnchors()->empty());
}

TEST_F(MountsRecoveryTest, AnAnchorWithoutUsersIsReleasedAfterAStart) {
  ASSERT_EQ(MessageOf(Bind()), "Ok");
  executor().FailNext("ReleaseAnchor", Code::kUnavailable);
  ASSERT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_NE(executor().AnchorOf("data"), 0U);
  core_.Restart();
  EXPECT_EQ(MessageOf(mounts().Recover()), "Ok");
  EXPECT_NE(executor().AnchorOf("data"), 0U) << "the start waits for no volume";
  ASSERT_TRUE(mounts().HasLeftAnchors());
  mounts().ReleaseLeftAnchors();
  EXPECT_EQ(Existing(), nothing_);
  EXPECT_TRUE(core_.boot->anchors.ListAnchors()->empty());
}

}  // namespace
}  // namespace mountd
