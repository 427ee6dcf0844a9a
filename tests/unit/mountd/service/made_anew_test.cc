// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Objects that are made again under the name of an object with a pending
// tear-down.
#include <gtest/gtest.h>

#include "mountd/service/services.h"
#include "tests/support/outcome.h"
#include "tests/unit/mountd/service/core_fixture.h"

namespace mountd {
namespace {

class MadeAnewTest : public CoreFixture {
 protected:
  MadeAnewTest() {
    EXPECT_EQ(MessageOf(services().allocations.PrepareAllocation(
                  agent_, NameOf("web"), "")),
              "Ok");
    spec_.allocation = "web";
    spec_.task = "task";
    spec_.name = "d";
    spec_.wish.source_kind = exec::SourceKind::kHostVolume;
    spec_.wish.source = "data";
  }

  BindMountRequest spec_;
};

TEST_F(MadeAnewTest, AMountIsNotUnmountedByWhatWasOwed) {
  ASSERT_EQ(MessageOf(services().mounts.BindMount(agent_, spec_)), "Ok");
  executor().FailNext("Detach", Code::kUnavailable);
  EXPECT_EQ(Outcome(services().mounts.Unmount(agent_, NameOf("web"),
                                              NameOf("task"), NameOf("d"))),
            "Unavailable");
  const auto owed = services().node.ListOwed(agent_).value();
  ASSERT_EQ(owed.size(), 1U);
  ASSERT_EQ(MessageOf(services().mounts.BindMount(agent_, spec_)), "Ok");
  EXPECT_TRUE(services().node.ListOwed(CallContext{})->empty());
  EXPECT_EQ(MessageOf(services().node.RetryOwed(owed[0])), "Ok");
  EXPECT_NE(executor().MountIdOf("web/task/d"), 0U);
}

TEST_F(MadeAnewTest, ANetworkIsNotTornDownByWhatWasOwed) {
  ASSERT_EQ(
      MessageOf(services().networks.SetupNetwork(agent_, NameOf("web"), {})),
      "Ok");
  executor().FailNext("DeleteNetwork", Code::kUnavailable);
  EXPECT_EQ(Outcome(services().networks.TeardownNetwork(agent_, NameOf("web"))),
            "Unavailable");
  const auto owed = services().node.ListOwed(agent_).value();
  ASSERT_EQ(owed.size(), 1U);
  ASSERT_EQ(
      MessageOf(services().networks.SetupNetwork(agent_, NameOf("web"), {})),
      "Ok");
  EXPECT_EQ(MessageOf(services().node.RetryOwed(owed[0])), "Ok");
  EXPECT_FALSE(services()
                   .allocations.GetAllocation(agent_, NameOf("web"))
                   ->networks.empty());
}

}  // namespace
}  // namespace mountd
