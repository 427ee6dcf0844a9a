// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Networks whose making or deletion failed or was interrupted, and their state
// at the next call or start.
#include "tests/unit/mountd/networks/networks_test.h"

namespace mountd {
namespace {

TEST_F(NetworksTest, AFailureBeforeTheEffectLeavesNothing) {
  executor().FailNext("CreateNetwork", Code::kInternal);
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080))), "Internal");
  EXPECT_FALSE(RecordOf("web").has_value());
  EXPECT_TRUE(Existing().empty());
  EXPECT_EQ(MessageOf(networks().Setup("db", Spec(20080))), "Ok");
}

TEST_F(NetworksTest, AnUnknownOutcomeIsUndone) {
  executor().FailNext("CreateNetwork", Code::kDeadlineExceeded,
                      FailWhen::kAfter);
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080))), "DeadlineExceeded");
  EXPECT_FALSE(RecordOf("web").has_value());
  EXPECT_TRUE(Existing().empty());
}

TEST_F(NetworksTest, WhatCannotBeUndoneIsUndoneByTheNextSetup) {
  executor().FailNext("CreateNetwork", Code::kUnavailable, FailWhen::kAfter);
  executor().FailNext("DeleteNetwork", Code::kUnavailable);
  EXPECT_EQ(Outcome(networks().Setup("web", Spec(20080))), "Unavailable");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kDeleting);
  EXPECT_FALSE(Get("web").has_value());
  // Its port is not free before the network is gone.
  EXPECT_EQ(Outcome(networks().Setup("db", Spec(20080))), "AlreadyExists");
  const auto again = networks().Setup("web", Spec(20080));
  ASSERT_EQ(MessageOf(again), "Ok");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kCreated);
  EXPECT_EQ(executor().script().Count("DeleteNetwork"), 2U);
}

TEST_F(NetworksTest, ADeleteThatFailsIsTriedAgain) {
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  executor().SetBusy("web");
  EXPECT_EQ(Outcome(Teardown("web")), "Busy");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kDeleting);
  executor().SetBusy("web", false);
  EXPECT_EQ(MessageOf(Teardown("web")), "Ok");
  EXPECT_TRUE(Existing().empty());
}

// ---- After a restart ----

TEST_F(NetworksTest, AddressesOfRecordsAndOfTheQuarantineAreTaken) {
  executor().KeepLinks();
  ASSERT_EQ(MessageOf(networks().Setup("gone", Spec())), "Ok");
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  ASSERT_EQ(MessageOf(Teardown("gone")), "Ok");
  core_.Restart();
  core_.checks = 0;
  ASSERT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(core_.checks, 1);
  EXPECT_EQ(Free(), 3U);
  EXPECT_EQ(netns::ToString(networks().Setup("db", Spec())->ipv4), "10.0.0.4");
}

TEST_F(NetworksTest, WhatWasUnderWayIsRolledBack) {
  for (const auto state :
       {NetworkRecordState::kCreating, NetworkRecordState::kDeleting}) {
    const auto made = networks().Setup("web", Spec(20080));
    ASSERT_EQ(MessageOf(made), "Ok");
    NetworkRecord record = RecordOf("web").value();
    record.state = state;
    record.netns_inode =
        state == NetworkRecordState::kCreating ? 0 : made->netns_inode;
    ASSERT_EQ(Outcome(core_.boot->networks.SetNetworkState(record)), "Ok");
    core_.Restart();
    EXPECT_EQ(MessageOf(networks().Recover()), "Ok");
    EXPECT_FALSE(RecordOf("web").has_value());
    EXPECT_TRUE(Existing().empty());
  }
}

TEST_F(NetworksTest, ARollBackThatFailsDoesNotKeepFromStarting) {
  ASSERT_EQ(MessageOf(networks().Setup("web", Spec())), "Ok");
  executor().SetBusy("web");
  ASSERT_EQ(Outcome(Teardown("web")), "Busy");
  core_.Restart();
  EXPECT_EQ(MessageOf(networks().Recover()), "Ok");
  EXPECT_EQ(RecordOf("web")->state, NetworkRecordState::kDeleting);
  EXPECT_EQ(Free(), 4U);
}

}  // namespace
}  // namespace mountd
