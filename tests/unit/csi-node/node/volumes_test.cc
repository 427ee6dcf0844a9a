// SPDX-License-Identifier: LGPL-2.1-or-later
#include <sys/mman.h>

#include <thread>

#include "tests/support/naive.h"
#include "tests/unit/csi-node/node/volumes_fixture.h"

namespace mountd::csi {
namespace {

TEST_F(VolumesTest, PublishingStagesAndPublishes) {
  PublishSpec spec = Spec();
  spec.publish_context = {{"p", "1"}};
  spec.volume_context = {{"v", "2"}};
  const auto published = Publish(spec);
  ASSERT_EQ(MessageOf(published), "Ok");
  EXPECT_EQ(published->host_path,
            "/run/mountd/base/p/nfs/publish/web/" + kKey.str());
  EXPECT_FALSE(published->read_only);
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  EXPECT_NE(Publication()->mount_id, 0U);
  EXPECT_EQ(Volume()->state, VolumeState::kStaged);

  const StageRequest stage = client().last_stage();
  EXPECT_EQ(stage.volume_id, "v1");
  EXPECT_EQ(stage.staging_target_path,
            "/run/mountd/base/p/nfs/staging/" + kKey.str());
  EXPECT_EQ(stage.publish_context, spec.publish_context);
  EXPECT_EQ(stage.volume_context, spec.volume_context);
  EXPECT_EQ(stage.capability.mount_flags, Texts{"noatime"});
  const PublishRequest publish = client().last_publish();
  EXPECT_EQ(publish.staging_target_path, stage.staging_target_path);
  EXPECT_EQ(publish.target_path, published->host_path);
  EXPECT_EQ(publish.publish_context, spec.publish_context);
  EXPECT_EQ(publish.volume_context, spec.volume_context);
  EXPECT_EQ(publish.capability.fs_type, "ext4");
  EXPECT_FALSE(publish.read_only);
  EXPECT_FALSE(client().last_had_secrets());
}

TEST_F(VolumesTest, APluginThatStagesNothingIsNotAskedTo) {
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("ebs");
  plugin.capabilities.node_rpcs.clear();
  client().SetPlugin("ebs", plugin);
  ASSERT_TRUE(core_.AddPlugin("ebs"));
  PublishSpec spec = Spec();
  spec.plugin = "ebs";
  ASSERT_EQ(MessageOf(Publish(spec)), "Ok");
  EXPECT_EQ(Calls("NodeStageVolume"), 0U);
  EXPECT_EQ(client().last_publish().staging_target_path, "");
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  EXPECT_EQ(Calls("NodeUnstageVolume"), 0U);
  EXPECT_EQ(executor().Existing(), (Texts{"plugin ebs", "plugin nfs"}));
}

TEST_F(VolumesTest, PathsAreAsThePluginSeesThem) {
  ASSERT_EQ(Outcome(core_.plugins->Register(
                {"ebs", "node", Core::kAgent, "", "/csi"})),
            "Ok");
  ASSERT_TRUE(core_.events.Await("ebs healthy 1"));
  PublishSpec spec = Spec();
  spec.plugin = "ebs";
  const std::string key = VolumeKey::Derive("ebs", "v1").str();
  ASSERT_EQ(MessageOf(Publish(spec)), "Ok");
  EXPECT_EQ(client().last_stage().staging_target_path, "/csi/staging/" + key);
  EXPECT_EQ(client().last_publish().target_path, "/csi/publish/web/" + key);
}

TEST_F(VolumesTest, PublishingAgainCallsNobody) {
  const auto first = Publish();
  client().script().Forget();
  const auto second = Publish();
  ASSERT_EQ(MessageOf(second), "Ok");
  EXPECT_EQ(second->host_path, first->host_path);
  EXPECT_EQ(Calls("Node"), 0U);
}

TEST_F(VolumesTest, ASecondAllocationIsPublishedFromTheSameStaging) {
  ASSERT_EQ(MessageOf(Publish(Spec("web"))), "Ok");
  ASSERT_EQ(MessageOf(Publish(Spec("db"))), "Ok");
  EXPECT_EQ(Calls("NodeStageVolume"), 1U);
  EXPECT_EQ(client().Published().size(), 2U);
  ASSERT_EQ(MessageOf(Unpublish("web")), "Ok");
  EXPECT_EQ(Calls("NodeUnstageVolume"), 0U);
  EXPECT_EQ(client().Staged().size(), 1U);
  EXPECT_EQ(Publication("db")->state, PublicationState::kPublished);
  ASSERT_EQ(MessageOf(Unpublish("db")), "Ok");
  EXPECT_EQ(Calls("NodeUnstageVolume"), 1U);
  ExpectNothing();
}

TEST_F(VolumesTest, TwoAllocationsAtOnceStageOnce) {
  client().script().Block("NodeStageVolume");
  std::jthread web([&] { EXPECT_EQ(MessageOf(Publish(Spec("web"))), "Ok"); });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeStageVolume"));
  EXPECT_EQ(Volume()->state, VolumeState::kStaging);
  EXPECT_EQ(Publication()->state, PublicationState::kPublishing);
  std::jthread db([&] { EXPECT_EQ(MessageOf(Publish(Spec("db"))), "Ok"); });
  client().script().Unblock("NodeStageVolume");
  web.join();
  db.join();
  EXPECT_EQ(Calls("NodeStageVolume"), 1U);
  EXPECT_EQ(client().Published().size(), 2U);
}

TEST_F(VolumesTest, OneVolumeDoesNotHoldUpAnother) {
  client().script().Block("NodeStageVolume");
  std::jthread web([&] { EXPECT_EQ(MessageOf(Publish(Spec("web"))), "Ok"); });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeStageVolume", 1));
  PublishSpec other = Spec("db");
  other.volume_id = "v2";
  std::jthread db([&] { EXPECT_EQ(MessageOf(Publish(other)), "Ok"); });
  EXPECT_TRUE(client().script().AwaitBlocked("NodeStageVolume", 2));
  client().script().Unblock("NodeStageVolume");
}

TEST_F(VolumesTest, AnotherUserCannotJoin) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  // True if the volume is published once more from the staging that is there.
  const auto joins = [&](const PublishSpec& spec) {
    const std::size_t stages = Calls("NodeStageVolume");
    return Publish(spec) && Calls("NodeStageVolume") == stages;
  };
  PublishSpec other = Spec("db");
  // A naive node knows the volume's id and not its user, so to it all users
  // are one.
  EXPECT_NAIVE(joins(other));
  ASSERT_EQ(MessageOf(Unpublish("db")), "Ok");
  other.uid = Core::kOther;
  EXPECT_FALSE(joins(other));
  const auto refused = Publish(other);
  EXPECT_EQ(Outcome(refused), "PermissionDenied");
  // The error does not name the owner.
  EXPECT_EQ(MessageOf(refused).find(std::to_string(Core::kAgent)),
            std::string::npos);
  EXPECT_FALSE(Publication("db").has_value());
  // The other user may have the volume once the first one has gone.
  ASSERT_EQ(MessageOf(Unpublish()), "Ok");
  EXPECT_EQ(MessageOf(Publish(other)), "Ok");
}

TEST_F(VolumesTest, AnAliasIsOneVolumeInOneMode) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  PublishSpec other_volume = Spec();
  other_volume.volume_id = "v2";
  EXPECT_EQ(Outcome(Publish(other_volume)), "AlreadyExists");
  PublishSpec read_only = Spec();
  read_only.read_only = true;
  EXPECT_EQ(Outcome(Publish(read_only)), "AlreadyExists");
  PublishSpec second_alias = Spec();
  second_alias.alias = "again";
  EXPECT_EQ(Outcome(Publish(second_alias)), "AlreadyExists");
  EXPECT_EQ(client().Published().size(), 1U);
}

TEST_F(VolumesTest, AStagedVolumeKeepsItsCapability) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  const auto changed = [](auto change) {
    PublishSpec spec = Spec("db");
    change(spec.capability);
    return spec;
  };
  EXPECT_EQ(Outcome(Publish(changed([](auto& capability) {
              capability.access_mode = AccessMode::kMultiNodeMultiWriter;
            }))),
            "FailedPrecondition");
  EXPECT_EQ(Outcome(Publish(
                changed([](auto& capability) { capability.fs_type = "xfs"; }))),
            "FailedPrecondition");
  EXPECT_EQ(Outcome(Publish(changed([](auto& capability) {
              capability.mount_flags = {"noa", "time"};
            }))),
            "FailedPrecondition");
  EXPECT_EQ(Outcome(Publish(changed([](auto& capability) {
              capability.volume_mount_group = "5";
            }))),
            "FailedPrecondition");
  EXPECT_FALSE(Publication("db").has_value());
  EXPECT_EQ(client().Published().size(), 1U);
}

TEST_F(VolumesTest, AReaderModeNeedsReadOnly) {
  PublishSpec spec = Spec();
  spec.capability.access_mode = AccessMode::kMultiNodeReaderOnly;
  EXPECT_EQ(Outcome(Publish(spec)), "InvalidArgument");
  spec.read_only = true;
  EXPECT_EQ(MessageOf(Publish(spec)), "Ok");
  EXPECT_TRUE(client().last_publish().read_only);
  ASSERT_EQ(MessageOf(Unpublish()), "Ok");
  ExpectNothing();
}

TEST_F(VolumesTest, ASingleWriterIsTheOnlyOne) {
  PublishSpec writer = Spec("web");
  writer.capability.access_mode = AccessMode::kSingleNodeSingleWriter;
  PublishSpec other = writer;
  other.allocation = "db";
  ASSERT_EQ(MessageOf(Publish(writer)), "Ok");
  EXPECT_EQ(Outcome(Publish(other)), "FailedPrecondition");
  other.read_only = true;
  EXPECT_EQ(MessageOf(Publish(other)), "Ok");
  // The same call of the writer itself succeeds again.
  EXPECT_EQ(MessageOf(Publish(writer)), "Ok");
}

TEST_F(VolumesTest, AnUnknownOrUnhealthyPluginMakesNothing) {
  PublishSpec unknown = Spec();
  unknown.plugin = "none";
  EXPECT_EQ(Outcome(Publish(unknown)), "NotFound");
  executor().SetListening("nfs", false);
  executor().HangUp("nfs");
  ASSERT_TRUE(core_.events.Await("nfs unhealthy 1"));
  EXPECT_EQ(Outcome(Publish()), "Unavailable");
  ExpectNothing();
}

TEST_F(VolumesTest, APluginThatMadeNothingIsNotBelieved) {
  FakeCsiClient::Plugin liar = FakeCsiClient::DefaultPlugin("nfs");
  liar.makes_nothing = true;
  client().SetPlugin("nfs", liar);
  EXPECT_EQ(Outcome(Publish()), "Internal");
  EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
  client().SetPlugin("nfs", FakeCsiClient::DefaultPlugin("nfs"));
  EXPECT_EQ(MessageOf(Publish()), "Ok");
}

TEST_F(VolumesTest, ABareDirectoryIsAPublishedVolumeOfAPluginThatSaidSo) {
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("bare");
  plugin.bare_directory = true;
  client().SetPlugin("bare", plugin);
  client().SetPlugin("nfs", plugin);
  const auto refused = Publish();
  EXPECT_EQ(Outcome(refused), "Internal");
  EXPECT_NE(MessageOf(refused).find("mounted nothing"), std::string::npos);

  PluginRecord record{"bare", "node", Core::kAgent, "", ""};
  record.bare_directories = true;
  ASSERT_EQ(Outcome(core_.plugins->Register(record)), "Ok");
  ASSERT_TRUE(core_.events.Await("bare healthy 1"));
  PublishSpec spec = Spec("db");
  spec.plugin = "bare";
  ASSERT_EQ(MessageOf(Publish(spec)), "Ok");
  EXPECT_EQ(Publication("db")->mount_id, 0U);
  core_.Restart();
  ASSERT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
  EXPECT_EQ(Publication("db")->state, PublicationState::kPublished);
}

TEST_F(VolumesTest, ABlockVolumeIsADevice) {
  PublishSpec spec = Spec();
  spec.capability = VolumeCapability();
  spec.capability.block = true;
  const auto published = Publish(spec);
  ASSERT_EQ(MessageOf(published), "Ok");
  EXPECT_TRUE(client().last_stage().capability.block);
  EXPECT_EQ(DeviceRuleOf(*published), "b 7:3 rwm");
  core_.Restart();
  ASSERT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  // Another attachment of the volume is refused with a message.
  PublishSpec other = Spec("db");
  other.capability.mount_flags.clear();
  const auto refused = Publish(other);
  EXPECT_EQ(Outcome(refused), "FailedPrecondition");
  EXPECT_NE(MessageOf(refused).find("attachment mode"), std::string::npos);
}

TEST_F(VolumesTest, ADeviceThatIsReadOnlyCannotBeWritten) {
  PublishSpec spec = Spec();
  spec.capability = VolumeCapability();
  spec.capability.block = true;
  spec.read_only = true;
  const auto published = Publish(spec);
  ASSERT_EQ(MessageOf(published), "Ok");
  EXPECT_EQ(DeviceRuleOf(*published), "b 7:3 r");
}

TEST_F(VolumesTest, WhatIsNoDeviceIsNoBlockVolume) {
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
  plugin.no_device = true;
  client().SetPlugin("nfs", plugin);
  PublishSpec spec = Spec();
  spec.capability = VolumeCapability();
  spec.capability.block = true;
  EXPECT_EQ(Outcome(Publish(spec)), "Internal");
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  ExpectNothing();
}

TEST_F(VolumesTest, WhatThePluginDoesNotOfferIsRefusedBeforeAnything) {
  FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("plain");
  plugin.capabilities.node_rpcs = {1};
  client().SetPlugin("plain", plugin);
  ASSERT_TRUE(core_.AddPlugin("plain"));
  PublishSpec group = Spec();
  group.plugin = "plain";
  group.capability.volume_mount_group = "1000";
  EXPECT_EQ(Outcome(Publish(group)), "NotSupported");
  PublishSpec mode = Spec();
  mode.plugin = "plain";
  mode.capability.access_mode = AccessMode::kSingleNodeMultiWriter;
  EXPECT_EQ(Outcome(Publish(mode)), "NotSupported");
  PublishSpec block = Spec();
  block.capability.block = true;  // with a file system and flags
  EXPECT_EQ(Outcome(Publish(block)), "InvalidArgument");
  EXPECT_TRUE(core_.state->volumes.ListVolumes()->empty());
  EXPECT_EQ(Calls("Node"), Calls("NodeGetInfo"));
}

// ---- Failures ----

// The failure concerns another user of a staged volume, which must stay staged.
TEST_F(VolumesTest, ATargetThatCannotBeMadeCostsNobodyElseTheVolume) {
  ASSERT_EQ(MessageOf(Publish(Spec("db"))), "Ok");
  const Texts before = executor().Existing();
  executor().FailNext("PrepareVolumeDir", Code::kResourceExhausted);
  EXPECT_EQ(Outcome(Publish()), "ResourceExhausted");
  EXPECT_FALSE(Publication().has_value());
  EXPECT_EQ(executor().Existing(), before);
  EXPECT_EQ(Calls("NodePublishVolume"), 1U);
  EXPECT_EQ(Publication("db")->state, PublicationState::kPublished);
  EXPECT_EQ(MessageOf(Publish()), "Ok");
}

// A target that is half made must stay visible until it is gone.
TEST_F(VolumesTest, ATargetThatCannotBeTakenBackStaysUncertain) {
  ASSERT_EQ(MessageOf(Publish(Spec("db"))), "Ok");
  executor().FailNext("PrepareVolumeDir", Code::kInternal, FailWhen::kAfter);
  executor().FailNext("RemoveVolumeDir", Code::kBusy);
  EXPECT_EQ(Outcome(Publish()), "Internal");
  ASSERT_TRUE(Publication().has_value());
  EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
  EXPECT_EQ(MessageOf(Unpublish()), "Ok");
  EXPECT_EQ(MessageOf(Unpublish("db")), "Ok");
  ExpectNothing();
}

TEST_F(VolumesTest, AFinalFailureLeavesNothing) {
  for (const char* method : {"NodeStageVolume", "NodePublishVolume"}) {
    client().FailNext(method, RpcCode::kInvalidArgument);
    const auto failed = Publish();
    EXPECT_EQ(Outcome(failed), "InvalidArgument");
    EXPECT_NE(MessageOf(failed).find("as the test wants"), std::string::npos);
    ExpectNothing();
  }
}

TEST_F(VolumesTest, AnUncertainFailureKeepsTheIntentUntilThereIsAnAnswer) {
  for (const char* method : {"NodeStageVolume", "NodePublishVolume"}) {
    for (const FailWhen when : {FailWhen::kBefore, FailWhen::kAfter}) {
      client().FailNext(method, RpcCode::kUnavailable, when,
                        CallScript<RpcError>::kAlways);
      const auto failed = Publish();
      EXPECT_EQ(Outcome(failed), "Unavailable");
      EXPECT_NE(MessageOf(failed).find("outcome is unknown"),
                std::string::npos);
      client().script().Clear();
      EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
      EXPECT_EQ(Volume()->state, method == std::string("NodeStageVolume")
                                     ? VolumeState::kUncertain
                                     : VolumeState::kStaged);
      EXPECT_EQ(MessageOf(Publish()), "Ok");
      EXPECT_EQ(Publication()->state, PublicationState::kPublished);
      EXPECT_EQ(Volume()->state, VolumeState::kStaged);
      ASSERT_EQ(MessageOf(Unpublish()), "Ok");
      ExpectNothing();
    }
  }
}

TEST_F(VolumesTest, WhatIsUncertainIsUndoneByTheUnpublish) {
  for (const char* method : {"NodeStageVolume", "NodePublishVolume"}) {
    client().FailNext(method, RpcCode::kUnavailable, FailWhen::kAfter,
                      CallScript<RpcError>::kAlways);
    EXPECT_EQ(Outcome(Publish()), "Unavailable");
    client().script().Clear();
    ASSERT_EQ(MessageOf(Unpublish()), "Ok");
    ExpectNothing();
  }
}

TEST_F(VolumesTest, AnUncertainAnswerIsAskedAgainWithinTheBudget) {
  client().FailNext("NodeStageVolume", RpcCode::kAborted, FailWhen::kAfter);
  EXPECT_EQ(MessageOf(Publish()), "Ok");
  EXPECT_EQ(Calls("NodeStageVolume"), 2U);
}

TEST_F(VolumesTest, ACancelledWaiterHasDoneNothing) {
  const CancelToken cancelled = std::make_shared<std::atomic<bool>>(true);
  const auto outcome = core_.volumes->Publish(Spec(), UniqueFd(), cancelled);
  EXPECT_EQ(Outcome(outcome), "Aborted");
  EXPECT_NE(MessageOf(outcome).find("nothing changed"), std::string::npos);
  ExpectNothing();
}

TEST_F(VolumesTest, ACancelledCallStopsAsking) {
  const CancelToken cancelled = std::make_shared<std::atomic<bool>>(false);
  client().FailNext("NodeStageVolume", RpcCode::kUnavailable, FailWhen::kBefore,
                    CallScript<RpcError>::kAlways);
  client().script().Block("NodeStageVolume");
  std::jthread publish([&] {
    const auto outcome = core_.volumes->Publish(Spec(), UniqueFd(), cancelled);
    EXPECT_EQ(Outcome(outcome), "Aborted");
    EXPECT_NE(MessageOf(outcome).find("was cancelled after UNAVAILABLE"),
              std::string::npos);
  });
  ASSERT_TRUE(client().script().AwaitBlocked("NodeStageVolume"));
  *cancelled = true;
  client().script().Unblock("NodeStageVolume");
  publish.join();
  EXPECT_EQ(Calls("NodeStageVolume"), 1U);
  EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
}

TEST_F(VolumesTest, AnExecutorThatFailsLeavesNothing) {
  executor().FailNext("PrepareVolumeDir", Code::kUnavailable, FailWhen::kAfter);
  EXPECT_EQ(Outcome(Publish()), "Unavailable");
  ExpectNothing();
}

TEST_F(VolumesTest, AFinalFailureOfALaterCallUndoesTheEarlierOne) {
  client().FailNext("NodePublishVolume", RpcCode::kUnavailable,
                    FailWhen::kAfter, CallScript<RpcError>::kAlways);
  EXPECT_EQ(Outcome(Publish()), "Unavailable");
  EXPECT_EQ(client().Published().size(), 1U);
  client().script().Clear();
  client().FailNext("NodePublishVolume", RpcCode::kInternal);
  EXPECT_EQ(Outcome(Publish()), "Internal");
  ExpectNothing();
}

TEST_F(VolumesTest, AFinalFailureKeepsWhatTasksMayHaveMountsOf) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  PublicationRecord record = *Publication();
  record.state = PublicationState::kUncertain;
  ASSERT_EQ(Outcome(core_.state->volumes.SetPublicationState(record)), "Ok");
  client().FailNext("NodePublishVolume", RpcCode::kInternal);
  EXPECT_EQ(Outcome(Publish()), "Internal");
  EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
  EXPECT_EQ(client().Published().size(), 1U);
  ASSERT_EQ(MessageOf(Unpublish()), "Ok");
  ExpectNothing();
}

// ---- Settling ----

TEST_F(VolumesTest, WhatIsUncertainIsSettledWithTheSameArguments) {
  for (const char* method : {"NodeStageVolume", "NodePublishVolume"}) {
    client().FailNext(method, RpcCode::kDeadlineExceeded, FailWhen::kBefore,
                      CallScript<RpcError>::kAlways);
    const UniqueFd secrets(memfd_create("secrets", MFD_CLOEXEC));
    EXPECT_EQ(Outcome(core_.volumes->Publish(Spec(), secrets, nullptr)),
              "DeadlineExceeded");
    const auto unsettled = core_.volumes->ListUnsettled();
    ASSERT_EQ(unsettled.size(), 1U);
    EXPECT_EQ(Outcome(core_.volumes->Settle(unsettled[0])), "DeadlineExceeded");
    client().script().Clear();
    EXPECT_EQ(MessageOf(core_.volumes->Settle(unsettled[0])), "Ok");
    EXPECT_TRUE(core_.volumes->ListUnsettled().empty());
    EXPECT_EQ(Publication()->state, PublicationState::kPublished);
    EXPECT_EQ(client().last_publish().capability.mount_flags, Texts{"noatime"});
    EXPECT_TRUE(client().last_had_secrets());
    ASSERT_EQ(MessageOf(Unpublish()), "Ok");
    ExpectNothing();
  }
}

TEST_F(VolumesTest, WhatIsSettledByAFailureIsUndone) {
  client().FailNext("NodePublishVolume", RpcCode::kDeadlineExceeded,
                    FailWhen::kAfter, CallScript<RpcError>::kAlways);
  EXPECT_EQ(Outcome(Publish()), "DeadlineExceeded");
  client().script().Clear();
  client().FailNext("NodePublishVolume", RpcCode::kInvalidArgument);
  EXPECT_EQ(MessageOf(core_.volumes->Settle({"web", "alias"})), "Ok");
  EXPECT_TRUE(core_.volumes->ListUnsettled().empty());
  ExpectNothing();
}

TEST_F(VolumesTest, WhatIsReleasedIsNotSettled) {
  client().FailNext("NodePublishVolume", RpcCode::kDeadlineExceeded,
                    FailWhen::kAfter, CallScript<RpcError>::kAlways);
  EXPECT_EQ(Outcome(Publish()), "DeadlineExceeded");
  client().script().Clear();
  ASSERT_EQ(MessageOf(Unpublish()), "Ok");
  EXPECT_TRUE(core_.volumes->ListUnsettled().empty());
  EXPECT_EQ(MessageOf(core_.volumes->Settle({"web", "alias"})), "Ok");
  ExpectNothing();
}

}  // namespace
}  // namespace mountd::csi
