// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/root/executor_fixture.h"
#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Propagation;
using exec::Reply;
using exec::Request;

class Mounts : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      PrepareBase();
      before_ = Inventory::Take();
    }
  }

  std::string UndoAll(const Reply& attached) {
    std::string errors = ErrorOf(Detach(attached.body.mount.mount_id));
    errors += ErrorOf(ReleaseHostVolume("data", attached.body.mount.anchor_id));
    return errors + Difference(before_, Inventory::Take());
  }

  Inventory before_;
};

TEST_F(Mounts, APrivateMountSharesNothingLater) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.mount.peer_group, 0U);
  EXPECT_EQ(reply.body.mount.master, 0U);
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  MountTmpfs("/run/host/data/sub");
  EXPECT_FALSE(Exists(std::string(kTarget) + "/sub/mark"));
  Unmount("/run/host/data/sub");
  MountTmpfs(std::string(kTarget) + "/sub");
  EXPECT_FALSE(Exists("/run/host/data/sub/mark"));
  Unmount(std::string(kTarget) + "/sub");
  EXPECT_EQ(UndoAll(reply), "");
}

TEST_F(Mounts, AHostToTaskMountGetsTheHostsLaterMountsOnly) {
  const Reply reply = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.mount.peer_group, 0U);
  EXPECT_EQ(reply.body.mount.master, reply.body.mount.source_peer_group);
  EXPECT_NE(reply.body.mount.master, 0U);
  MountTmpfs("/run/host/data/sub");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/sub/mark"));
  Unmount("/run/host/data/sub");
  EXPECT_FALSE(Exists(std::string(kTarget) + "/sub/mark"));
  MountTmpfs(std::string(kTarget) + "/sub");
  EXPECT_FALSE(Exists("/run/host/data/sub/mark"));
  Unmount(std::string(kTarget) + "/sub");
  EXPECT_EQ(UndoAll(reply), "");
}

TEST_F(Mounts, ABidirectionalMountSharesLaterMountsBothWays) {
  const Reply reply = Attach("data", Propagation::kBidirectional);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_NE(reply.body.mount.peer_group, 0U);
  EXPECT_EQ(reply.body.mount.peer_group, reply.body.mount.source_peer_group);
  MountTmpfs("/run/host/data/sub");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/sub/mark"));
  Unmount("/run/host/data/sub");
  MountTmpfs(std::string(kTarget) + "/sub");
  EXPECT_TRUE(Exists("/run/host/data/sub/mark"));
  Unmount(std::string(kTarget) + "/sub");
  EXPECT_EQ(UndoAll(reply), "");
}

TEST_F(Mounts, EachHasNosuidAndNodevAndWhatWasAskedFor) {
  struct statvfs st = {};
  const Reply plain = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(::statvfs(kTarget, &st), 0);
  EXPECT_EQ(st.f_flag & (ST_NOSUID | ST_NODEV | ST_RDONLY | ST_NOEXEC),
            static_cast<unsigned>(ST_NOSUID | ST_NODEV));
  ASSERT_EQ(ErrorOf(Detach(plain.body.mount.mount_id)), "");
  Request request = AttachRequest("data", Propagation::kHostToTask);
  request.body.attach.attributes = exec::kAllAttributes;
  ASSERT_EQ(ErrorOf(Send(request)), "");
  ASSERT_EQ(::statvfs(kTarget, &st), 0);
  constexpr unsigned kAll =
      ST_NOSUID | ST_NODEV | ST_RDONLY | ST_NOEXEC | ST_NOATIME;
  EXPECT_EQ(st.f_flag & kAll, kAll);
}

TEST_F(Mounts, NoLinkIsFollowedInAMountWithNosymfollow) {
  const std::string link = std::string(kTarget) + "/link";
  ASSERT_EQ(::symlink("/", "/run/host/data/link"), 0);
  const Reply plain = Attach("data", Propagation::kPrivate);
  struct stat there = {};
  EXPECT_EQ(::stat(link.c_str(), &there), 0);
  ASSERT_EQ(ErrorOf(Detach(plain.body.mount.mount_id)), "");
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.attributes = exec::kNoSymFollow;
  const Reply reply = Send(request);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(::stat(link.c_str(), &there), -1);
  EXPECT_EQ(errno, ELOOP);
  EXPECT_EQ(::lstat(link.c_str(), &there), 0);
  // The executor finds the attribute when it reads the mount back.
  const Reply again = Send(request);
  EXPECT_EQ(again.body.mount.mount_id, reply.body.mount.mount_id);
}

// A mount that lacks the attribute is not the one that the plan asks for.
TEST_F(Mounts, AMountWithoutNosymfollowIsNotTakenForOneWithIt) {
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.attributes = exec::kNoSymFollow;
  EXPECT_EQ(CodeOf(Send(request)), "AlreadyExists");
}

TEST_F(Mounts, ReadOnlyHoldsForTheMountsThatAreBelowTheSource) {
  MountTmpfs("/run/host/data/sub");
  Request request = AttachRequest("data", Propagation::kPrivate);
  request.body.attach.attributes = exec::kReadOnly;
  const Reply reply = Send(request);
  ASSERT_EQ(ErrorOf(reply), "");
  const std::string inner = std::string(kTarget) + "/sub/new";
  EXPECT_EQ(::open(inner.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600), -1);
  EXPECT_EQ(errno, EROFS);
  // Mounts below the target belong to the source, and go with the target only.
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_TRUE(Exists("/run/host/data/sub/mark"));
}

TEST_F(Mounts, TheSamePlanAgainAnswersTheMountThatIsThere) {
  const Reply first = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(first), "");
  const Inventory once = Inventory::Take();
  const Reply second = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(second), "");
  EXPECT_EQ(first.body.mount.mount_id, second.body.mount.mount_id);
  EXPECT_EQ(first.body.mount.anchor_id, second.body.mount.anchor_id);
  EXPECT_EQ(Difference(once, Inventory::Take()), "");
}

TEST_F(Mounts, ANameThatIsMountedAlreadyIsRefused) {
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  const Inventory once = Inventory::Take();
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kHostToTask)), "AlreadyExists");
  EXPECT_EQ(Difference(once, Inventory::Take()), "");
  EXPECT_EQ(CodeOf(Attach("ro", Propagation::kPrivate)), "AlreadyExists");
}

TEST_F(Mounts, AFileIsMountedOnAFile) {
  const Reply reply = Attach("file", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.mount.is_directory, 0U);
  EXPECT_EQ(reply.body.mount.anchor_id, 0U);
  struct stat st = {};
  ASSERT_EQ(::stat(kTarget, &st), 0);
  EXPECT_EQ(st.st_size, 7);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_EQ(Difference(before_, Inventory::Take()), "");
}

TEST_F(Mounts, DetachIsDoneOnlyOnceAndRefusesAnotherMount) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id + 1)),
            "FailedPrecondition");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
}

TEST_F(Mounts, AMountStackedOverOursIsNotTakenForIt) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  MountTmpfs(kTarget);
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "FailedPrecondition");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/mark"));
  Unmount(kTarget);
  EXPECT_EQ(UndoAll(reply), "");
}

TEST_F(Mounts, AMountInUseIsBusyAndStays) {
  const Reply reply = Attach("data", Propagation::kHostToTask);
  UniqueFd held(
      ::open((std::string(kTarget) + "/file").c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(held.valid());
  EXPECT_EQ(CodeOf(Detach(reply.body.mount.mount_id)), "Busy");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  held.reset();
  EXPECT_EQ(UndoAll(reply), "");
}

TEST_F(Mounts, DetachLeavesTheSourcesMountsInEveryMode) {
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    const Reply reply = Attach("data", mode);
    ASSERT_EQ(ErrorOf(reply), "");
    MountTmpfs("/run/host/data/sub");
    MountTmpfs("/run/host/data/sub/deep");
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    EXPECT_TRUE(Exists("/run/host/data/sub/mark"));
    EXPECT_TRUE(Exists("/run/host/data/sub/deep/mark"));
    Unmount("/run/host/data/sub/deep");
    Unmount("/run/host/data/sub");
    EXPECT_EQ(UndoAll(reply), "");
  }
}

TEST_F(Mounts, WhatIsMountedInADeadFileSystemGoesWithIt) {
  for (const Propagation mode :
       {Propagation::kPrivate, Propagation::kHostToTask,
        Propagation::kBidirectional}) {
    FuseServer server("/run/host/data");
    ASSERT_TRUE(server.valid()) << errno;
    ASSERT_EQ(::mount(nullptr, "/run/host/data", nullptr, MS_SHARED, nullptr),
              0);
    ASSERT_EQ(::mount("tmpfs", "/run/host/data/dir", "tmpfs", 0, nullptr), 0);
    const Reply reply = Attach("data", mode);
    ASSERT_EQ(ErrorOf(reply), "");
    server.Die();
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    EXPECT_FALSE(Exists(kTarget));
    ASSERT_EQ(::umount2("/run/host/data", MNT_DETACH), 0);
    EXPECT_EQ(Difference(before_, Inventory::Take()), "");
  }
}

TEST_F(Mounts, InspectSaysWhatIsThere) {
  const auto inspect = [&] {
    const Reply reply = Call(PlanKind::kInspectTarget, [](PlanBody* body) {
      body->target = exec::Target("web", "app", "data");
    });
    EXPECT_EQ(ErrorOf(reply), "");
    return reply.body.mount;
  };
  EXPECT_EQ(inspect().exists, 0U);
  const Reply reply = Attach("data", Propagation::kHostToTask);
  EXPECT_EQ(inspect().mount_id, reply.body.mount.mount_id);
  EXPECT_EQ(inspect().master, reply.body.mount.master);
  EXPECT_EQ(inspect().is_directory, 1U);
  Unmount(kTarget);
  EXPECT_EQ(inspect().mount_id, 0U);
  EXPECT_EQ(inspect().exists, 1U);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_EQ(inspect().exists, 0U);
}

TEST_F(Mounts, AHostToTaskMountFollowsTheSourceThoughCopiesOfItExist) {
  UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  UniqueFd copy(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  const Reply reply = Attach("data", Propagation::kHostToTask);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.mount.peer_group, 0U);
  EXPECT_EQ(reply.body.mount.master, reply.body.mount.source_peer_group);
  MountTmpfs("/run/host/data/sub");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/sub/mark"));
  Unmount("/run/host/data/sub");
  ASSERT_EQ(::setns(copy.get(), CLONE_NEWNS), 0);
  MountTmpfs(std::string(kTarget) + "/sub");
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  EXPECT_FALSE(Exists(std::string(kTarget) + "/sub/mark"));
  ASSERT_EQ(::setns(copy.get(), CLONE_NEWNS), 0);
  Unmount(std::string(kTarget) + "/sub");
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  copy.reset();
  home.reset();
  EXPECT_EQ(UndoAll(reply), "");
}

TEST_F(Mounts, AnotherMountNamespacesCopyGoesWithTheHosts) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  UniqueFd home(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::unshare(CLONE_NEWNS), 0);
  UniqueFd copy(::open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC));
  EXPECT_TRUE(Exists(std::string(kTarget) + "/file"));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  ASSERT_EQ(::setns(copy.get(), CLONE_NEWNS), 0);
  EXPECT_FALSE(Exists(std::string(kTarget) + "/file"));
  ASSERT_EQ(::setns(home.get(), CLONE_NEWNS), 0);
}

}  // namespace
}  // namespace mountd::testing
