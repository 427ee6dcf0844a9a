// SPDX-License-Identifier: LGPL-2.1-or-later
// The client's calls of plugins' controllers.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "tests/agent/client_test.h"

namespace mountd::agent::test {
namespace {

using Texts = std::map<std::string, std::string>;

TEST_F(ClientTest, ControllerPublishSendsTheNodeAndAnswersItsContext) {
  ControllerPublishSpec spec{.plugin = "csi", .volume = "v", .node_id = "n1"};
  spec.usage.read_only = true;
  spec.volume_context = {{"pool", "a"}};
  spec.secrets = {{"key", "value"}};
  EXPECT_EQ(client_->ControllerPublishVolume(spec).value(),
            (Texts{{"device", "/dev/sdb"}}));
  EXPECT_EQ(script().last_call(),
            "ControllerPublishVolume csi v n1 {read_only=true;} {pool=a;} "
            "{secrets=h;}");
  EXPECT_TRUE(script().TakeSecrets().valid());
}

TEST_F(ClientTest, ControllersUndoWithOrWithoutSecrets) {
  ASSERT_TRUE(client_->ControllerUnpublishVolume("csi", "v", "n1"));
  EXPECT_EQ(script().last_call(), "ControllerUnpublishVolume csi v n1 {}");
  ASSERT_TRUE(client_->DeleteVolume("csi", "v"));
  EXPECT_EQ(script().last_call(), "DeleteVolume csi v {}");
  ASSERT_TRUE(client_->DeleteVolume("csi", "v", {{"key", "value"}}));
  EXPECT_EQ(script().last_call(), "DeleteVolume csi v {secrets=h;}");
}

TEST_F(ClientTest, SecretsThatHoldANulAreNotSentToControllers) {
  const Texts bad = {{"key", std::string(1, '\0')}};
  const Result<void> deleted = client_->DeleteVolume("csi", "v", bad);
  ASSERT_FALSE(deleted);
  EXPECT_EQ(deleted.error().code, Code::kInvalidArgument);
  EXPECT_TRUE(script().calls().empty());
}

TEST_F(ClientTest, ValidateVolumeAnswersWhyNot) {
  VolumeValidationSpec spec{.plugin = "csi", .volume = "v"};
  spec.usage.attachment_mode = "block-device";
  spec.parameters = {{"tier", "fast"}};
  spec.mutable_parameters = {{"iops", "9"}};
  const VolumeValidation validation = client_->ValidateVolume(spec).value();
  EXPECT_EQ(script().last_call(),
            "ValidateVolume csi v {attachment_mode=block-device;} {} "
            "{mutable_parameters={iops=9;};parameters={tier=fast;};}");
  EXPECT_FALSE(validation.confirmed);
  EXPECT_EQ(validation.message, "no blocks here");
}

TEST_F(ClientTest, CreateVolumeSendsAllOfItsSpec) {
  VolumeCreation creation{.plugin = "csi", .name = "web"};
  creation.required_bytes = 4096;
  creation.limit_bytes = 8192;
  creation.usages = {{.fs_type = "ext4"}, {.read_only = true}};
  creation.parameters = {{"tier", "fast"}};
  creation.mutable_parameters = {{"iops", "9"}};
  creation.source_snapshot = "snap-1";
  creation.requisite = {{{"zone", "a"}}, {{"zone", "b"}}};
  creation.preferred = {{{"zone", "b"}}};
  const PluginVolume volume = client_->CreateVolume(creation).value();
  EXPECT_EQ(script().last_call(),
            "CreateVolume csi web {limit_bytes=x8192;mutable_parameters="
            "{iops=9;};parameters={tier=fast;};preferred={zone=b;}+;"
            "required_bytes=x4096;requisite={zone=a;}+{zone=b;}+;"
            "source_snapshot=snap-1;usages={fs_type=ext4;}+{read_only=true;}+;"
            "} {}");
  EXPECT_EQ(volume.volume, "id-of-web");
  EXPECT_EQ(volume.capacity_bytes, std::int64_t{1} << 30U);
  EXPECT_EQ(volume.volume_context, (Texts{{"pool", "a"}}));
  EXPECT_EQ(volume.source_snapshot, "snap-1");
  EXPECT_EQ(volume.source_volume, "");
  ASSERT_EQ(volume.topology.size(), 1U);
  EXPECT_EQ(volume.topology[0], (Texts{{"zone", "a"}}));
  EXPECT_FALSE(volume.has_condition);
}

TEST_F(ClientTest, CreateVolumeHasOneUsageUnlessTold) {
  ASSERT_TRUE(client_->CreateVolume({.plugin = "csi", .name = "web"}));
  EXPECT_EQ(script().last_call(), "CreateVolume csi web {usages={}+;} {}");
}

TEST_F(ClientTest, ControllerExpandSendsAUsageThatSaysSomething) {
  ControllerExpansionSpec spec{.plugin = "csi", .volume = "v"};
  spec.required_bytes = 4096;
  const ControllerExpansion expansion =
      client_->ControllerExpandVolume(spec).value();
  EXPECT_EQ(script().last_call(), "ControllerExpandVolume csi v 4096 {}");
  EXPECT_EQ(expansion.capacity_bytes, 4096);
  EXPECT_TRUE(expansion.node_expansion_required);
  spec.limit_bytes = 8192;
  spec.usage = VolumeUsage{};
  ASSERT_TRUE(client_->ControllerExpandVolume(spec));
  EXPECT_EQ(script().last_call(),
            "ControllerExpandVolume csi v 4096 {limit_bytes=x8192;"
            "usage={access_mode=single-node-writer;};}");
}

TEST_F(ClientTest, AListOfAPluginsVolumesComesByPages) {
  const PluginVolumePage first = client_->ListPluginVolumes("csi").value();
  EXPECT_EQ(script().last_call(), "ListPluginVolumes csi {}");
  ASSERT_EQ(first.volumes.size(), 1U);
  EXPECT_EQ(first.volumes[0].volume, "vol-1");
  EXPECT_EQ(first.volumes[0].published_node_ids,
            (std::vector<std::string>{"n1", "n2"}));
  EXPECT_FALSE(first.volumes[0].has_condition);
  EXPECT_EQ(first.next_token, "page-2");
  const PluginVolumePage second =
      client_->ListPluginVolumes("csi", {1, first.next_token}).value();
  EXPECT_EQ(script().last_call(),
            "ListPluginVolumes csi {max_entries=u1;starting_token=page-2;}");
  ASSERT_EQ(second.volumes.size(), 1U);
  EXPECT_TRUE(second.volumes[0].has_condition);
  EXPECT_TRUE(second.volumes[0].abnormal);
  EXPECT_EQ(second.volumes[0].condition, "its disk is slow");
  EXPECT_EQ(second.next_token, "");
}

TEST_F(ClientTest, CapacityIsOfWhatIsAskedAndSaysWhatIsTold) {
  CapacityQuery query;
  query.usages = {{.fs_type = "ext4"}};
  query.parameters = {{"tier", "fast"}};
  query.topology = {{"zone", "a"}};
  const PluginCapacity capacity = client_->GetCapacity("csi", query).value();
  EXPECT_EQ(script().last_call(),
            "GetCapacity csi {parameters={tier=fast;};topology={zone=a;};"
            "usages={fs_type=ext4;}+;}");
  EXPECT_EQ(capacity.available_bytes, std::int64_t{1} << 40U);
  EXPECT_EQ(capacity.maximum_volume_bytes, std::int64_t{1} << 30U);
  EXPECT_FALSE(capacity.minimum_volume_bytes.has_value());
  ASSERT_TRUE(client_->GetCapacity("csi"));
  EXPECT_EQ(script().last_call(), "GetCapacity csi {}");
}

TEST_F(ClientTest, CallControllerPassesBytesAsTheyAre) {
  const std::string request("\x0a\x00\xff", 3);
  const std::string response =
      client_
          ->CallController(
              {.plugin = "csi", .rpc = "CreateSnapshot", .request = request})
          .value();
  EXPECT_EQ(script().last_call(),
            "CallController csi CreateSnapshot 0a00ff {}");
  EXPECT_EQ(response.size(), 38U);
  EXPECT_EQ(response[1], '\x24');
}

}  // namespace
}  // namespace mountd::agent::test
