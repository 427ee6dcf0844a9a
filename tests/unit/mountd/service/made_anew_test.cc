// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Objects that are made again under the name of an object with a pending
// tear-down.
#include <gtest/gtest.h>

#include "mountd/service/services.h"
#include "tests/support/matchers.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

class MadeAnewTest : public CoreFixture {
 protected:
  MadeAnewTest() {
    EXPECT_THAT(
        services().allocations.PrepareAllocation(agent_, NameOf("web"), ""),
        IsOk());
    spec_.allocation = "web";
    spec_.task = "task";
    spec_.name = "d";
    spec_.wish.source_kind = exec::SourceKind::kHostVolume;
    spec_.wish.source = "data";
  }

  BindMountRequest spec_;
};

TEST_F(MadeAnewTest, AMountIsNotUnmountedByWhatWasOwed) {
  ASSERT_THAT(services().mounts.BindMount(agent_, spec_), IsOk());
  executor().FailNext("Detach", Code::kUnavailable);
  EXPECT_THAT(services().mounts.Unmount(agent_, NameOf("web"), NameOf("task"),
                                        NameOf("d")),
              IsErr(Code::kUnavailable));
  const auto owed = services().node.ListOwed(agent_).value();
  ASSERT_EQ(owed.size(), 1U);
  ASSERT_THAT(services().mounts.BindMount(agent_, spec_), IsOk());
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_THAT(services().node.RetryOwed(owed[0]), IsOk());
  EXPECT_NE(executor().MountIdOf("web/task/d"), 0U);
}

// No rule lets the administrator mount anything, or map any id.
TEST_F(MadeAnewTest, AnAdministratorRepairsAMountWithItsOwnersRights) {
  spec_.wish.ids.count = 1;
  spec_.wish.ids.extents[0] = {100'000, 5, 1};
  ASSERT_THAT(services().mounts.BindMount(agent_, spec_), IsOk());
  const std::uint64_t before = executor().MountIdOf("web/task/d");
  const auto repair = [&](std::uint32_t uid) {
    return services().mounts.RepairMount(Core::By(uid), NameOf("web"),
                                         NameOf("task"), NameOf("d"));
  };
  EXPECT_THAT(repair(Core::kOther), IsErr(Code::kPermissionDenied));
  EXPECT_EQ(executor().MountIdOf("web/task/d"), before);
  ASSERT_THAT(repair(Core::kAdmin), IsOk());
  EXPECT_NE(executor().MountIdOf("web/task/d"), before);
  EXPECT_EQ(executor().plans().back().body.attach.caller.uid, Core::kAgent);
  // The owner has lost the right meanwhile.
  MountRecord record = *core_.boot->mounts.GetMount("web", "task", "d").value();
  EXPECT_EQ(record.uid, Core::kAgent);
  record.wish.ids.extents[0].on_disk = 200'000;
  ASSERT_THAT(core_.boot->mounts.PutMount(record), IsOk());
  EXPECT_THAT(repair(Core::kAdmin), IsErr(Code::kPermissionDenied));
}

TEST_F(MadeAnewTest, ANetworkIsNotTornDownByWhatWasOwed) {
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  executor().FailNext("DeleteNetwork", Code::kUnavailable);
  EXPECT_THAT(services().networks.TeardownNetwork(agent_, NameOf("web")),
              IsErr(Code::kUnavailable));
  const auto owed = services().node.ListOwed(agent_).value();
  ASSERT_EQ(owed.size(), 1U);
  ASSERT_THAT(services().networks.SetupNetwork(agent_, NameOf("web"), {}),
              IsOk());
  EXPECT_THAT(services().node.RetryOwed(owed[0]), IsOk());
  EXPECT_FALSE(services()
                   .allocations.GetAllocation(agent_, NameOf("web"))
                   ->networks.empty());
}

}  // namespace
}  // namespace mountd
