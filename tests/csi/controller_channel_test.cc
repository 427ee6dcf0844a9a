// SPDX-License-Identifier: LGPL-2.1-or-later
#include <gtest/gtest.h>

#include "csi-node/types/csi_controller.h"
#include "csi-node/types/secrets.h"
#include "tests/csi/csi_channel.h"

// Controller calls reach the process of a plugin.
namespace mountd::csi {
namespace {

class ControllerChannel : public CsiChannel {
 protected:
  void SetUp() override {
    CsiChannel::SetUp();
    if (!IsSkipped()) {
      UseFakePlugin();
    }
  }
  RpcResult<std::string> Make(const ControllerCall& call,
                              const UniqueFd& secrets = UniqueFd()) {
    return client_->CallController(fake_, call, secrets, Soon());
  }
  RpcResult<std::string> Publish(const std::string& volume,
                                 const UniqueFd& secrets = UniqueFd()) {
    ControllerPublishRequest request;
    request.volume_id = volume;
    request.node_id = "node-1";
    request.read_only = true;
    request.capability.access_mode = AccessMode::kMultiNodeReaderOnly;
    request.capability.mount_flags = {"vers=4.2"};
    request.volume_context = {{"a", "b"}};
    return Make(ToCall(request), secrets);
  }
};

TEST_F(ControllerChannel, ARequestAndItsSecretsReachThePlugin) {
  const UniqueFd secrets = *EncodeSecrets({{"user", "anna"}, {"pw", "x"}});
  const auto answer = Publish("v", secrets);
  ASSERT_TRUE(answer) << answer.error().message;
  const auto context = ReadPublishContext(*answer);
  ASSERT_TRUE(context);
  EXPECT_EQ((std::map<std::string, std::string>{{"node", "node-1"},
                                                {"mode", "3"},
                                                {"secrets", "2"},
                                                {"readonly", "yes"},
                                                {"context", "1"}}),
            *context);
}

TEST_F(ControllerChannel, AnAnswersNumbersAndListsComeBack) {
  CreateVolumeRequest request;
  request.name = "n";
  request.capacity.required_bytes = std::int64_t{1} << 60U;
  request.capabilities.resize(1);
  const auto answer = Make(ToCall(request));
  ASSERT_TRUE(answer) << answer.error().message;
  const auto volume = ReadCreatedVolume(*answer);
  ASSERT_TRUE(volume);
  EXPECT_EQ("made", volume->volume_id);
  EXPECT_EQ(std::int64_t{1} << 60U, volume->capacity_bytes);
  EXPECT_EQ((std::vector<Segments>{{{"zone", "z1"}}}), volume->topology);
}

TEST_F(ControllerChannel, NoTextShowsASecretOrAFlag) {
  const UniqueFd secrets = *EncodeSecrets({{"pw", "hunter2"}});
  const auto published = Publish("tell", secrets);
  ASSERT_FALSE(published);
  EXPECT_EQ(RpcCode::kInternal, published.error().code);
  EXPECT_EQ("login failed: pw=[REDACTED] -o [REDACTED]",
            published.error().message);
  ValidateRequest request;
  request.volume_id = "v";
  request.capabilities.resize(1);
  request.capabilities[0].mount_flags = {"password=hunter2"};
  const auto answer = Make(ToCall(request));
  ASSERT_TRUE(answer);
  const auto validation = ReadValidation(*answer, request);
  ASSERT_TRUE(validation);
  EXPECT_FALSE(validation->confirmed);
  EXPECT_EQ("not: [REDACTED]...", validation->message.substr(0, 18));
  EXPECT_EQ(1024U, validation->message.size());
}

TEST_F(ControllerChannel, BytesGoThroughAsTheyAre) {
  // The request has volume_id "v" and node_id "n".
  const auto answer = Make({"ControllerPublishVolume",
                            ControllerCall::Form::kBytes, "\n\x01v\x12\x01n"});
  ASSERT_TRUE(answer) << answer.error().message;
  EXPECT_NE(std::string::npos, answer->find("\n\x04node\x12\x01n"));
}

TEST_F(ControllerChannel, WhatIsNoSuchRequestIsRefusedUnsent) {
  using Form = ControllerCall::Form;
  const std::vector<ControllerCall> calls{
      {"DeleteVolume", Form::kJson, "{\"volume\": \"v\"}"},
      {"DeleteVolume", Form::kJson, "{\"volume_id\": 7"},
      {"DeleteVolume", Form::kJson, "[]"},
      {"DeleteVolume", Form::kBytes, "\x7a\x01v"},  // a field 15
      {"DeleteVolume", Form::kBytes, "\n\x05v"},
      {"DeleteVolume", Form::kBytes, "\n\x01\xff"},
      // The request has the secrets {"k": "v"}.
      {"DeleteVolume", Form::kBytes, "\x12\x06\n\x01k\x12\x01v"},
      {"DeleteVolume", Form::kJson, "{\"secrets\": {\"k\": \"v\"}}"}};
  for (const ControllerCall& call : calls) {
    const auto answer = Make(call);
    ASSERT_FALSE(answer) << call.request;
    EXPECT_EQ(RpcCode::kInvalidArgument, answer.error().code);
  }
  for (const char* rpc : {"NodeStageVolume", "Probe", "", "Create/Volume"}) {
    EXPECT_EQ(RpcCode::kUnimplemented, CodeOf(Make({rpc, Form::kJson, "{}"})));
  }
  EXPECT_EQ(RpcCode::kInvalidArgument,
            CodeOf(Make({"ListVolumes", Form::kJson, "{}"},
                        *EncodeSecrets({{"k", "v"}}))));
}

TEST_F(ControllerChannel, AnswersBeyondTheirBoundsAreErrorsAndEndNothing) {
  for (const char* volume : {"huge", "many", "long", "wide", "bytes"}) {
    const auto answer = Publish(volume);
    ASSERT_FALSE(answer) << volume << " " << *answer;
    EXPECT_EQ(RpcCode::kDataLoss, answer.error().code);
    EXPECT_EQ(RpcCode::kOk, CodeOf(Publish("v"))) << volume;
  }
}

TEST_F(ControllerChannel, ACallThatThePluginHasNotIsUnimplemented) {
  EXPECT_EQ(RpcCode::kUnimplemented,
            CodeOf(Make(ToCall(DeleteVolumeRequest{"v"}))));
  EXPECT_EQ(RpcCode::kUnimplemented,
            CodeOf(Make({"GetVolumeGroupSnapshot", ControllerCall::Form::kJson,
                         "{}"})));
}

}  // namespace
}  // namespace mountd::csi
