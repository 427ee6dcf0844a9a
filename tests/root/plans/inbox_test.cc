// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/mount.h>
#include <sys/stat.h>

#include <cerrno>

#include "tests/root/executor_fixture.h"
#include "tests/support/running_task.h"

// Mounts that come, change or go in an inbox do so in the task that has the
// inbox (propagation/inbox.h).
namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;
using exec::ToWire;

constexpr char kWebsInbox[] = "/run/mountd/base/a/web/app";

// The parameter says whether the task has a user namespace of its own.
class Inbox : public ExecutorFixture,
              public ::testing::WithParamInterface<bool> {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      MakeDirectories(RunningTask::kInbox);
      PrepareBase();
      before_ = Inventory::Take();
    }
  }
  Reply OnInbox(PlanKind kind) {
    return Call(kind, [](PlanBody* body) {
      body->task = {ToWire("web"), ToWire("app")};
    });
  }
  Reply Replace(const std::string& volume, Propagation propagation,
                std::uint64_t replaces, std::uint32_t attributes = 0) {
    Request request = AttachRequest(volume, propagation);
    request.body.attach.replaces = replaces;
    request.body.attach.attributes = attributes;
    return Send(request);
  }

  Inventory before_;
};

INSTANTIATE_TEST_SUITE_P(, Inbox, ::testing::Bool(), [](const auto& task) {
  return std::string(task.param ? "OwnUserNamespace" : "HostsUserNamespace");
});

TEST_P(Inbox, MountsComeAndGoInTheRunningTask) {
  ASSERT_EQ(ErrorOf(OnInbox(PlanKind::kPrepareInbox)), "");
  {
    const RunningTask task(kWebsInbox, GetParam());
    ASSERT_GT(task.pid(), 0);
    EXPECT_FALSE(task.Sees("data"));
    const Reply reply = Attach("data", Propagation::kHostToTask);
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_TRUE(task.Sees("data/file"));
    MountTmpfs("/run/host/data/sub");
    EXPECT_TRUE(task.Sees("data/sub/mark"));
    Unmount("/run/host/data/sub");
    EXPECT_FALSE(task.Sees("data/sub/mark"));
    // The detach succeeds because the task does not use its copy. Such a use
    // would make this mount busy, though it would not prevent a replacement.
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    EXPECT_FALSE(task.Sees("data"));
    // The task still has the inbox.
    const Reply again = Attach("data", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(again), "");
    EXPECT_TRUE(task.Sees("data/file"));
    EXPECT_EQ(CodeOf(OnInbox(PlanKind::kRemoveInbox)), "Busy");
    EXPECT_EQ(ErrorOf(Detach(again.body.mount.mount_id)), "");
  }
  EXPECT_EQ(ErrorOf(OnInbox(PlanKind::kRemoveInbox)), "");
  EXPECT_EQ(ErrorOf(OnInbox(PlanKind::kRemoveInbox)), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(DifferenceWithin(before_, 2000), "");
}

TEST_P(Inbox, AReplacementReachesTheTaskAndWhatItHasOpenStays) {
  if (!real_.CanMountBeneath()) {
    GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
  }
  ASSERT_EQ(ErrorOf(OnInbox(PlanKind::kPrepareInbox)), "");
  const Reply old = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(old), "");
  {
    const RunningTask task(kWebsInbox, GetParam());
    ASSERT_TRUE(task.Sees("data/file"));
    const Reply reply = Replace("data", Propagation::kHostToTask,
                                old.body.mount.mount_id, exec::kReadOnly);
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_TRUE(task.Sees("data/file"));
    // The new mount follows the source, and is read-only.
    MountTmpfs("/run/host/data/sub");
    EXPECT_TRUE(task.Sees("data/sub/mark"));
    Unmount("/run/host/data/sub");
    const int written = task.Do([] {
      return ::mkdir("/run/task-inbox/data/made", 0755) == 0 ? 0 : errno;
    });
    EXPECT_EQ(written, EROFS);
    // One detach is enough, so no old mount is left beneath.
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    EXPECT_FALSE(task.Sees("data"));
  }
  EXPECT_EQ(ErrorOf(OnInbox(PlanKind::kRemoveInbox)), "");
}

TEST_P(Inbox, ATaskCannotTakeTheFlagsOff) {
  ASSERT_EQ(ErrorOf(OnInbox(PlanKind::kPrepareInbox)), "");
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.attributes = exec::kReadOnly;
  const RunningTask task(kWebsInbox, GetParam());
  ASSERT_EQ(ErrorOf(Send(request)), "");
  const int remounted = task.Do([] {
    return ::mount(nullptr, "/run/task-inbox/data", nullptr,
                   MS_REMOUNT | MS_BIND, nullptr) == 0
               ? 0
               : errno;
  });
  // Root of the host's user namespace may do anything, and no task has it.
  EXPECT_EQ(remounted, GetParam() ? EPERM : 0);
}

TEST_P(Inbox, IsMadeOfATaskThatHasMountsAlready) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  ASSERT_EQ(ErrorOf(OnInbox(PlanKind::kPrepareInbox)), "");
  ASSERT_EQ(ErrorOf(OnInbox(PlanKind::kPrepareInbox)), "");
  ASSERT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_TRUE(Exists(kWebsInbox));
  ASSERT_EQ(ErrorOf(OnInbox(PlanKind::kRemoveInbox)), "");
  EXPECT_FALSE(Exists(kWebsInbox));
}

TEST_P(Inbox, NeedsAPreparedAllocation) {
  const Reply reply = Call(PlanKind::kPrepareInbox, [](PlanBody* body) {
    body->task = {ToWire("other"), ToWire("app")};
  });
  EXPECT_EQ(CodeOf(reply), "NotFound");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

}  // namespace
}  // namespace mountd::testing
