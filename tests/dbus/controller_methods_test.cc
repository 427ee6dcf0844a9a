// SPDX-License-Identifier: LGPL-2.1-or-later
// Each method on plugins' controllers, called once.
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "csi-node/types/secrets.h"
#include "tests/dbus/methods.h"

namespace mountd::test {
namespace {

class ControllerMethods : public Methods {
 protected:
  void SetUp() override {
    Methods::SetUp();
    auto plugin = csi::FakeCsiClient::DefaultPlugin("csi");
    plugin.capabilities.controller_rpcs = {1, 2, 3, 4, 5, 9};
    csi().SetPlugin("csi", plugin);
    csi().SetController([told = told_](const csi::ControllerCall& /*call*/) {
      const std::lock_guard lock(told->mutex);
      return told->answer;
    });
    RegisterPlugin(*client_, "monolith");
  }
  std::string Request() { return csi().last_controller_call().request; }

  void SetAnswer(std::string answer) {
    const std::lock_guard lock(told_->mutex);
    told_->answer = std::move(answer);
  }

 private:
  // Shared with the plugin's threads, which outlive the test's own members.
  struct Told {
    std::mutex mutex;
    std::string answer = "{}";  // guarded by mutex
  };
  const std::shared_ptr<Told> told_ = std::make_shared<Told>();
};

TEST_P(ControllerMethods, ControllerPublishVolume) {
  SetAnswer(R"({"publish_context": {"lun": "7"}})");
  const UniqueFd secrets = *csi::EncodeSecrets({{"user", "anna"}});
  const Answer answer =
      client_->Call("ControllerPublishVolume", "sssa{sv}a{ss}a{sv}", "csi", "v",
                    "node-b", 2, "read_only", "b", 1, "mount_flags", "as", 1,
                    "x=y", 1, "a", "b", 1, "secrets", "h", secrets.get());
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "a{ss}");
  EXPECT_EQ(answer.text, R"({"lun": "7"})");
  EXPECT_TRUE(csi().last_had_secrets());
  EXPECT_EQ(Request(),
            R"({"node_id":"node-b","readonly":true,"volume_capability":)"
            R"({"access_mode":{"mode":1},"mount":{"fs_type":"",)"
            R"("mount_flags":["x=y"],"volume_mount_group":""}},)"
            R"("volume_context":{"a":"b"},"volume_id":"v"})");
}

TEST_P(ControllerMethods, ControllerUnpublishVolume) {
  const Answer answer = client_->Call("ControllerUnpublishVolume", "sssa{sv}",
                                      "csi", "v", "node-b", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
  EXPECT_EQ(Request(), R"({"node_id":"node-b","volume_id":"v"})");
  EXPECT_EQ(
      client_->Call("ControllerUnpublishVolume", "sssa{sv}", "csi", "v", "", 0)
          .error,
      "org.mountd1.Error.InvalidArgument");
}

TEST_P(ControllerMethods, ValidateVolume) {
  SetAnswer(R"({"message": "too old"})");
  const Answer answer =
      client_->Call("ValidateVolume", "ssa{sv}a{ss}a{sv}", "csi", "v", 0, 0, 1,
                    "parameters", "a{ss}", 1, "tier", "1");
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"confirmed", "b"}, {"message", "s"}}));
  EXPECT_EQ(answer.values.at("confirmed"), "false");
  EXPECT_EQ(answer.values.at("message"), R"("too old")");
}

TEST_P(ControllerMethods, CreateVolume) {
  SetAnswer(R"({"volume": {"volume_id": "made", "capacity_bytes": "7"}})");
  const Answer answer = client_->Call(
      "CreateVolume", "ssa{sv}a{sv}", "csi", "n", 3, "required_bytes", "x",
      std::int64_t{7}, "usages", "aa{sv}", 1, 1, "fs_type", "s", "ext4",
      "preferred", "aa{ss}", 1, 1, "zone", "z1", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types, (Types{{"volume", "s"},
                                 {"capacity_bytes", "x"},
                                 {"volume_context", "a{ss}"},
                                 {"source_snapshot", "s"},
                                 {"source_volume", "s"},
                                 {"topology", "aa{ss}"}}));
  EXPECT_EQ(answer.values.at("volume"), R"("made")");
  EXPECT_NE(Request().find(R"("preferred":[{"segments":{"zone":"z1"}}])"),
            std::string::npos)
      << Request();
  // No task could use such a volume.
  EXPECT_EQ(
      client_->Call("CreateVolume", "ssa{sv}a{sv}", "csi", "n", 0, 0).error,
      "org.mountd1.Error.InvalidArgument");
}

TEST_P(ControllerMethods, DeleteVolume) {
  const Answer answer = client_->Call("DeleteVolume", "ssa{sv}", "csi", "v", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.signature, "");
}

TEST_P(ControllerMethods, ControllerExpandVolume) {
  SetAnswer(R"({"capacity_bytes": "9", "node_expansion_required": true})");
  const Answer answer =
      client_->Call("ControllerExpandVolume", "ssxa{sv}", "csi", "v",
                    std::int64_t{8}, 1, "limit_bytes", "x", std::int64_t{9});
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types,
            (Types{{"capacity_bytes", "x"}, {"node_expansion_required", "b"}}));
  EXPECT_EQ(answer.values.at("capacity_bytes"), "9");
  EXPECT_EQ(client_
                ->Call("ControllerExpandVolume", "ssxa{sv}", "csi", "v",
                       std::int64_t{-1}, 0)
                .error,
            "org.mountd1.Error.InvalidArgument");
}

TEST_P(ControllerMethods, ListPluginVolumes) {
  SetAnswer(R"({"entries": [{"volume": {"volume_id": "a"}}],
                "next_token": "more"})");
  const Answer answer = client_->Call("ListPluginVolumes", "sa{sv}", "csi", 1,
                                      "max_entries", "u", 2);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.values.at("next_token"), R"("more")");
  EXPECT_EQ(answer.values.at("volumes.0.volume"), R"("a")");
  EXPECT_EQ(client_
                ->Call("ListPluginVolumes", "sa{sv}", "csi", 1, "max_entries",
                       "u", 1001)
                .error,
            "org.mountd1.Error.InvalidArgument");
}

TEST_P(ControllerMethods, GetCapacity) {
  SetAnswer(R"({"available_capacity": "5", "maximum_volume_size": "4"})");
  const Answer answer = client_->Call("GetCapacity", "sa{sv}", "csi", 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.types,
            (Types{{"available_bytes", "x"}, {"maximum_volume_bytes", "x"}}));
}

TEST_P(ControllerMethods, CallController) {
  SetAnswer("ab");
  const Answer answer = client_->Call("CallController", "ssaya{sv}", "csi",
                                      "CreateSnapshot", 2, 1, 2, 0);
  ASSERT_TRUE(answer.ok()) << answer.message;
  EXPECT_EQ(answer.text, R"(b"ab")");
  EXPECT_EQ(Request(), "\x01\x02");
  EXPECT_EQ(
      client_->Call("CallController", "ssaya{sv}", "csi", "DeleteVolume", 0, 0)
          .error,
      "org.mountd1.Error.InvalidArgument");
}

TEST_P(ControllerMethods, OnlyWhomARuleGrantsThemMayMakeThem) {
  const auto stranger = Connect(kStranger);
  ASSERT_NE(stranger, nullptr);
  for (const Answer& answer :
       {stranger->Call("DeleteVolume", "ssa{sv}", "csi", "v", 0),
        stranger->Call("ListPluginVolumes", "sa{sv}", "csi", 0),
        stranger->Call("GetCapacity", "sa{sv}", "csi", 0),
        stranger->Call("CallController", "ssaya{sv}", "csi", "CreateSnapshot",
                       0, 0)}) {
    EXPECT_EQ(answer.error, "org.mountd1.Error.PermissionDenied");
  }
}

MOUNTD_ON_BOTH_TRANSPORTS(ControllerMethods);

}  // namespace
}  // namespace mountd::test
