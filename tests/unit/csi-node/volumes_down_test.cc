// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Unpublishing, and what a restart finds.
#include "tests/unit/csi-node/volumes_fixture.h"

namespace mountd::csi {
namespace {

TEST_F(VolumesTest, UnpublishingIsIdempotent) {
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  EXPECT_EQ(Calls("NodeUnpublishVolume"), 1U);
}

TEST_F(VolumesTest, NotFoundOnTheWayDownIsDone) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  client().FailNext("NodeUnpublishVolume", RpcCode::kNotFound,
                    FailWhen::kAfter);
  client().FailNext("NodeUnstageVolume", RpcCode::kNotFound, FailWhen::kAfter);
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  ExpectNothing();
}

TEST_F(VolumesTest, AnUnpublishThatFailsIsFinishedByTheNext) {
  for (const char* method : {"NodeUnpublishVolume", "NodeUnstageVolume"}) {
    for (const RpcCode code : {RpcCode::kUnavailable, RpcCode::kInternal}) {
      ASSERT_EQ(MessageOf(Publish()), "Ok");
      client().FailNext(method, code);
      EXPECT_NE(Outcome(Unpublish()), "Ok");
      EXPECT_EQ(Publication()->state, PublicationState::kUnpublishing);
      EXPECT_EQ(Outcome(Publish()), "FailedPrecondition");
      EXPECT_EQ(MessageOf(Unpublish()), "Ok");
      ExpectNothing();
    }
  }
}

TEST_F(VolumesTest, AMountThatThePluginLeftIsBusy) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
  plugin.leaves_mounts = true;
  client().SetPlugin("nfs", plugin);
  EXPECT_EQ(Outcome(Unpublish()), "Busy");
  EXPECT_EQ(Publication()->state, PublicationState::kUnpublishing);
  EXPECT_EQ(Calls("NodeUnstageVolume"), 0U);
  client().SetPlugin("nfs", FakeCsiClient::DefaultPlugin("nfs"));
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  ExpectNothing();
}

TEST_F(VolumesTest, WithoutItsPluginAVolumeStaysUnpublishing) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  executor().SetListening("nfs", false);
  executor().HangUp("nfs");
  ASSERT_TRUE(core_.events.Await("nfs unhealthy 1"));
  EXPECT_EQ(Outcome(Unpublish()), "Unavailable");
  EXPECT_EQ(Publication()->state, PublicationState::kUnpublishing);
  executor().SetListening("nfs", true);
  ASSERT_TRUE(core_.events.Await("nfs healthy 2"));
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  ExpectNothing();
}

// ---- After a restart ----

TEST_F(VolumesTest, WhatIsAsRecordedStaysPublished) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  core_.Restart();
  ASSERT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  EXPECT_EQ(Volume()->state, VolumeState::kStaged);
}

TEST_F(VolumesTest, WhatIsNotAsRecordedIsUncertain) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  const std::string part = "publish/web/" + kKey.str();
  executor().PutVolume("nfs", part);  // another mount
  core_.Restart();
  ASSERT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
  EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
}

TEST_F(VolumesTest, AFileSystemThatDoesNotAnswerIsUncertain) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  core_.Restart();
  executor().FailNext("InspectVolumeDir", Code::kDeadlineExceeded);
  EXPECT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
  EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
}

TEST_F(VolumesTest, WhatWasUnderWayIsUncertain) {
  ASSERT_EQ(MessageOf(Publish(Spec("web"))), "Ok");
  ASSERT_EQ(MessageOf(Publish(Spec("db"))), "Ok");
  PublicationRecord web = Publication("web").value();
  web.state = PublicationState::kPublishing;
  PublicationRecord db = Publication("db").value();
  db.state = PublicationState::kUnpublishing;
  ASSERT_EQ(Outcome(core_.state->SetPublicationState(web)), "Ok");
  ASSERT_EQ(Outcome(core_.state->SetPublicationState(db)), "Ok");
  ASSERT_EQ(Outcome(core_.state->SetVolumeState(kKey, VolumeState::kUnstaging)),
            "Ok");
  core_.Restart();
  ASSERT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
  EXPECT_EQ(Publication("web")->state, PublicationState::kUncertain);
  EXPECT_EQ(Publication("db")->state, PublicationState::kUnpublishing);
  EXPECT_EQ(Volume()->state, VolumeState::kUncertain);
}

}  // namespace
}  // namespace mountd::csi
