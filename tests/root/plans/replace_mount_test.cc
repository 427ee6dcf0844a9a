// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "tests/root/executor_fixture.h"
#include "tests/support/servers/fuse_server.h"

// A mount is replaced under its users (propagation/replace_mount.h).
namespace mountd::testing {
namespace {

using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

class Swap : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    if (!real_.CanMountBeneath()) {
      GTEST_SKIP() << "this kernel cannot mount beneath (Linux 6.5)";
    }
    MakeDirectories("/run/host/other/sub");
    WriteFile("/run/host/other/new", "");
    config_.host_volumes["other"] = config_.host_volumes["data"];
    config_.host_volumes["other"].path = "/run/host/other";
    PrepareBase();
    before_ = Inventory::Take();
  }

  Reply Replace(const std::string& volume, Propagation propagation,
                std::uint64_t replaces, std::uint32_t attributes = 0) {
    Request request = AttachRequest(volume, propagation);
    request.body.attach.replaces = replaces;
    request.body.attach.attributes = attributes;
    return Send(request);
  }

  std::string UndoAll(const Reply& last) {
    std::string errors = ErrorOf(Detach(last.body.mount.mount_id));
    errors += ErrorOf(ReleaseHostVolume("data", 0));
    errors += ErrorOf(ReleaseHostVolume("other", 0));
    return errors + Difference(before_, Inventory::Take());
  }

  Inventory before_;
};

TEST_F(Swap, PathsLeadToTheNewMountAndWhatWasOpenStaysOnTheOldOne) {
  const Reply old = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(old), "");
  UniqueFd open(
      ::open((std::string(kTarget) + "/file").c_str(), O_RDWR | O_CLOEXEC));
  ASSERT_TRUE(open.valid());
  const Reply reply =
      Replace("other", Propagation::kPrivate, old.body.mount.mount_id);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_NE(reply.body.mount.mount_id, old.body.mount.mount_id);
  EXPECT_TRUE(Exists(std::string(kTarget) + "/new"));
  EXPECT_FALSE(Exists(std::string(kTarget) + "/file"));
  EXPECT_EQ(::write(open.get(), "x", 1), 1);
  open.reset();
  EXPECT_EQ(UndoAll(reply), "");
}

TEST_F(Swap, TheSamePlanAgainAnswersTheSameMount) {
  const Reply old = Attach("data", Propagation::kHostToTask);
  const Reply first =
      Replace("other", Propagation::kHostToTask, old.body.mount.mount_id);
  ASSERT_EQ(ErrorOf(first), "");
  const Inventory once = Inventory::Take();
  const Reply again =
      Replace("other", Propagation::kHostToTask, old.body.mount.mount_id);
  ASSERT_EQ(ErrorOf(again), "");
  EXPECT_EQ(again.body.mount.mount_id, first.body.mount.mount_id);
  EXPECT_EQ(Difference(once, Inventory::Take()), "");
  EXPECT_EQ(UndoAll(again), "");
}

TEST_F(Swap, ALiveChangeOfAttributesIsASwapToo) {
  const Reply old = Attach("data", Propagation::kPrivate);
  const Reply reply = Replace("data", Propagation::kPrivate,
                              old.body.mount.mount_id, exec::kReadOnly);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(
      ::open((std::string(kTarget) + "/file").c_str(), O_RDWR | O_CLOEXEC), -1);
  EXPECT_EQ(errno, EROFS);
  EXPECT_EQ(UndoAll(reply), "");
}

TEST_F(Swap, EveryPropagationCanFollowEveryOther) {
  for (const Propagation from :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    for (const Propagation to :
         {Propagation::kPrivate, Propagation::kHostToTask,
          Propagation::kBidirectional}) {
      SCOPED_TRACE(::testing::Message()
                   << static_cast<int>(from) << " to " << static_cast<int>(to));
      const Reply old = Attach("data", from);
      ASSERT_EQ(ErrorOf(old), "");
      MountTmpfs("/run/host/data/sub");
      const Reply reply = Replace("other", to, old.body.mount.mount_id);
      ASSERT_EQ(ErrorOf(reply), "");
      // A mount in the old source belongs to that source, and stays.
      EXPECT_TRUE(Exists("/run/host/data/sub/mark"));
      Unmount("/run/host/data/sub");
      MountTmpfs("/run/host/other/sub");
      EXPECT_EQ(Exists(std::string(kTarget) + "/sub/mark"),
                to != Propagation::kPrivate);
      Unmount("/run/host/other/sub");
      MountTmpfs(std::string(kTarget) + "/sub");
      EXPECT_EQ(Exists("/run/host/other/sub/mark"),
                to == Propagation::kBidirectional);
      Unmount(std::string(kTarget) + "/sub");
      EXPECT_EQ(UndoAll(reply), "");
    }
  }
}

TEST_F(Swap, NothingIsReplacedButTheMountThatWasNamed) {
  EXPECT_EQ(CodeOf(Replace("data", Propagation::kPrivate, 12345)), "NotFound");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
  const Reply old = Attach("data", Propagation::kPrivate);
  const Inventory with = Inventory::Take();
  EXPECT_EQ(CodeOf(Replace("other", Propagation::kPrivate,
                           old.body.mount.mount_id + 1)),
            "AlreadyExists");
  EXPECT_EQ(
      CodeOf(Replace("file", Propagation::kPrivate, old.body.mount.mount_id)),
      "AlreadyExists");
  EXPECT_EQ(Difference(with, Inventory::Take()), "");
  EXPECT_EQ(UndoAll(old), "");
}

using NoSwap = ExecutorFixture;

TEST_F(NoSwap, AKernelThatCannotMountBeneathLeavesTheOldMount) {
  kernel_.HideMountBeneath();
  PrepareBase();
  const Reply old = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(old), "");
  const Inventory with = Inventory::Take();
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.replaces = old.body.mount.mount_id;
  request.body.attach.attributes = exec::kReadOnly;
  EXPECT_EQ(CodeOf(Send(request)), "NotSupported");
  EXPECT_EQ(Difference(with, Inventory::Take()), "");
}

// Repair does this after a file system has died and was mounted again.
TEST_F(Swap, ADeadFileSystemIsReplacedUnderItsUsers) {
  MakeDirectories("/run/host/fuse");
  config_.host_volumes["fuse"] = config_.host_volumes["data"];
  config_.host_volumes["fuse"].path = "/run/host/fuse";
  auto server = std::make_unique<FuseServer>("/run/host/fuse");
  ASSERT_TRUE(server->valid());
  const Reply old = Attach("fuse", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(old), "");
  const std::string file = std::string(kTarget) + "/file";
  EXPECT_EQ(::access(file.c_str(), F_OK), 0);
  for (const bool hangs : {true, false}) {
    SCOPED_TRACE(hangs);
    hangs ? server->Hang() : server->Die();
    ASSERT_EQ(::umount2("/run/host/fuse", MNT_DETACH), 0);
    auto next = std::make_unique<FuseServer>("/run/host/fuse");
    ASSERT_TRUE(next->valid());
    const Reply there = Call(PlanKind::kInspectTarget, [](auto* body) {
      body->target = exec::Target("web", "app", "data");
    });
    const Reply reply =
        Replace("fuse", Propagation::kPrivate, there.body.mount.mount_id);
    ASSERT_EQ(ErrorOf(reply), "");
    EXPECT_EQ(::access(file.c_str(), F_OK), 0);
    server = std::move(next);
  }
  const Reply last = Call(PlanKind::kInspectTarget, [](auto* body) {
    body->target = exec::Target("web", "app", "data");
  });
  EXPECT_EQ(ErrorOf(Detach(last.body.mount.mount_id)), "");
  ASSERT_EQ(::umount2("/run/host/fuse", MNT_DETACH), 0);
}

}  // namespace
}  // namespace mountd::testing
