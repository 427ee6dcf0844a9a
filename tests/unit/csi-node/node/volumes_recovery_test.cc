// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Volumes whose records differ from the machine, at a start and after a plugin
// came back, and the calls that ask plugins about volumes.
#include <optional>

#include "csi-node/node/volume_requests.h"
#include "tests/unit/csi-node/node/volumes_fixture.h"

namespace mountd::csi {
namespace {

class VolumesRecoveryTest : public VolumesTest {
 protected:
  static PublishSpec Plain(const std::string& allocation = "web") {
    PublishSpec spec = Spec(allocation);
    spec.capability.mount_flags.clear();
    return spec;
  }
  static std::string Part(const std::string& allocation = "web") {
    return "publish/" + allocation + "/" + kKey.str();
  }
  PublicationState StateAfterAStart() {
    EXPECT_EQ(MessageOf(core_.volumes->Recover()), "Ok");
    return Publication()->state;
  }
  const CancelToken never_{};
  const UniqueFd none_{};
};

TEST_F(VolumesRecoveryTest, StatesHaveTheNamesThatCallersKnow) {
  EXPECT_EQ(VolumeStateName(VolumeState::kStaging), "staging");
  EXPECT_EQ(VolumeStateName(VolumeState::kStaged), "staged");
  EXPECT_EQ(VolumeStateName(VolumeState::kUnstaging), "unstaging");
  EXPECT_EQ(VolumeStateName(VolumeState::kUncertain), "uncertain");
  EXPECT_EQ(PublicationStateName(PublicationState::kPublishing), "publishing");
  EXPECT_EQ(PublicationStateName(PublicationState::kPublished), "published");
  EXPECT_EQ(PublicationStateName(PublicationState::kUnpublishing),
            "unpublishing");
  EXPECT_EQ(PublicationStateName(PublicationState::kUncertain), "uncertain");
}

TEST_F(VolumesRecoveryTest, WhatIsThereAsRecordedStaysPublished) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  EXPECT_EQ(StateAfterAStart(), PublicationState::kPublished);
  EXPECT_EQ(Volume()->state, VolumeState::kStaged);
}

TEST_F(VolumesRecoveryTest, WhatIsGoneIsUncertain) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  executor().TakeVolume("nfs", Part());
  EXPECT_EQ(StateAfterAStart(), PublicationState::kUncertain);
}

TEST_F(VolumesRecoveryTest, AnotherMountInItsPlaceIsUncertain) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  executor().TakeVolume("nfs", Part());
  executor().PutVolume("nfs", Part());
  EXPECT_EQ(StateAfterAStart(), PublicationState::kUncertain);
}

TEST_F(VolumesRecoveryTest, ADeviceInItsPlaceIsUncertain) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  PublicationRecord record = *Publication();
  record.device = 0x801;
  ASSERT_EQ(Outcome(core_.state->volumes.SetPublicationState(record)), "Ok");
  EXPECT_EQ(StateAfterAStart(), PublicationState::kUncertain);
}

TEST_F(VolumesRecoveryTest, WhatDoesNotAnswerIsUncertain) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  executor().FailNext("InspectVolumeDir", Code::kDeadlineExceeded);
  EXPECT_EQ(StateAfterAStart(), PublicationState::kUncertain);
}

TEST_F(VolumesRecoveryTest, WhatNobodyHasLookedAtIsLeftToItsTasks) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  for (const Code code : {Code::kUnavailable, Code::kResourceExhausted}) {
    executor().FailNext("InspectVolumeDir", code);
    EXPECT_EQ(StateAfterAStart(), PublicationState::kPublished);
    // If an executor dies, mountd asks others.
    executor().FailNext("ProbeVolume", code, FailWhen::kBefore,
                        code == Code::kUnavailable ? 3 : 1);
    EXPECT_TRUE(core_.volumes->RestoreDead("nfs")->restored.empty());
    EXPECT_EQ(Publication()->state, PublicationState::kPublished);
  }
}

TEST_F(VolumesRecoveryTest, WhatIsBeingUnpublishedStaysSo) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  PublicationRecord record = *Publication();
  record.state = PublicationState::kUnpublishing;
  ASSERT_EQ(Outcome(core_.state->volumes.SetPublicationState(record)), "Ok");
  EXPECT_EQ(StateAfterAStart(), PublicationState::kUnpublishing);
  // A plugin that came back has not lost such a volume either.
  EXPECT_TRUE(core_.volumes->RestoreDead("nfs")->restored.empty());
  EXPECT_EQ(Publication()->state, PublicationState::kUnpublishing);
}

TEST_F(VolumesRecoveryTest, WhatWasUnmountedByOthersIsPublishedAnew) {
  ASSERT_EQ(MessageOf(Publish(Plain())), "Ok");
  executor().TakeVolume("nfs", Part());
  EXPECT_EQ(core_.volumes->RestoreDead("nfs")->restored.size(), 1U);
  EXPECT_EQ(Publication()->state, PublicationState::kPublished);
}

TEST_F(VolumesRecoveryTest, OnlyOfThePluginThatCameBack) {
  ASSERT_EQ(MessageOf(Publish(Plain())), "Ok");
  executor().SetHealth("nfs/" + Part(), exec::MountHealth::kDead);
  ASSERT_TRUE(core_.AddPlugin("other"));
  EXPECT_TRUE(core_.volumes->RestoreDead("other")->restored.empty());
  EXPECT_EQ(executor().script().Count("ProbeVolume"), 0U);
}

// A volume that cannot be unpublished must not prevent the restoring of the
// plugin's other volumes.
TEST_F(VolumesRecoveryTest, OneThatCannotBeRestoredKeepsNoOther) {
  ASSERT_EQ(MessageOf(Publish(Plain())), "Ok");
  PublishSpec second = Plain("db");
  second.volume_id = "v2";
  ASSERT_EQ(MessageOf(Publish(second)), "Ok");
  for (const std::string& part :
       {Part(), "publish/db/" + VolumeKey::Derive("nfs", "v2").str()}) {
    executor().SetHealth("nfs/" + part, exec::MountHealth::kDead);
  }
  client().FailNext("NodeUnpublishVolume", RpcCode::kInvalidArgument);
  const auto restored = core_.volumes->RestoreDead("nfs");
  ASSERT_EQ(MessageOf(restored), "Ok");
  EXPECT_EQ(restored->restored.size(), 1U);
  EXPECT_FALSE(restored->complete);
}

// ---- Calls that ask about a volume ----

TEST_F(VolumesRecoveryTest, OnlyWhatIsPublishedIsMeasuredOrGrown) {
  EXPECT_EQ(Outcome(core_.volumes->Stats("web", "alias")), "NotFound");
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  PublicationRecord record = *Publication();
  record.state = PublicationState::kUncertain;
  ASSERT_EQ(Outcome(core_.state->volumes.SetPublicationState(record)), "Ok");
  const auto stats = core_.volumes->Stats("web", "alias");
  EXPECT_EQ(Outcome(stats), "FailedPrecondition");
  EXPECT_NE(MessageOf(stats).find("is uncertain"), std::string::npos);
}

TEST_F(VolumesRecoveryTest, SizesThatMakeNoSenseAreRefusedUnasked) {
  ASSERT_EQ(MessageOf(Publish()), "Ok");
  const auto expand = [&](std::int64_t required, std::int64_t limit) {
    Volumes::ExpandSpec spec;
    spec.allocation = "web";
    spec.alias = "alias";
    spec.required_bytes = required;
    spec.limit_bytes = limit;
    return Outcome(core_.volumes->Expand(spec, none_, never_));
  };
  EXPECT_EQ(expand(-1, 0), "InvalidArgument");
  EXPECT_EQ(expand(0, -1), "InvalidArgument");
  EXPECT_EQ(expand(2, 1), "InvalidArgument");
  EXPECT_EQ(Calls("NodeExpandVolume"), 0U);
  EXPECT_NE(expand(1, 2), "InvalidArgument");
}

TEST_F(VolumesRecoveryTest, WhatAPluginMadeIsJudgedByWhatWasAskedFor) {
  exec::MountState state;
  EXPECT_EQ(FaultOfPublished(state, false, true), "made nothing at the target");
  state.exists = 1;
  EXPECT_EQ(FaultOfPublished(state, false, true),
            "the file that it made is not a directory");
  EXPECT_EQ(FaultOfPublished(state, true, true),
            "the file that it made is not a device");
  state.block_device = 0x801;
  EXPECT_EQ(FaultOfPublished(state, true, false), "");
  state.is_directory = 1;
  EXPECT_NE(FaultOfPublished(state, false, false), "");
  EXPECT_EQ(FaultOfPublished(state, false, true), "");
  state.mount_id = 7;
  EXPECT_EQ(FaultOfPublished(state, false, false), "");
}

TEST_F(VolumesRecoveryTest, WhatCannotBeLookedAtIsNotBelieved) {
  executor().FailNext("InspectVolumeDir", Code::kUnavailable);
  EXPECT_EQ(Outcome(Publish()), "Unavailable");
  EXPECT_EQ(Publication()->state, PublicationState::kUncertain);
  EXPECT_EQ(MessageOf(Publish()), "Ok");
}

}  // namespace
}  // namespace mountd::csi
