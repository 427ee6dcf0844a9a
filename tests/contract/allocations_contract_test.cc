// SPDX-License-Identifier: LGPL-2.1-or-later
// Allocations' directories and tasks' inboxes.
#include <algorithm>

#include "tests/contract/machine.h"

namespace mountd::testing {
namespace {

class AllocationsContract : public ExecutorContract {};

TEST_F(AllocationsContract, TheSamePlanAgainChangesNothing) {
  const auto before = machine().Made();
  EXPECT_THAT(executor().PrepareAllocation(Allocation()), IsOk());
  ExpectUnchanged(before);
}

TEST_F(AllocationsContract, OneOfAnotherUserIsRefusedAndStays) {
  const auto before = machine().Made();
  EXPECT_THAT(executor().PrepareAllocation(Allocation("web", kUid + 1)),
              IsErr(Code::kFailedPrecondition));
  ExpectUnchanged(before);
}

TEST_F(AllocationsContract, RemovalLeavesNothingAndSucceedsAgain) {
  ASSERT_THAT(executor().RemoveAllocation(Allocation()), IsOk());
  const auto without = machine().Made();
  EXPECT_THAT(executor().RemoveAllocation(Allocation()), IsOk());
  EXPECT_THAT(executor().PrepareAllocation(Allocation("db")), IsOk());
  EXPECT_THAT(executor().RemoveAllocation(Allocation("db")), IsOk());
  ExpectUnchanged(without);
}

// By the time of the plan mountd has no record of a mount in the allocation.
TEST_F(AllocationsContract, RemovalTakesMountsAndInboxesAlong) {
  ASSERT_THAT(executor().RemoveAllocation(Allocation()), IsOk());
  const auto before = machine().Made();
  ASSERT_THAT(executor().PrepareAllocation(Allocation()), IsOk());
  ASSERT_THAT(executor().PrepareInbox(Task()), IsOk());
  const exec::MountState mounted = Attach(Bind("data"));
  ASSERT_THAT(executor().RemoveAllocation(Allocation()), IsOk());
  EXPECT_EQ(MountAt(), 0U);
  EXPECT_THAT(
      executor().ReleaseAnchor({exec::SourceKind::kHostVolume,
                                exec::ToWire("data"), mounted.anchor_id}),
      IsOk());
  ExpectUnchanged(before);
}

TEST_F(AllocationsContract, RemovalIsBusyWhileAMountIsUsed) {
  const exec::MountState mounted = Attach(Bind("data"));
  {
    const Machine::Held use = machine().UseTarget("data");
    EXPECT_THAT(executor().RemoveAllocation(Allocation()), IsErr(Code::kBusy));
    EXPECT_EQ(MountAt(), mounted.mount_id);
  }
  EXPECT_THAT(executor().RemoveAllocation(Allocation()), IsOk());
}

TEST_F(AllocationsContract, AreListedWithTheirMounts) {
  const exec::MountState mounted = Attach(Bind("data"));
  ASSERT_OK_AND_ASSIGN(const std::vector<exec::FoundTarget> found,
                       executor().ListTargets());
  ASSERT_EQ(found.size(), 2U);
  const auto mount = std::find_if(
      found.begin(), found.end(),
      [](const auto& row) { return !row.target.name.view().empty(); });
  ASSERT_NE(mount, found.end());
  EXPECT_EQ(exec::Text(mount->target.name), "data");
  EXPECT_EQ(mount->state.mount_id, mounted.mount_id);
  for (const exec::FoundTarget& row : found) {
    EXPECT_EQ(exec::Text(row.target.allocation), "web");
    EXPECT_EQ(row.uid, kUid);
    EXPECT_EQ(row.group, 0U);
  }
  exec::AllocationPlan plan = Allocation();
  plan.group = 100000;
  ASSERT_THAT(executor().PrepareAllocation(plan), IsOk());
  // A plan without a group leaves it as it is.
  ASSERT_THAT(executor().PrepareAllocation(Allocation()), IsOk());
  ASSERT_OK_AND_ASSIGN(const std::vector<exec::FoundTarget> again,
                       executor().ListTargets());
  ASSERT_EQ(again.size(), 2U);
  for (const exec::FoundTarget& row : again) {
    EXPECT_EQ(row.group, 100000U);
  }
}

class InboxesContract : public ExecutorContract {};

TEST_F(InboxesContract, TheSamePlanAgainChangesNothing) {
  ASSERT_THAT(executor().PrepareInbox(Task()), IsOk());
  const auto before = machine().Made();
  EXPECT_THAT(executor().PrepareInbox(Task()), IsOk());
  ExpectUnchanged(before);
}

TEST_F(InboxesContract, NeedAnAllocation) {
  const auto before = machine().Made();
  const exec::TaskPlan elsewhere{exec::ToWire("db"), exec::ToWire("app")};
  EXPECT_THAT(executor().PrepareInbox(elsewhere), IsErr(Code::kNotFound));
  EXPECT_THAT(executor().OpenInbox(elsewhere), IsErr(Code::kNotFound));
  EXPECT_THAT(executor().RemoveInbox(elsewhere), IsOk());
  ExpectUnchanged(before);
}

TEST_F(InboxesContract, RemovalLeavesNothingAndSucceedsAgain) {
  const auto before = machine().Made();
  ASSERT_THAT(executor().PrepareInbox(Task()), IsOk());
  EXPECT_THAT(executor().RemoveInbox(Task()), IsOk());
  EXPECT_THAT(executor().RemoveInbox(Task()), IsOk());
  ExpectUnchanged(before);
}

TEST_F(InboxesContract, RemovalIsBusyWhileAMountIsInIt) {
  ASSERT_THAT(executor().PrepareInbox(Task()), IsOk());
  const exec::MountState mounted = Attach(Bind("data"));
  EXPECT_THAT(executor().RemoveInbox(Task()), IsErr(Code::kBusy));
  EXPECT_EQ(MountAt(), mounted.mount_id);
  EXPECT_THAT(executor().OpenInbox(Task()), IsOk());
  ASSERT_THAT(Detach(mounted.mount_id), IsOk());
  // A detach of the last mount leaves the inbox, because the task has it.
  EXPECT_THAT(executor().OpenInbox(Task()), IsOk());
  EXPECT_THAT(executor().RemoveInbox(Task()), IsOk());
}

TEST_F(InboxesContract, OpenGivesAnFdAndNeedsAnInbox) {
  EXPECT_THAT(executor().OpenInbox(Task()), IsErr(Code::kNotFound));
  // A task with mounts has no inbox before PrepareInbox.
  Attach(Bind("data"));
  EXPECT_THAT(executor().OpenInbox(Task()), IsErr(Code::kFailedPrecondition));
  ASSERT_THAT(executor().PrepareInbox(Task()), IsOk());
  ASSERT_OK_AND_ASSIGN(const exec::HandedOutFd opened,
                       executor().OpenInbox(Task()));
  EXPECT_TRUE(opened.fd.valid());
}

}  // namespace
}  // namespace mountd::testing
