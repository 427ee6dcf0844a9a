// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/controller.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>
#include <iterator>
#include <string>

#include "tests/unit/csi-node/node/volumes_fixture.h"

namespace mountd::csi {
namespace {

constexpr int kAllRpcs[] = {1, 2, 3, 4, 5, 9};

// Gives the plugin "nfs" a controller that answers `answer_`.
class ControllerTest : public VolumesTest {
 protected:
  void SetUp() override {
    type_ = "monolith";
    FakeCsiClient::Plugin plugin = FakeCsiClient::DefaultPlugin("nfs");
    plugin.capabilities.controller_rpcs.assign(std::begin(kAllRpcs),
                                               std::end(kAllRpcs));
    client().SetPlugin("nfs", plugin);
    client().SetController(
        [this](const ControllerCall&) -> RpcResult<std::string> {
          return answer_;
        });
    VolumesTest::SetUp();
  }

  Controller& controller() { return *core_.controller; }
  Result<StringMap> Attach() {
    return controller().Publish("nfs", {"v1", "node-b", {}, false, {}},
                                context_);
  }
  Result<void> Detach(const std::string& node) {
    return controller().Unpublish("nfs", {"v1", node}, context_);
  }
  Result<void> Delete() {
    return controller().Delete("nfs", DeleteVolumeRequest{"v1"}, context_);
  }

  std::string answer_ = "{}";
  const UniqueFd none_{};
  const CancelToken never_{};
  const Controller::Context context_{none_, never_};
};

TEST_F(ControllerTest, ThePublishContextComesBackAsItIs) {
  answer_ = R"({"publish_context": {"lun": "7"}})";
  const Result<StringMap> attached = Attach();
  ASSERT_EQ(Outcome(attached), "Ok");
  EXPECT_EQ(*attached, (StringMap{{"lun", "7"}}));
  EXPECT_EQ(client().last_controller_call().rpc, "ControllerPublishVolume");
}

// A plugin that runs is not away only because mountd has just started.
TEST_F(ControllerTest, ACallAfterAStartWaitsForThePlugin) {
  executor().script().Block("ConnectPlugin");
  core_.Restart();
  ASSERT_EQ(Outcome(core_.Recover()), "Ok");
  auto told = std::async(std::launch::async, [&] { return Outcome(Attach()); });
  ASSERT_TRUE(executor().script().AwaitBlocked("ConnectPlugin"));
  EXPECT_EQ(told.wait_for(std::chrono::milliseconds(20)),
            std::future_status::timeout);
  executor().script().Unblock("ConnectPlugin");
  EXPECT_EQ(told.get(), "Ok");
}

TEST_F(ControllerTest, DetachingFromNoNodeIsRefusedUncalled) {
  EXPECT_EQ(Detach("").error().code, Code::kInvalidArgument);
  EXPECT_EQ(Calls("ControllerUnpublishVolume"), 0U);
}

TEST_F(ControllerTest, WhatIsNotThereIsDetachedAndDeleted) {
  client().FailNext("ControllerUnpublishVolume", RpcCode::kNotFound);
  client().FailNext("DeleteVolume", RpcCode::kNotFound);
  EXPECT_EQ(Outcome(Detach("node-b")), "Ok");
  EXPECT_EQ(Outcome(Delete()), "Ok");
  EXPECT_EQ(
      controller().Unpublish("other", {"v1", "node-b"}, context_).error().code,
      Code::kNotFound);
}

TEST_F(ControllerTest, AVolumeInUseHereIsNeitherDetachedFromHereNorDeleted) {
  ASSERT_EQ(Outcome(Publish()), "Ok");
  EXPECT_EQ(Detach("node-nfs").error().code, Code::kBusy);
  EXPECT_EQ(Delete().error().code, Code::kBusy);
  EXPECT_EQ(Outcome(Detach("node-b")), "Ok");
  ASSERT_EQ(Outcome(Unpublish()), "Ok");
  EXPECT_EQ(Outcome(Detach("node-nfs")), "Ok");
  EXPECT_EQ(Outcome(Delete()), "Ok");
}

TEST_F(ControllerTest, ACallThatChangesSomethingIsMadeUntilItIsFinal) {
  client().FailNext("ControllerPublishVolume", RpcCode::kAborted,
                    FailWhen::kBefore, 2);
  EXPECT_EQ(Outcome(Attach()), "Ok");
  EXPECT_EQ(Calls("ControllerPublishVolume"), 3U);
  client().FailNext("ControllerPublishVolume", RpcCode::kFailedPrecondition);
  const Result<StringMap> refused = Attach();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kFailedPrecondition);
  EXPECT_EQ(refused.error().detail.find("outcome is unknown"),
            std::string::npos);
}

// The plugin has no room, and a caller must not wait for the last retry to
// learn it.
TEST_F(ControllerTest, ResourceExhaustedIsFinal) {
  client().FailNext("ControllerPublishVolume", RpcCode::kResourceExhausted);
  const Result<StringMap> refused = Attach();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kResourceExhausted);
  EXPECT_EQ(refused.error().detail.find("outcome is unknown"),
            std::string::npos);
  EXPECT_EQ(Calls("ControllerPublishVolume"), 1U);
}

TEST_F(ControllerTest, AnOutcomeThatIsNotKnownIsToldAsSuch) {
  client().FailNext("ControllerPublishVolume", RpcCode::kDataLoss);
  const Result<StringMap> attached = Attach();
  ASSERT_FALSE(attached);
  EXPECT_EQ(attached.error().code, Code::kInternal);
  EXPECT_NE(attached.error().detail.find("the outcome is unknown"),
            std::string::npos);
  EXPECT_EQ(Calls("ControllerPublishVolume"), 1U);
  answer_ = "{\"publish_context\": 7}";
  EXPECT_NE(Attach().error().detail.find("the outcome is unknown"),
            std::string::npos);
}

// CSI: ListVolumes answers ABORTED if the token is not valid, so a retry cannot
// help.
TEST_F(ControllerTest, AListIsAskedForOnce) {
  client().FailNext("ListVolumes", RpcCode::kAborted);
  EXPECT_EQ(controller().List("nfs", {10, "old"}, context_).error().code,
            Code::kAborted);
  EXPECT_EQ(Calls("ListVolumes"), 1U);
}

TEST_F(ControllerTest, APageIsNeverLongerThanItWasAskedFor) {
  answer_ = R"({"entries": [{"volume": {"volume_id": "a"}},
                            {"volume": {"volume_id": "b"}}]})";
  EXPECT_EQ(controller().List("nfs", {2, ""}, context_)->volumes.size(), 2U);
  EXPECT_EQ(controller().List("nfs", {1, ""}, context_).error().code,
            Code::kInternal);
}

TEST_F(ControllerTest, WhatThePluginDoesNotOfferIsNotTried) {
  EXPECT_EQ(
      controller().HandOn("nfs", "GetSnapshot", "", context_).error().code,
      Code::kNotSupported);
  EXPECT_EQ(controller()
                .HandOn("nfs", "CreateVolumeGroupSnapshot", "", context_)
                .error()
                .code,
            Code::kNotSupported);
  EXPECT_EQ(Calls("GetSnapshot"), 0U);
}

TEST_F(ControllerTest, OnlyCallsWithoutAMethodOfTheirOwnAreHandedOn) {
  answer_ = "bytes";
  const Result<std::string> made =
      controller().HandOn("nfs", "CreateSnapshot", "request", context_);
  ASSERT_EQ(Outcome(made), "Ok");
  EXPECT_EQ(*made, "bytes");
  EXPECT_EQ(client().last_controller_call().request, "request");
  for (const char* rpc :
       {"DeleteVolume", "ControllerUnpublishVolume", "NodeStageVolume", ""}) {
    EXPECT_EQ(controller().HandOn("nfs", rpc, "", context_).error().code,
              Code::kInvalidArgument);
  }
}

TEST_F(ControllerTest, ItsOwnInstanceIsAsked) {
  PluginRecord record{"nfs", "controller", Core::kAgent, "", ""};
  ASSERT_EQ(Outcome(core_.plugins->Register(record)), "Ok");
  ASSERT_TRUE(core_.events.Await("healthy nfs controller "));
  EXPECT_EQ(Outcome(Attach()), "Ok");
  EXPECT_EQ(core_.plugins->UseController("nfs")->status.record.type,
            "controller");
  ASSERT_EQ(Outcome(core_.plugins->Unregister("nfs", {.type = "monolith"})),
            "Ok");
  EXPECT_EQ(Outcome(Attach()), "Ok");
}

TEST_F(ControllerTest, APluginThatIsAwayIsUnavailable) {
  client().SetReady("nfs", false);
  ASSERT_TRUE(core_.events.Await("nfs unhealthy 1"));
  EXPECT_EQ(Attach().error().code, Code::kUnavailable);
}

}  // namespace
}  // namespace mountd::csi
