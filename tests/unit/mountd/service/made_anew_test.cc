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
