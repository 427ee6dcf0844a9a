// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>

#include "csi-node/types/csi_controller.h"

namespace mountd::csi {
namespace {

TEST(ControllerJson, AnEmptyAnswerIsEveryFieldsDefault) {
  EXPECT_TRUE(ReadPublishContext("{}")->empty());
  EXPECT_EQ(0, ReadExpansion("{}")->capacity_bytes);
  EXPECT_TRUE(ReadVolumePage("{}")->volumes.empty());
  const auto capacity = ReadCapacity("{}");
  ASSERT_TRUE(capacity);
  EXPECT_EQ(0, capacity->available_bytes);
  EXPECT_FALSE(capacity->maximum_volume_bytes);
}

TEST(ControllerJson, WhatIsNoSuchAnswerIsNone) {
  for (const char* text :
       {"", "[]", "{", "{\"publish_context\": []}",
        "{\"publish_context\": {\"a\": 1}}", "{\"publish_context\": 7}"}) {
    EXPECT_FALSE(ReadPublishContext(text)) << text;
  }
  EXPECT_FALSE(ReadCreatedVolume("{}"));  // a volume without an id
  EXPECT_FALSE(ReadCreatedVolume("{\"volume\": {\"volume_id\": \"\"}}"));
  EXPECT_FALSE(ReadExpansion("{\"capacity_bytes\": \"-1\"}"));
  EXPECT_FALSE(ReadExpansion("{\"capacity_bytes\": 1.5}"));
  EXPECT_FALSE(ReadExpansion("{\"node_expansion_required\": \"yes\"}"));
  EXPECT_FALSE(ReadVolumePage("{\"entries\": [{}]}"));
  EXPECT_FALSE(ReadVolumePage("{\"entries\": [7]}"));
  EXPECT_FALSE(ReadPublishContext(std::string(100, '[')));
  EXPECT_FALSE(ReadPublishContext(std::string(2'000'000, '[')));
}

TEST(ControllerJson, APageOfVolumesIsRead) {
  const auto page = ReadVolumePage(
      R"({"entries": [{"volume": {"volume_id": "v", "capacity_bytes": "7",
          "content_source": {"snapshot": {"snapshot_id": "s"}},
          "accessible_topology": [{"segments": {"zone": "z"}}, {}]},
          "status": {"published_node_ids": ["a", "b"],
                     "volume_condition": {"abnormal": true}}}],
          "next_token": "more"})");
  ASSERT_TRUE(page);
  ASSERT_EQ(1U, page->volumes.size());
  const ListedVolume& listed = page->volumes[0];
  EXPECT_EQ("v", listed.volume.volume_id);
  EXPECT_EQ(7, listed.volume.capacity_bytes);
  EXPECT_EQ("s", listed.volume.source_snapshot);
  EXPECT_EQ((std::vector<Segments>{{{"zone", "z"}}, {}}),
            listed.volume.topology);
  EXPECT_EQ((std::vector<std::string>{"a", "b"}), listed.published_node_ids);
  ASSERT_TRUE(listed.condition);
  EXPECT_TRUE(listed.condition->abnormal);
  EXPECT_EQ("more", page->next_token);
}

TEST(ControllerJson, AValidationNamesBothKindsOfParameters) {
  ValidateRequest request;
  request.volume_id = "v";
  request.parameters = {{"tier", "fast"}};
  request.mutable_parameters = {{"iops", "9"}};
  const std::string json = ToCall(request).request;
  EXPECT_NE(json.find(R"("parameters":{"tier":"fast"})"), std::string::npos)
      << json;
  EXPECT_NE(json.find(R"("mutable_parameters":{"iops":"9"})"),
            std::string::npos)
      << json;
}

TEST(ControllerJson, OnlyWhatWasAskedForIsConfirmed) {
  ValidateRequest request;
  request.capabilities.resize(1);
  request.capabilities[0].access_mode = AccessMode::kMultiNodeMultiWriter;
  request.capabilities[0].fs_type = "ext4";
  request.capabilities[0].mount_flags = {"password=x"};
  const struct {
    const char* capability;
    bool confirmed;
    const char* message;
  } kTable[] = {
      {R"({"access_mode": {"mode": 5}})", true, ""},
      {R"({"access_mode": {}, "mount": {"fs_type": "ext4"}})", true, ""},
      {R"({"access_mode": {"mode": 1}})", false,
       "the plugin does not confirm the access mode"},
      {R"({"block": {}})", false,
       "the plugin does not confirm the attachment mode"},
      {R"({"mount": {"fs_type": "xfs"}})", false,
       "the plugin does not confirm the file system"},
      {R"({"mount": {"mount_flags": ["ro"]}})", false,
       "the plugin does not confirm the mount flags"},
      {R"({"mount": {"mount_flags": ["ro", "password=x"]}})", true, ""},
  };
  for (const auto& row : kTable) {
    const auto validation = ReadValidation(
        std::string(R"({"confirmed": {"volume_capabilities": [)") +
            row.capability + "]}}",
        request);
    ASSERT_TRUE(validation) << row.capability;
    EXPECT_EQ(row.confirmed, validation->confirmed) << row.capability;
    EXPECT_EQ(row.message, validation->message);
  }
  const auto none = ReadValidation(R"({"message": "no"})", request);
  ASSERT_TRUE(none);
  EXPECT_FALSE(none->confirmed);
  EXPECT_EQ("no", none->message);
}

}  // namespace
}  // namespace mountd::csi
