// SPDX-License-Identifier: LGPL-2.1-or-later
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/statvfs.h>

#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

using exec::Propagation;
using exec::Reply;

class HostVolumes : public ExecutorFixture {
 protected:
  void SetUp() override {
    ExecutorFixture::SetUp();
    if (!IsSkipped()) {
      PrepareBase();
    }
  }
  // Returns the code of a refused Attach, which must leave nothing.
  std::string RefusalOf(const std::string& volume, Propagation mode) {
    const Inventory before = Inventory::Take();
    const Reply reply = Attach(volume, mode);
    EXPECT_EQ(Difference(before, Inventory::Take()), "");
    return CodeOf(reply);
  }
};

TEST_F(HostVolumes, OneThatIsNotDeclaredIsNotFound) {
  EXPECT_EQ(RefusalOf("other", Propagation::kPrivate), "NotFound");
  EXPECT_EQ(RefusalOf("missing", Propagation::kPrivate), "NotFound");
}

TEST_F(HostVolumes, AModeThatIsNotDeclaredIsDenied) {
  EXPECT_EQ(RefusalOf("ro", Propagation::kHostToTask), "PermissionDenied");
  EXPECT_EQ(RefusalOf("ro", Propagation::kBidirectional), "PermissionDenied");
}

TEST_F(HostVolumes, AReadOnlyOneIsReadOnlyUnasked) {
  ASSERT_EQ(ErrorOf(Attach("ro", Propagation::kPrivate)), "");
  struct statvfs st = {};
  ASSERT_EQ(::statvfs(kTarget, &st), 0);
  EXPECT_NE(st.f_flag & ST_RDONLY, 0U);
}

TEST_F(HostVolumes, WhoIsToldOfAMountMayHaveItsSourceAway) {
  MountTmpfs("/run/host/data");
  int error = -1;
  when_told_ = [&] { error = ::umount2("/run/host/data", 0) == 0 ? 0 : errno; };
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  EXPECT_EQ(error, 0);
}

// An older kernel reuses mount ids, so the executor keeps an fd of the file
// system (attach.cc), and none of a mount.
TEST_F(HostVolumes, SoItIsOnAnOlderKernel) {
  kernel_.HideUniqueMountIds();
  dispatcher_.emplace(kernel_, config_);
  MountTmpfs("/run/host/data");
  int error = -1;
  when_told_ = [&] { error = ::umount2("/run/host/data", 0) == 0 ? 0 : errno; };
  const Reply told = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(told), "");
  EXPECT_EQ(error, 0);
  EXPECT_EQ(ErrorOf(Detach(told.body.mount.mount_id)), "");
}

TEST_F(HostVolumes, LinksInThePathAreNotFollowed) {
  EXPECT_EQ(RefusalOf("link", Propagation::kPrivate), "InvalidArgument");
  EXPECT_EQ(RefusalOf("last-link", Propagation::kPrivate), "InvalidArgument");
}

TEST_F(HostVolumes, TheKernelsFileSystemsAndTheBaseAreRefused) {
  EXPECT_EQ(RefusalOf("proc", Propagation::kPrivate), "FailedPrecondition");
  EXPECT_EQ(RefusalOf("base", Propagation::kPrivate), "FailedPrecondition");
  EXPECT_EQ(RefusalOf("above", Propagation::kPrivate), "FailedPrecondition");
  MakeDirectories("/run/host/moved-proc");
  ASSERT_EQ(::mount("proc", "/run/host/moved-proc", "proc", 0, nullptr), 0);
  EXPECT_EQ(CodeOf(Attach("moved-proc", Propagation::kPrivate)),
            "FailedPrecondition");
}

TEST_F(HostVolumes, TheBaseBoundElsewhereIsRefused) {
  ASSERT_EQ(::mount("/run/mountd/base/a", "/run/host/data", nullptr, MS_BIND,
                    nullptr),
            0);
  EXPECT_EQ(RefusalOf("data", Propagation::kPrivate), "FailedPrecondition");
}

TEST_F(HostVolumes, APlainDirectoryIsAnchoredOnceAndReleased) {
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  const Reply one = Attach("data", Propagation::kPrivate);
  const Reply two = Attach("data", Propagation::kBidirectional, "other");
  EXPECT_NE(one.body.mount.anchor_id, 0U);
  EXPECT_EQ(one.body.mount.anchor_id, two.body.mount.anchor_id);
  EXPECT_EQ(ErrorOf(Detach(one.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(Detach(two.body.mount.mount_id, "other")), "");
  EXPECT_EQ(CodeOf(ReleaseHostVolume("data", one.body.mount.anchor_id)), "");
  EXPECT_EQ(CodeOf(ReleaseHostVolume("data", one.body.mount.anchor_id)), "");
  const Reply next = Attach("data", Propagation::kPrivate);
  EXPECT_NE(next.body.mount.anchor_id, 0U);
  if (HasUniqueMountIds()) {
    EXPECT_NE(next.body.mount.anchor_id, one.body.mount.anchor_id);
  }
}

TEST_F(HostVolumes, AnAnchorKeepsTheFlagsTheDirectoryHad) {
  struct statvfs before = {};
  ASSERT_EQ(::statvfs("/run/host/data", &before), 0);
  ASSERT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
  struct statvfs after = {};
  ASSERT_EQ(::statvfs("/run/host/data", &after), 0);
  EXPECT_EQ(before.f_flag, after.f_flag);
}

TEST_F(HostVolumes, AnAnchorInUseOrCoveredIsNotReleased) {
  const Reply reply = Attach("data", Propagation::kPrivate);
  UniqueFd held(::open("/run/host/data/file", O_RDONLY | O_CLOEXEC));
  const std::uint64_t anchor = reply.body.mount.anchor_id;
  EXPECT_EQ(CodeOf(ReleaseHostVolume("data", anchor)), "Busy");
  held.reset();
  MountTmpfs("/run/host/data/sub");
  EXPECT_EQ(CodeOf(ReleaseHostVolume("data", anchor)), "Busy");
  Unmount("/run/host/data/sub");
  MountTmpfs("/run/host/data");
  EXPECT_EQ(CodeOf(ReleaseHostVolume("data", anchor)), "FailedPrecondition");
  Unmount("/run/host/data");
  EXPECT_EQ(CodeOf(ReleaseHostVolume("data", anchor)), "");
}

TEST_F(HostVolumes, AnAnchorWhoseIdWasLostIsReleased) {
  const Inventory before = Inventory::Take();
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  const Reply reply = Attach("data", Propagation::kPrivate);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", reply.body.mount.anchor_id + 1)),
            "");
  EXPECT_NE(Difference(before, Inventory::Take()), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(HostVolumes, AnAnchorIsReleasedThoughTheVolumeIsDeclaredNoLonger) {
  const Inventory before = Inventory::Take();
  const Reply reply = Attach("data", Propagation::kPrivate);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  config_.host_volumes.erase("data");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", reply.body.mount.anchor_id)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("never-declared", 0)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(HostVolumes, AnAnchorIsNotForgottenWhenTheVolumesPathChanges) {
  const Inventory before = Inventory::Take();
  const Reply first = Attach("data", Propagation::kPrivate);
  config_.host_volumes["data"].path = "/run/host/real";
  EXPECT_EQ(CodeOf(Attach("data", Propagation::kPrivate, "other")),
            "FailedPrecondition");
  EXPECT_EQ(ErrorOf(Detach(first.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  const Reply second = Attach("data", Propagation::kPrivate);
  EXPECT_EQ(ErrorOf(second), "");
  EXPECT_EQ(ErrorOf(Detach(second.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(HostVolumes, AnAdministratorsSelfBindIsUsedButIsNoAnchor) {
  ASSERT_EQ(
      ::mount("/run/host/data", "/run/host/data", nullptr, MS_BIND, nullptr),
      0);
  ASSERT_EQ(::mount(nullptr, "/run/host/data", nullptr, MS_SHARED, nullptr), 0);
  const Reply reply = Attach("data", Propagation::kBidirectional);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.mount.anchor_id, 0U);
}

TEST_F(HostVolumes, APrivateMountCanOnlyBeAttachedPrivate) {
  ASSERT_EQ(::mount("tmpfs", "/run/host/data", "tmpfs", 0, nullptr), 0);
  EXPECT_EQ(RefusalOf("data", Propagation::kHostToTask), "FailedPrecondition");
  EXPECT_EQ(RefusalOf("data", Propagation::kBidirectional),
            "FailedPrecondition");
  EXPECT_EQ(ErrorOf(Attach("data", Propagation::kPrivate)), "");
}

TEST_F(HostVolumes, ASlaveMountCannotBeBidirectional) {
  ASSERT_EQ(::mount("tmpfs", "/run/host/ro", "tmpfs", 0, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, "/run/host/ro", nullptr, MS_SHARED, nullptr), 0);
  ASSERT_EQ(
      ::mount("/run/host/ro", "/run/host/data", nullptr, MS_BIND, nullptr), 0);
  ASSERT_EQ(::mount(nullptr, "/run/host/data", nullptr, MS_SLAVE, nullptr), 0);
  EXPECT_EQ(RefusalOf("data", Propagation::kBidirectional),
            "FailedPrecondition");
  EXPECT_EQ(ErrorOf(Attach("data", Propagation::kHostToTask)), "");
  MountTmpfs("/run/host/ro/sub");
  EXPECT_TRUE(Exists(std::string(kTarget) + "/sub/mark"));
}

TEST_F(HostVolumes, ADirectoryWithMountsBelowIsUsedWithoutAnAnchor) {
  MountTmpfs("/run/host/data/sub");
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_EQ(reply.body.mount.anchor_id, 0U);
  EXPECT_TRUE(Exists(std::string(kTarget) + "/sub/mark"));
  EXPECT_EQ(RefusalOf("data", Propagation::kHostToTask), "FailedPrecondition");
}

TEST_F(HostVolumes, AnotherMountInTheAnchorsPlaceIsNotTakenForIt) {
  if (!HasUniqueMountIds()) {
    GTEST_SKIP() << "this kernel uses mount ids again (until Linux 6.8)";
  }
  const Reply reply = Attach("data", Propagation::kPrivate);
  const std::uint64_t anchor = reply.body.mount.anchor_id;
  Unmount("/run/host/data");
  ASSERT_EQ(
      ::mount("/run/host/data", "/run/host/data", nullptr, MS_BIND, nullptr),
      0);
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", anchor)), "");
  Unmount("/run/host/data");
}

// Before Linux 6.8 the next mount gets the lowest free id.
TEST_F(HostVolumes, AnotherMountThatHasTheAnchorsIdIsNotTakenForIt) {
  kernel_.HideUniqueMountIds();
  dispatcher_.emplace(kernel_, config_);
  MakeDirectories("/run/host/others");
  bool used_again = false;
  for (int i = 0; i < 1000 && !used_again; ++i) {
    const Reply reply = Attach("data", Propagation::kPrivate);
    ASSERT_EQ(ErrorOf(reply), "");
    const std::uint64_t anchor = reply.body.mount.anchor_id;
    EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
    Unmount("/run/host/data");
    MountTmpfs("/run/host/others");
    used_again = kernel_.Stat(-1, "/run/host/others")->mount_id == anchor;
    EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", anchor)), "");
    EXPECT_TRUE(Exists("/run/host/others/mark"));
    Unmount("/run/host/others");
  }
  EXPECT_TRUE(used_again);
}

// A rename of the directory above moves the anchor, too.
TEST_F(HostVolumes, AnAnchorIsReleasedWhereverItIsNow) {
  MakeDirectories("/run/host/above/volume");
  config_.host_volumes["data"].path = "/run/host/above/volume";
  const Inventory before = Inventory::Take();
  const Reply reply = Attach("data", Propagation::kPrivate);
  ASSERT_EQ(::rename("/run/host/above", "/run/host/elsewhere"), 0);
  EXPECT_EQ(ErrorOf(Detach(reply.body.mount.mount_id)), "");
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", reply.body.mount.anchor_id)), "");
  ASSERT_EQ(::rename("/run/host/elsewhere", "/run/host/above"), 0);
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

}  // namespace
}  // namespace mountd::testing
