// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Unpublishing with and without the plugin, and the state that a restart finds.
#include <atomic>
#include <memory>
#include <thread>

#include "tests/support/eventually.h"
#include "tests/unit/csi-node/node/volumes_fixture.h"

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
      client().FailNext(method, code, FailWhen::kBefore,
                        CallScript<RpcError>::kAlways);
      EXPECT_NE(Outcome(Unpublish()), "Ok");
      client().script().Clear();
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

// ---- While the plugin is away ----

class DepartedVolumesTest : public VolumesTest {
 protected:
  void GoAway() {
    executor().SetListening("nfs", false);
    executor().HangUp("nfs");
    ASSERT_TRUE(core_.events.Await("nfs unhealthy 1"));
  }
  void ComeBack() {
    executor().SetListening("nfs", true);
    ASSERT_TRUE(core_.events.Await("nfs healthy 2"));
  }
  Result<void> Finish() { return core_.volumes->FinishDeparted("nfs", "v1"); }
  std::vector<OwedRecord> Owed() {
    return core_.state->owed.ListOwed().value();
  }
};

TEST_F(DepartedVolumesTest, AVolumeIsDetachedAndItsUnstageOwed) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  GoAway();
  ASSERT_EQ(MessageOf(Unpublish()), "Ok");
  EXPECT_FALSE(Publication().has_value());
  const Texts left{"directory nfs/staging/" + kKey.str(), "plugin nfs"};
  EXPECT_EQ(executor().Existing(), left);
  ASSERT_EQ(Owed().size(), 1U);
  EXPECT_EQ(Owed()[0].kind, OwedKind::kUnstage);
  EXPECT_EQ(Owed()[0].object, "nfs/v1");
  EXPECT_EQ(Owed()[0].uid, Core::kAgent);
  EXPECT_EQ(Outcome(Finish()), "Unavailable");
  ComeBack();
  ASSERT_EQ(MessageOf(Finish()), "Ok");
  EXPECT_EQ(Calls("NodeUnpublishVolume"), 1U);
  EXPECT_TRUE(Owed().empty());
  ExpectNothing();
}

TEST_F(DepartedVolumesTest, NothingIsOwedForAVolumeThatIsNotThere) {
  ASSERT_EQ(Outcome(core_.state->owed.AddOwed(
                {0, OwedKind::kUnstage, "nfs/v1", Core::kAgent, "away", 1, 1})),
            "Ok");
  EXPECT_EQ(MessageOf(Finish()), "Ok");
  EXPECT_TRUE(Owed().empty());
  EXPECT_EQ(Calls("NodeUn"), 0U);
}

TEST_F(DepartedVolumesTest, AReceiptSaysWhatIsOwedUntilItIsNot) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  GoAway();
  const CallContext call = Core::By(Core::kAgent);
  const auto receipt =
      core_.services->allocations.ReleaseAllocation(call, NameOf("web"));
  ASSERT_EQ(MessageOf(receipt), "Ok");
  ASSERT_EQ(receipt->volumes.size(), 1U);
  EXPECT_TRUE(receipt->volumes[0].owed);
  EXPECT_FALSE(receipt->volumes[0].unstaged);
  ASSERT_EQ(Owed().size(), 1U);
  ComeBack();
  ASSERT_EQ(MessageOf(core_.services->node.RetryOwed(Owed()[0])), "Ok");
  const auto later =
      core_.services->allocations.GetReceipt(call, NameOf("web"));
  ASSERT_EQ(MessageOf(later), "Ok");
  EXPECT_FALSE(later->volumes[0].owed);
  EXPECT_TRUE(later->volumes[0].unstaged);
  ExpectNothing();
}

TEST_F(DepartedVolumesTest, AnAllocationNamedAsThePluginForgivesNothing) {
  ASSERT_EQ(Outcome(core_.state->allocations.AddAllocation(
                {"nfs", Core::kAgent, 1, "", AllocationState::kPrepared})),
            "Ok");
  ASSERT_EQ(MessageOf(Publish(Spec("nfs"))), "Ok");
  GoAway();
  ASSERT_EQ(MessageOf(core_.services->allocations.ReleaseAllocation(
                Core::By(Core::kAgent), NameOf("nfs"))),
            "Ok");
  EXPECT_EQ(Owed().size(), 1U);
}

TEST_F(DepartedVolumesTest, OthersKeepTheVolumeStaged) {
  ASSERT_EQ(MessageOf(Publish(Spec("web"))), "Ok");
  ASSERT_EQ(MessageOf(Publish(Spec("db"))), "Ok");
  GoAway();
  ASSERT_EQ(MessageOf(Unpublish("web")), "Ok");
  EXPECT_EQ(Volume()->state, VolumeState::kStaged);
  ComeBack();
  ASSERT_EQ(MessageOf(Finish()), "Ok");
  EXPECT_TRUE(Owed().empty());
  EXPECT_EQ(Calls("NodeUnstageVolume"), 0U);
  EXPECT_EQ(client().Staged().size(), 1U);
  EXPECT_EQ(client().Published().size(), 1U);
  EXPECT_TRUE(Publication("db").has_value());
  ASSERT_EQ(MessageOf(Unpublish("db")), "Ok");
  ExpectNothing();
}

TEST_F(DepartedVolumesTest, WhoeverPublishesAgainTellsThePluginFirst) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  GoAway();
  ASSERT_EQ(MessageOf(Unpublish()), "Ok");
  EXPECT_EQ(Outcome(Publish()), "Unavailable");
  ComeBack();
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  EXPECT_EQ(Calls("NodeUnpublishVolume"), 1U);
  // The first staging had become uncertain.
  EXPECT_EQ(Calls("NodeStageVolume"), 2U);
  ASSERT_EQ(MessageOf(Finish()), "Ok");
  EXPECT_TRUE(Owed().empty());
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  ASSERT_EQ(MessageOf(Unpublish()), "Ok");
  ExpectNothing();
}

TEST_F(DepartedVolumesTest, TheLastUserSettlesWhatIsOwedToThoseBefore) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  GoAway();
  const CallContext call = Core::By(Core::kAgent);
  ASSERT_EQ(MessageOf(core_.services->allocations.ReleaseAllocation(
                call, NameOf("web"))),
            "Ok");
  ComeBack();
  ASSERT_EQ(MessageOf(Publish(Spec("db"))), "Ok");
  ASSERT_EQ(MessageOf(Unpublish("db")), "Ok");
  EXPECT_TRUE(Owed().empty());
  const auto receipt =
      core_.services->allocations.GetReceipt(call, NameOf("web"));
  ASSERT_EQ(MessageOf(receipt), "Ok");
  EXPECT_FALSE(receipt->volumes.at(0).owed);
  EXPECT_TRUE(receipt->volumes.at(0).unstaged);
  ExpectNothing();
}

TEST_F(DepartedVolumesTest, ARestartForgetsNothingThatIsOwed) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  GoAway();
  ASSERT_EQ(MessageOf(Unpublish()), "Ok");
  core_.Restart();
  ASSERT_EQ(MessageOf(core_.plugins->Recover()), "Ok");
  ASSERT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
  ASSERT_EQ(Owed().size(), 1U);
  executor().SetListening("nfs", true);
  ASSERT_TRUE(core_.events.Await("nfs healthy 1"));
  ASSERT_EQ(MessageOf(Finish()), "Ok");
  ExpectNothing();
}

TEST_F(DepartedVolumesTest, APluginThatDiesBetweenTheTwoIsOwedTheUnstage) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  client().FailNext("NodeUnstageVolume", RpcCode::kUnavailable);
  client().script().Block("NodeUnstageVolume");
  std::jthread down([&] { EXPECT_EQ(MessageOf(Unpublish()), "Ok"); });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeUnstageVolume"));
  GoAway();
  client().script().Unblock("NodeUnstageVolume");
  down.join();
  EXPECT_FALSE(Publication().has_value());
  ASSERT_EQ(Owed().size(), 1U);
  ComeBack();
  ASSERT_EQ(MessageOf(Finish()), "Ok");
  ExpectNothing();
}

// ---- After a restart ----

// A plugin that runs, but that mountd has not probed yet.
class RestartedVolumesTest : public DepartedVolumesTest {
 protected:
  void SetUp() override {
    DepartedVolumesTest::SetUp();
    ASSERT_EQ(MessageOf(Publish()), "Ok");
    client().script().Block("Probe");
    core_.Restart();
    ASSERT_EQ(MessageOf(core_.plugins->Recover()), "Ok");
    ASSERT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
    ASSERT_TRUE(client().script().AwaitBlocked("Probe"));
  }
  bool IsAwaited() {
    return testing::Eventually(
        [&] { return progress_.Get().step == Step::kPlugin; });
  }

  const Progress progress_{};
};

TEST_F(RestartedVolumesTest, ItIsTheOneThatUnpublishes) {
  std::jthread down([&] {
    EXPECT_EQ(MessageOf(core_.volumes->Unpublish("web", "alias", progress_)),
              "Ok");
  });
  EXPECT_TRUE(IsAwaited());
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  client().script().Unblock("Probe");
  down.join();
  EXPECT_EQ(Calls("NodeUnpublishVolume"), 1U);
  EXPECT_TRUE(Owed().empty());
  ExpectNothing();
}

TEST_F(RestartedVolumesTest, ItIsTheOneThatPublishes) {
  std::jthread up([&] {
    EXPECT_EQ(MessageOf(core_.volumes->Publish(Spec("db"), UniqueFd(), nullptr,
                                               progress_)),
              "Ok");
  });
  EXPECT_TRUE(IsAwaited());
  EXPECT_FALSE(Publication("db").has_value());
  client().script().Unblock("Probe");
  up.join();
  EXPECT_EQ(Calls("NodePublishVolume"), 2U);
}

TEST_F(RestartedVolumesTest, WhoGivesUpMeanwhileHasDoneNothing) {
  const CancelToken cancelled = std::make_shared<std::atomic<bool>>(false);
  std::jthread up([&] {
    EXPECT_EQ(Outcome(core_.volumes->Publish(Spec("db"), UniqueFd(), cancelled,
                                             progress_)),
              "Aborted");
  });
  EXPECT_TRUE(IsAwaited());
  *cancelled = true;
  client().script().Unblock("Probe");
  up.join();
  EXPECT_FALSE(Publication("db").has_value());
}

TEST_F(RestartedVolumesTest, OneThatIsNotReadyIsAwaitedOnce) {
  client().SetReady("nfs", false);
  std::jthread down([&] {
    EXPECT_EQ(MessageOf(core_.volumes->Unpublish("web", "alias", progress_)),
              "Ok");
  });
  EXPECT_TRUE(IsAwaited());
  client().script().Unblock("Probe");
  down.join();
  EXPECT_EQ(Calls("NodeUnpublishVolume"), 0U);
  EXPECT_EQ(Owed().size(), 1U);
  EXPECT_EQ(Outcome(Publish(Spec("db"))), "Unavailable");
}

TEST_F(RestartedVolumesTest, WhatIsPublishedIsToldWithoutIt) {
  EXPECT_EQ(MessageOf(Publish()), "Ok");
  client().script().Unblock("Probe");
}

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
  executor().PutVolume("nfs", part);  // puts another mount there
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
  ASSERT_EQ(Outcome(core_.state->volumes.SetPublicationState(web)), "Ok");
  ASSERT_EQ(Outcome(core_.state->volumes.SetPublicationState(db)), "Ok");
  ASSERT_EQ(Outcome(core_.state->volumes.SetVolumeState(
                kKey, VolumeState::kUnstaging)),
            "Ok");
  core_.Restart();
  ASSERT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
  EXPECT_EQ(Publication("web")->state, PublicationState::kUncertain);
  EXPECT_EQ(Publication("db")->state, PublicationState::kUnpublishing);
  EXPECT_EQ(Volume()->state, VolumeState::kUncertain);
}

}  // namespace
}  // namespace mountd::csi
