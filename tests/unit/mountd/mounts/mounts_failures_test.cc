// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Mounts that fail, for each kind of source, and mounts whose records differ
// from the machine.
#include "tests/unit/mountd/mounts/mounts_test.h"

namespace mountd {
namespace {

using exec::SourceKind;

class MountsFailuresTest : public MountsTest {
 protected:
  static BindMountRequest OfVolume(const std::string& name) {
    BindMountRequest spec = Spec(name, "alias");
    spec.wish.source_kind = SourceKind::kPublishedVolume;
    spec.plugin = "nfs";
    return spec;
  }
  static BindMountRequest OfTmpfs(const std::string& name,
                                  std::uint64_t bytes) {
    BindMountRequest spec = Spec(name, "");
    spec.wish.source_kind = SourceKind::kTmpfs;
    spec.wish.tmpfs.bytes = bytes;
    spec.wish.tmpfs.inodes = 16;
    return spec;
  }
  Result<Mounts::Replaced> Replace(const BindMountRequest& spec) {
    return mounts().Replace(spec);
  }
  MountRecord Attached() {
    EXPECT_EQ(MessageOf(Bind()), "Ok");
    return RecordOf().value();
  }
};

TEST_F(MountsFailuresTest, OneWithoutAnAnchorIsUndoneLikeOneWith) {
  for (const BindMountRequest& spec : {OfTmpfs("t", 4096), Spec("d", "data")}) {
    executor().FailNext("Attach", Code::kInternal, FailWhen::kAfter);
    EXPECT_EQ(Outcome(Bind(spec)), "Internal");
    EXPECT_FALSE(RecordOf(spec.name).has_value());
    EXPECT_EQ(Existing(), nothing_);
  }
}

TEST_F(MountsFailuresTest, ATmpfsIsBoundedAloneAndWithOthers) {
  const std::uint64_t most = core_.config.limits.tmpfs_bytes_per_allocation;
  EXPECT_EQ(Outcome(Bind(OfTmpfs("t", most + 4096))), "ResourceExhausted");
  EXPECT_EQ(Outcome(Bind(OfTmpfs("t", core_.config.limits.tmpfs_bytes + 4096))),
            "ResourceExhausted");
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsFailuresTest, WhatIsNotMountedIsNotReplaced) {
  EXPECT_EQ(Outcome(Replace(Spec("d", "logs"))), "NotFound");
  Leave(MountRecordState::kLost, 77);
  const auto replaced = Replace(Spec("d", "logs"));
  EXPECT_EQ(Outcome(replaced), "NotFound");
  EXPECT_NE(MessageOf(replaced).find("no longer mounted"), std::string::npos);
}

TEST_F(MountsFailuresTest, AReplacementThatFailsBeforeItBeganLeavesTheOld) {
  const MountRecord before = Attached();
  executor().FailNext("Attach", Code::kInternal);
  EXPECT_EQ(Outcome(Replace(Spec("d", "logs"))), "Internal");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(RecordOf()->mount_id, before.mount_id);
  EXPECT_EQ(Existing(), mounted_);
}

// Nothing is known about the target, so the same call has to find out.
TEST_F(MountsFailuresTest, AReplacementWhoseOutcomeIsUnknownStaysOne) {
  Attached();
  executor().FailNext("Attach", Code::kUnavailable, FailWhen::kAfter);
  executor().FailNext("InspectTarget", Code::kUnavailable);
  EXPECT_EQ(Outcome(Replace(Spec("d", "logs"))), "Unavailable");
  EXPECT_EQ(StateOf(), MountRecordState::kReplacing);
  EXPECT_EQ(MessageOf(Replace(Spec("d", "logs"))), "Ok");
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsFailuresTest, ARepairOfWhatIsLostMountsItAnew) {
  EXPECT_EQ(Outcome(mounts().Repair(Spec("d", "data"))), "NotFound");
  const MountRecord before = Attached();
  executor().LoseMount("web/task/d");
  const auto repaired = mounts().Repair(Spec("d", "data"));
  ASSERT_EQ(MessageOf(repaired), "Ok");
  EXPECT_EQ(repaired->old_mount_id, before.mount_id);
  EXPECT_EQ(StateOf(), MountRecordState::kAttached);
  EXPECT_EQ(Existing(), mounted_);
}

TEST_F(MountsFailuresTest, AnAnchorThatCannotGoIsTriedAgain) {
  Attached();
  executor().FailNext("ReleaseAnchor", Code::kBusy);
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_TRUE(mounts().HasLeftAnchors());
  EXPECT_EQ(Existing(),
            (std::vector<std::string>{"allocation web", "anchor data"}));
  mounts().ReleaseLeftAnchors();
  EXPECT_FALSE(mounts().HasLeftAnchors());
  EXPECT_EQ(Existing(), nothing_);
}

TEST_F(MountsFailuresTest, AnAnchorThatIsUsedStays) {
  Attached();
  ASSERT_EQ(MessageOf(Bind(Spec("e", "data"))), "Ok");
  mounts().ReleaseLeftAnchors();
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_NE(executor().AnchorOf("data"), 0U);
}

TEST_F(MountsFailuresTest, OnlyWhatIsStillTheRecordsIsLost) {
  const MountRecord seen = Attached();
  // The mount is there unchanged.
  EXPECT_EQ(mounts().LookLost(seen).value(), "");
  // The record is older than the mount, which was mounted again since.
  MountRecord older = seen;
  older.mount_id += 1;
  EXPECT_EQ(mounts().LookLost(older).value(), "");
  executor().LoseMount("web/task/d");
  EXPECT_EQ(mounts().LookLost(seen).value(), "no mount is there");
  // The loss is known already.
  EXPECT_EQ(mounts().LookLost(seen).value(), "");
  EXPECT_EQ(MessageOf(Unmount()), "Ok");
  EXPECT_EQ(mounts().LookLost(seen).value(), "");
}

TEST_F(MountsFailuresTest, AllThatCanGoGoesAndTheFirstErrorIsTold) {
  for (const char* name : {"d", "e", "f"}) {
    ASSERT_EQ(MessageOf(Bind(Spec(name, "data"))), "Ok");
  }
  executor().SetBusy("web/task/d");
  executor().SetBusy("web/task/f");
  const Result<void> outcome = mounts().UnmountAll("web");
  EXPECT_EQ(Outcome(outcome), "Busy");
  EXPECT_NE(MessageOf(outcome).find("web/task/f"), std::string::npos);
  EXPECT_EQ(executor().MountIdOf("web/task/e"), 0U);
}

TEST_F(MountsFailuresTest, InboxesAreThereAgainAfterAStart) {
  ASSERT_EQ(MessageOf(mounts().PrepareInbox({"web", "task"})), "Ok");
  ASSERT_EQ(MessageOf(mounts().PrepareInbox({"web", "side"})), "Ok");
  executor().script().Forget();
  EXPECT_EQ(MessageOf(mounts().RecoverInboxes("web")), "Ok");
  EXPECT_EQ(executor().script().Count("PrepareInbox"), 2U);
}

}  // namespace
}  // namespace mountd
