// SPDX-License-Identifier: LGPL-2.1-or-later
// Mounts at targets, and the anchors of their sources.
#include "tests/contract/machine.h"

namespace mountd::testing {
namespace {

using exec::MountState;
using exec::Propagation;

class MountsContract : public ExecutorContract {
 protected:
  Result<void> Release(std::uint64_t anchor_id) {
    return executor().ReleaseAnchor(
        {exec::SourceKind::kHostVolume, exec::ToWire("data"), anchor_id});
  }
};

TEST_F(MountsContract, TheSamePlanAgainAnswersTheSameMount) {
  const MountState first = Attach(Bind("data"));
  EXPECT_NE(first.mount_id, 0U);
  const auto before = machine().Made();
  const MountState second = Attach(Bind("data"));
  EXPECT_EQ(second.mount_id, first.mount_id);
  EXPECT_EQ(second.anchor_id, first.anchor_id);
  ExpectUnchanged(before);
}

TEST_F(MountsContract, OtherOptionsOrAnotherSourceAreRefusedAndTheMountStays) {
  const MountState first = Attach(Bind("data"));
  const auto before = machine().Made();
  exec::AttachPlan read_only = Bind("data");
  read_only.attributes = exec::kReadOnly;
  for (const exec::AttachPlan& other :
       {read_only, Bind("data", "data", Propagation::kHostToTask),
        Bind("data", "data", Propagation::kBidirectional), Bind("logs")}) {
    EXPECT_THAT(executor().Attach(other, -1), IsErr(Code::kAlreadyExists));
  }
  EXPECT_EQ(MountAt(), first.mount_id);
  ExpectUnchanged(before);
}

TEST_F(MountsContract, ATmpfsIsNewEachTime) {
  exec::AttachPlan plan;
  plan.target = Target();
  plan.source.kind = exec::SourceKind::kTmpfs;
  plan.source.tmpfs = {65536, 8, 0700, kUid, kUid, 0};
  const MountState first = Attach(plan);
  EXPECT_EQ(first.anchor_id, 0U);
  // The kernel does not tell whose tmpfs it is, so none is taken for another.
  EXPECT_THAT(executor().Attach(plan, -1), IsErr(Code::kAlreadyExists));
  EXPECT_EQ(MountAt(), first.mount_id);
}

TEST_F(MountsContract, NeedAnAllocation) {
  const auto before = machine().Made();
  exec::AttachPlan plan = Bind("data");
  plan.target.allocation = exec::ToWire("db");
  EXPECT_THAT(executor().Attach(plan, -1), IsErr(Code::kNotFound));
  ExpectUnchanged(before);
}

TEST_F(MountsContract, ReadBackHasThePropagationThatWasAskedFor) {
  const MountState apart = Attach(Bind("data", "apart"));
  EXPECT_EQ(apart.peer_group, 0U);
  EXPECT_EQ(apart.master, 0U);
  const MountState follows =
      Attach(Bind("data", "follows", Propagation::kHostToTask));
  EXPECT_EQ(follows.peer_group, 0U);
  EXPECT_NE(follows.master, 0U);
  EXPECT_EQ(follows.master, follows.source_peer_group);
  const MountState shares =
      Attach(Bind("data", "shares", Propagation::kBidirectional));
  EXPECT_EQ(shares.peer_group, shares.source_peer_group);
  EXPECT_EQ(shares.peer_group, follows.master);
  // One anchor serves all mounts of a host volume.
  EXPECT_NE(apart.anchor_id, 0U);
  EXPECT_EQ(follows.anchor_id, apart.anchor_id);
  EXPECT_EQ(shares.anchor_id, apart.anchor_id);
}

TEST_F(MountsContract, InspectTellsTheMountOrNone) {
  EXPECT_EQ(MountAt(), 0U);
  ASSERT_OK_AND_ASSIGN(
      const MountState none,
      executor().InspectTarget(exec::Target("db", "app", "data")));
  EXPECT_EQ(none.mount_id, 0U);
  EXPECT_EQ(none.exists, 0U);
  const MountState mounted = Attach(Bind("data"));
  ASSERT_OK_AND_ASSIGN(const MountState seen,
                       executor().InspectTarget(Target()));
  EXPECT_EQ(seen.mount_id, mounted.mount_id);
  EXPECT_EQ(seen.exists, 1U);
  EXPECT_EQ(seen.is_directory, 1U);
  EXPECT_EQ(seen.is_stacked, 0U);
}

TEST_F(MountsContract, DetachLeavesNothingAndSucceedsAgain) {
  const auto before = machine().Made();
  const MountState mounted = Attach(Bind("data"));
  ASSERT_THAT(Detach(mounted.mount_id), IsOk());
  EXPECT_EQ(MountAt(), 0U);
  EXPECT_THAT(Detach(mounted.mount_id), IsOk());
  ASSERT_THAT(Release(mounted.anchor_id), IsOk());
  ExpectUnchanged(before);
}

TEST_F(MountsContract, DetachOfWhatNeverWasSucceeds) {
  const auto before = machine().Made();
  EXPECT_THAT(Detach(4711, "none"), IsOk());
  exec::DetachPlan elsewhere;
  elsewhere.target = exec::Target("db", "app", "data");
  elsewhere.mount_id = 4711;
  EXPECT_THAT(executor().Detach(elsewhere), IsOk());
  ExpectUnchanged(before);
}

TEST_F(MountsContract, DetachOfAnotherMountIsRefusedAndTheMountStays) {
  const MountState mounted = Attach(Bind("data"));
  EXPECT_THAT(Detach(mounted.mount_id + 1), IsErr(Code::kFailedPrecondition));
  EXPECT_EQ(MountAt(), mounted.mount_id);
}

TEST_F(MountsContract, DetachIsBusyWhileTheMountIsUsed) {
  const MountState mounted = Attach(Bind("data"));
  {
    const Machine::Held use = machine().UseTarget("data");
    EXPECT_THAT(Detach(mounted.mount_id), IsErr(Code::kBusy));
    EXPECT_EQ(MountAt(), mounted.mount_id);
  }
  EXPECT_THAT(Detach(mounted.mount_id), IsOk());
}

TEST_F(MountsContract, AMountThatOthersTookCanBeMadeAgain) {
  const MountState first = Attach(Bind("data"));
  machine().LoseTarget("data");
  EXPECT_EQ(MountAt(), 0U);
  const MountState second = Attach(Bind("data"));
  EXPECT_NE(second.mount_id, 0U);
  EXPECT_EQ(MountAt(), second.mount_id);
  machine().LoseTarget("data");
  EXPECT_THAT(Detach(first.mount_id), IsOk());
}

TEST_F(MountsContract, WhatOthersMountedThereIsNeitherTakenNorRemoved) {
  const MountState mounted = Attach(Bind("data"));
  machine().CoverTarget("data");
  const std::uint64_t other = MountAt();
  EXPECT_NE(other, mounted.mount_id);
  EXPECT_THAT(Detach(mounted.mount_id), IsErr(Code::kFailedPrecondition));
  EXPECT_THAT(executor().Attach(Bind("data"), -1), IsErr(Code::kAlreadyExists));
  EXPECT_EQ(MountAt(), other);
}

TEST_F(MountsContract, AReplacementNeedsTheMountItReplaces) {
  ASSERT_OK_AND_ASSIGN(const exec::HelloReply hello, executor().Hello());
  exec::AttachPlan plan = Bind("data");
  plan.replaces = 4711;
  const auto before = machine().Made();
  EXPECT_THAT(executor().Attach(plan, -1),
              IsErr(hello.has_mount_beneath != 0 ? Code::kNotFound
                                                 : Code::kNotSupported));
  ExpectUnchanged(before);
}

TEST_F(MountsContract, AReplacementAgainAnswersTheNewMount) {
  ASSERT_OK_AND_ASSIGN(const exec::HelloReply hello, executor().Hello());
  const MountState old = Attach(Bind("data"));
  exec::AttachPlan plan = Bind("data");
  plan.attributes = exec::kReadOnly;
  plan.replaces = old.mount_id;
  const Result<MountState> replaced = executor().Attach(plan, -1);
  if (hello.has_mount_beneath == 0) {  // before Linux 6.5
    EXPECT_THAT(replaced, IsErr(Code::kNotSupported));
    EXPECT_EQ(MountAt(), old.mount_id);
    return;
  }
  ASSERT_THAT(replaced, IsOk());
  EXPECT_NE(replaced->mount_id, old.mount_id);
  EXPECT_EQ(MountAt(), replaced->mount_id);
  // The plan still names the old mount, because an answer may be lost.
  EXPECT_EQ(Attach(plan).mount_id, replaced->mount_id);
  EXPECT_THAT(Detach(old.mount_id), IsErr(Code::kFailedPrecondition));
  EXPECT_THAT(Detach(replaced->mount_id), IsOk());
  EXPECT_EQ(MountAt(), 0U);
}

TEST_F(MountsContract, AnAnchorIsBusyWhileItIsUsed) {
  const MountState mounted = Attach(Bind("data"));
  ASSERT_THAT(Detach(mounted.mount_id), IsOk());
  const auto before = machine().Made();
  {
    const Machine::Held use = machine().UseVolume("data");
    EXPECT_THAT(Release(mounted.anchor_id), IsErr(Code::kBusy));
  }
  ExpectUnchanged(before);
  EXPECT_THAT(Release(mounted.anchor_id), IsOk());
  EXPECT_THAT(Release(mounted.anchor_id), IsOk());
}

TEST_F(MountsContract, AnAnchorOfAnotherIdStaysAndTheReleaseSucceeds) {
  const MountState mounted = Attach(Bind("data"));
  ASSERT_THAT(Detach(mounted.mount_id), IsOk());
  const auto before = machine().Made();
  // The anchor that the plan names is gone, which is what a release wants.
  EXPECT_THAT(Release(mounted.anchor_id + 1), IsOk());
  ExpectUnchanged(before);
  // 0 stands for any anchor, because an id may be lost with an answer.
  EXPECT_THAT(Release(0), IsOk());
  EXPECT_NE(machine().Made(), before);
}

}  // namespace
}  // namespace mountd::testing
