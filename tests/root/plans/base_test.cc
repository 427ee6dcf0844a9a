// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/base.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "tests/root/executor_fixture.h"

namespace mountd::testing {
namespace {

using exec::PlanBody;
using exec::PlanKind;
using exec::Reply;
using exec::ToWire;

class Base : public ExecutorFixture {
 protected:
  Reply Allocation(PlanKind kind, const char* name, std::uint32_t uid = 0) {
    return Call(kind, [&](PlanBody* body) {
      body->allocation = {ToWire(name), uid};
    });
  }
};

TEST_F(Base, IsASharedTmpfsOfRootsThatNobodyMayList) {
  const Reply reply = Call(PlanKind::kPrepareBase);
  ASSERT_EQ(ErrorOf(reply), "");
  EXPECT_NE(reply.body.mount.mount_id, 0U);
  EXPECT_NE(reply.body.mount.peer_group, 0U);
  EXPECT_EQ(reply.body.mount.master, 0U);
  struct stat st = {};
  ASSERT_EQ(::stat("/run/mountd/base", &st), 0);
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFDIR | 0711));
}

TEST_F(Base, IsBoundedInBytesAndFiles) {
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
  struct statvfs st = {};
  ASSERT_EQ(::statvfs("/run/mountd/base", &st), 0);
  EXPECT_EQ(st.f_blocks * st.f_frsize, propagation::kBaseBytes);
  EXPECT_EQ(st.f_files, propagation::kBaseFiles);
}

TEST_F(Base, PreparingItAgainAnswersTheSameMount) {
  const Reply first = Call(PlanKind::kPrepareBase);
  const Inventory before = Inventory::Take();
  const Reply second = Call(PlanKind::kPrepareBase);
  EXPECT_EQ(first.body.mount.mount_id, second.body.mount.mount_id);
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(Base, IsSharedAgainIfAnInterruptedPlanLeftItPrivate) {
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
  ASSERT_EQ(::mount(nullptr, "/run/mountd/base", nullptr, MS_PRIVATE, nullptr),
            0);
  EXPECT_NE(Call(PlanKind::kPrepareBase).body.mount.peer_group, 0U);
}

TEST_F(Base, IsRefusedWhereOthersMayRename) {
  ASSERT_EQ(::chmod("/run/mountd", 0777), 0);
  const Inventory before = Inventory::Take();
  EXPECT_EQ(CodeOf(Call(PlanKind::kPrepareBase)), "FailedPrecondition");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(Base, IsRefusedBehindALink) {
  ASSERT_EQ(::rmdir("/run/mountd"), 0);
  ASSERT_EQ(::symlink("/run/host", "/run/mountd"), 0);
  EXPECT_EQ(CodeOf(Call(PlanKind::kPrepareBase)), "InvalidArgument");
}

TEST_F(Base, IsRefusedIfAnotherFileSystemIsThere) {
  MountTmpfs("/run/mountd/base");
  EXPECT_EQ(CodeOf(Call(PlanKind::kPrepareBase)), "FailedPrecondition");
}

TEST_F(Base, AnAllocationsDirectoryIsRootsAndLetsItsOwnerPass) {
  PrepareBase();
  struct stat st = {};
  ASSERT_EQ(::stat("/run/mountd/base/a/web", &st), 0);
  EXPECT_EQ(st.st_mode, static_cast<mode_t>(S_IFDIR | 0710));
  EXPECT_EQ(st.st_uid, 0U);
  EXPECT_EQ(st.st_gid, 0U);
}

TEST_F(Base, PreparingAnAllocationAgainSucceedsForTheSameUserOnly) {
  PrepareBase();
  EXPECT_EQ(CodeOf(Allocation(PlanKind::kPrepareAllocation, "web", 1234)), "");
  EXPECT_EQ(CodeOf(Allocation(PlanKind::kPrepareAllocation, "web", 1235)),
            "FailedPrecondition");
}

TEST_F(Base, AnAllocationNeedsTheBase) {
  EXPECT_NE(CodeOf(Allocation(PlanKind::kPrepareAllocation, "web", 1)), "");
}

TEST_F(Base, RemovingAnAllocationTakesEmptyMountpointsWithIt) {
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
  const Inventory before = Inventory::Take();
  PrepareBase();
  MakeDirectories("/run/mountd/base/a/web/app/data");
  WriteFile("/run/mountd/base/a/web/app/file", "");
  EXPECT_EQ(ErrorOf(Allocation(PlanKind::kRemoveAllocation, "web")), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_EQ(ErrorOf(Allocation(PlanKind::kRemoveAllocation, "web")), "");
}

TEST_F(Base, MountsThatNobodyHasARecordOfGoWithTheirAllocation) {
  ASSERT_EQ(ErrorOf(Call(PlanKind::kPrepareBase)), "");
  const Inventory before = Inventory::Take();
  PrepareBase();
  for (const exec::Propagation mode :
       {exec::Propagation::kPrivate, exec::Propagation::kHostToTask,
        exec::Propagation::kBidirectional}) {
    PrepareBase();
    ASSERT_EQ(ErrorOf(Attach("data", mode)), "");
    ASSERT_EQ(ErrorOf(Attach("file", exec::Propagation::kPrivate, "one")), "");
    MountTmpfs("/run/host/data/sub");
    ASSERT_EQ(ErrorOf(Allocation(PlanKind::kRemoveAllocation, "web")), "");
    EXPECT_TRUE(Exists("/run/host/data/file"));
    EXPECT_TRUE(Exists("/run/host/data/sub/mark"));
    Unmount("/run/host/data/sub");
  }
  EXPECT_EQ(ErrorOf(ReleaseHostVolume("data", 0)), "");
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
}

TEST_F(Base, AnAllocationWithAMountInUseIsNotRemoved) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Attach("data", exec::Propagation::kPrivate)), "");
  const Inventory before = Inventory::Take();
  UniqueFd held(
      ::open((std::string(kTarget) + "/file").c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(CodeOf(Allocation(PlanKind::kRemoveAllocation, "web")), "Busy");
  held.reset();
  EXPECT_EQ(Difference(before, Inventory::Take()), "");
  EXPECT_EQ(ErrorOf(Allocation(PlanKind::kRemoveAllocation, "web")), "");
}

TEST_F(Base, NoOtherMountIsDetachedWithAnAllocation) {
  PrepareBase();
  ASSERT_EQ(ErrorOf(Attach("data", exec::Propagation::kPrivate)), "");
  for (const char* path :
       {kTarget, "/run/mountd/base/a/web/app", "/run/mountd/base/a/web"}) {
    MountTmpfs(path);
    MakeDirectories(std::string(path) + "/deep/er");
    const Inventory before = Inventory::Take();
    EXPECT_EQ(CodeOf(Allocation(PlanKind::kRemoveAllocation, "web")), "Busy");
    EXPECT_EQ(Difference(before, Inventory::Take()), "") << path;
    Unmount(path);
  }
  EXPECT_EQ(ErrorOf(Allocation(PlanKind::kRemoveAllocation, "web")), "");
}

}  // namespace
}  // namespace mountd::testing
