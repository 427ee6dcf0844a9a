// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/ipc/message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace mountd::csi::ipc {
namespace {

using Bytes = std::vector<std::uint8_t>;

Request PublishCall() {
  PublishRequest publish;
  publish.volume_id = "vol";
  publish.publish_context = {{"lun", "1"}};
  publish.staging_target_path = "/staging";
  publish.target_path = "/target";
  publish.capability.access_mode = AccessMode::kSingleNodeMultiWriter;
  publish.capability.fs_type = "ext4";
  publish.capability.mount_flags = {"ro", "x=y"};
  publish.capability.volume_mount_group = "7";
  publish.read_only = true;
  publish.volume_context = {{"a", ""}, {"b", "\xc3\xa4"}};
  Request request;
  request.id = 0xffffffffffffffffULL;
  request.method = Method::kNodePublishVolume;
  request.channel = {"web[1]", 3};
  request.deadline_ms = 123456789;
  request.arguments = publish;
  return request;
}

Reply NodeInfoReply() {
  Reply reply;
  reply.id = 7;
  reply.answer = NodeInfo{"node", 9, {{"zone", "a"}}};
  return reply;
}

TEST(Message, ARequestComesBackAsItWasSent) {
  const Request sent = PublishCall();
  const Result<Request> got = DecodeRequest(Encode(sent));
  ASSERT_TRUE(got);
  EXPECT_EQ(sent.id, got->id);
  EXPECT_EQ(sent.method, got->method);
  EXPECT_EQ("web[1]", got->channel.plugin);
  EXPECT_EQ(3U, got->channel.generation);
  EXPECT_EQ(sent.deadline_ms, got->deadline_ms);
  const auto& publish = std::get<PublishRequest>(got->arguments);
  const auto& original = std::get<PublishRequest>(sent.arguments);
  EXPECT_EQ(original.publish_context, publish.publish_context);
  EXPECT_EQ(original.target_path, publish.target_path);
  EXPECT_EQ(original.capability.mount_flags, publish.capability.mount_flags);
  EXPECT_EQ(original.capability.access_mode, publish.capability.access_mode);
  EXPECT_TRUE(publish.read_only);
  EXPECT_EQ(original.volume_context, publish.volume_context);
}

TEST(Message, ARequestsTraceComesBack) {
  Request sent = PublishCall();
  const std::size_t without = Encode(sent).size();
  EXPECT_FALSE(DecodeRequest(Encode(sent))->trace);
  sent.trace = ParseTraceParent(
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  EXPECT_GT(Encode(sent).size(), without);
  const Result<Request> got = DecodeRequest(Encode(sent));
  ASSERT_TRUE(got);
  EXPECT_EQ(got->trace, sent.trace);
}

// The text becomes a header of each plugin's RPC.
TEST(Message, ATraceThatIsNoneIsRefused) {
  Request sent = PublishCall();
  sent.trace = ParseTraceParent(
      "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01");
  const std::vector<std::uint8_t> good = Encode(sent);
  const std::string digits = "0af7651916cd43dd";
  const auto at =
      std::search(good.begin(), good.end(), digits.begin(), digits.end());
  ASSERT_NE(at, good.end());
  for (const char wrong : {'\n', ' ', 'G', 'A', '\x7f'}) {
    std::vector<std::uint8_t> bad = good;
    bad[static_cast<std::size_t>(at - good.begin())] =
        static_cast<std::uint8_t>(wrong);
    EXPECT_FALSE(DecodeRequest(bad)) << static_cast<int>(wrong);
  }
}

TEST(Message, EveryRpcHasItsNameInTheSpecification) {
  for (int method = 1; method <= static_cast<int>(kLastMethod); ++method) {
    Request request;
    request.method = static_cast<Method>(method);
    request.arguments = ControllerCall{"CreateVolume", {}, ""};
    const bool own =
        request.method == Method::kOpen || request.method == Method::kClose;
    EXPECT_EQ(RpcName(request).empty(), own) << method;
  }
}

TEST(Message, EveryKindOfRequestComesBack) {
  const std::vector<std::pair<Method, Arguments>> calls{
      {Method::kOpen, {}},
      {Method::kProbe, {}},
      {Method::kNodeStageVolume, StageRequest{"v", {}, "/s", {}, {}}},
      {Method::kNodeUnstageVolume, UnstageRequest{"v", "/s"}},
      {Method::kNodeUnpublishVolume, UnpublishRequest{"v", "/t"}},
      {Method::kNodeExpandVolume, ExpandRequest{"v", "/p", "/s", 1, 2, {}}},
      {Method::kNodeGetVolumeStats, StatsRequest{"v", "/p", "/s"}},
      {Method::kNodeGetVolumeHealth, StatsRequest{"v", "/p", "/s"}},
      {Method::kCallController,
       ControllerCall{"DeleteVolume", ControllerCall::Form::kBytes,
                      std::string("\0\xff", 2)}}};
  for (const auto& [method, arguments] : calls) {
    Request request;
    request.id = 1;
    request.method = method;
    request.arguments = arguments;
    const Result<Request> got = DecodeRequest(Encode(request));
    ASSERT_TRUE(got) << static_cast<int>(method);
    EXPECT_EQ(arguments.index(), got->arguments.index());
  }
}

TEST(Message, EveryKindOfAnswerComesBack) {
  const std::vector<Answer> answers{
      std::monostate{},       ProbeResult{true},
      PluginInfo{"a.b", "1"}, PluginCapabilities{{1, 2}, {}, {1, 99}},
      NodeInfo{"n", 0, {}},   ExpandResult{7},
      VolumeStats{},          ControllerAnswer{"{}"}};
  for (const Answer& answer : answers) {
    Reply reply;
    reply.id = 1;
    reply.answer = answer;
    const Result<Reply> got = DecodeReply(Encode(reply));
    ASSERT_TRUE(got) << answer.index();
    EXPECT_EQ(answer.index(), got->answer.index());
  }
}

TEST(Message, StatsComeBackWithTheirConditionOrWithout) {
  Reply reply;
  reply.id = 1;
  reply.answer = VolumeStats{{{1, 3, 2, false}, {4, 9, 5, true}},
                             VolumeCondition{true, "worn"}};
  const Result<Reply> got = DecodeReply(Encode(reply));
  ASSERT_TRUE(got);
  const auto& stats = std::get<VolumeStats>(got->answer);
  ASSERT_EQ(2U, stats.usage.size());
  EXPECT_EQ(1, stats.usage[0].available);
  EXPECT_EQ(3, stats.usage[0].total);
  EXPECT_EQ(2, stats.usage[0].used);
  EXPECT_FALSE(stats.usage[0].inodes);
  EXPECT_TRUE(stats.usage[1].inodes);
  ASSERT_TRUE(stats.condition);
  EXPECT_TRUE(stats.condition->abnormal);
  EXPECT_EQ("worn", stats.condition->message);
}

TEST(Message, StatsBeyondTheirBoundsAreRefused) {
  const std::vector<VolumeStats> all{
      {std::vector<VolumeStats::Usage>(kMaxUsages + 1), {}},
      {{{-1, 0, 0, false}}, {}},
      {{}, VolumeCondition{false, std::string(kMaxMessage + 1, 'x')}},
      {{}, VolumeCondition{false, "\xff"}}};
  for (const VolumeStats& stats : all) {
    Reply reply;
    reply.id = 1;
    reply.answer = stats;
    EXPECT_FALSE(DecodeReply(Encode(reply)));
  }
  Reply reply;
  reply.id = 1;
  reply.answer = ExpandResult{-1};
  EXPECT_FALSE(DecodeReply(Encode(reply)));
}

TEST(Message, ControllerCallsCarryAnyBytesWithinTheirBounds) {
  Request request;
  request.id = 1;
  request.method = Method::kCallController;
  ControllerCall call{"DeleteVolume", ControllerCall::Form::kBytes,
                      std::string("\0\xff", 2)};
  request.arguments = call;
  const Result<Request> got = DecodeRequest(Encode(request));
  ASSERT_TRUE(got);
  const auto& back = std::get<ControllerCall>(got->arguments);
  EXPECT_EQ(call.rpc, back.rpc);
  EXPECT_EQ(call.form, back.form);
  EXPECT_EQ(call.request, back.request);
  call.request = std::string(kMaxControllerRequest + 1, 'x');
  request.arguments = call;
  EXPECT_FALSE(DecodeRequest(Encode(request)));
  call.request.clear();
  call.form = static_cast<ControllerCall::Form>(2);
  request.arguments = call;
  EXPECT_FALSE(DecodeRequest(Encode(request)));
  Reply reply;
  reply.id = 1;
  reply.answer = ControllerAnswer{std::string(kMaxControllerAnswer + 1, 'x')};
  EXPECT_FALSE(DecodeReply(Encode(reply)));
}

TEST(Message, ArgumentsOfAnotherMethodAreRefused) {
  Request request = PublishCall();
  request.method = Method::kNodeStageVolume;
  EXPECT_FALSE(DecodeRequest(Encode(request)));
  request.method = Method::kProbe;
  EXPECT_FALSE(DecodeRequest(Encode(request)));
  request.method = static_cast<Method>(99);
  EXPECT_FALSE(DecodeRequest(Encode(request)));
}

TEST(Message, FieldsBeyondTheirBoundsAreRefused) {
  Reply reply = NodeInfoReply();
  reply.message = std::string(kMaxMessage + 1, 'x');
  EXPECT_FALSE(DecodeReply(Encode(reply)));
  reply = NodeInfoReply();
  reply.message = "\xff";
  EXPECT_FALSE(DecodeReply(Encode(reply)));
  reply = NodeInfoReply();
  reply.code = static_cast<RpcCode>(17);
  EXPECT_FALSE(DecodeReply(Encode(reply)));
  reply = NodeInfoReply();
  reply.answer = NodeInfo{std::string(kMaxNodeId + 1, 'n'), 0, {}};
  EXPECT_FALSE(DecodeReply(Encode(reply)));
  reply.answer = NodeInfo{"n", -1, {}};
  EXPECT_FALSE(DecodeReply(Encode(reply)));
  reply.answer = NodeInfo{"n", 0, {{"k", std::string(kMaxMapBytes, 'v')}}};
  EXPECT_FALSE(DecodeReply(Encode(reply)));
  reply.answer =
      PluginCapabilities{std::vector<int>(kMaxCapabilities + 1, 1), {}, {}};
  EXPECT_FALSE(DecodeReply(Encode(reply)));
}

TEST(Message, EveryTruncationIsRefused) {
  const Bytes request = Encode(PublishCall());
  const Bytes reply = Encode(NodeInfoReply());
  for (std::size_t size = 0; size < request.size(); ++size) {
    const auto end = request.begin() + static_cast<std::ptrdiff_t>(size);
    EXPECT_FALSE(DecodeRequest(Bytes(request.begin(), end))) << size;
  }
  for (std::size_t size = 0; size < reply.size(); ++size) {
    const auto end = reply.begin() + static_cast<std::ptrdiff_t>(size);
    EXPECT_FALSE(DecodeReply(Bytes(reply.begin(), end))) << size;
  }
}

TEST(Message, DeepNestingAndManyValuesAreRefusedCheaply) {
  EXPECT_FALSE(DecodeRequest(Bytes(4U << 20U, 0x81)));  // arrays of one, nested
  EXPECT_FALSE(DecodeRequest(Bytes(4U << 20U, 0xa1)));  // maps of one
  Bytes many{0x9f};                                     // an array without end
  many.resize(4U << 20U, 0xf6);                         // of nulls
  EXPECT_FALSE(DecodeRequest(many));
  EXPECT_FALSE(DecodeReply(Bytes{0x9b, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
                                 0xff}));  // an array that claims a huge size
}

TEST(Message, NoChangedByteGetsAFieldPastItsBounds) {
  const Bytes bytes = Encode(NodeInfoReply());
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    for (unsigned value = 0; value < 256; ++value) {
      Bytes changed = bytes;
      changed[i] = static_cast<std::uint8_t>(value);
      const Result<Reply> reply = DecodeReply(changed);
      if (reply) {
        EXPECT_LE(reply->message.size(), kMaxMessage);
        EXPECT_LE(static_cast<int>(reply->code), 16);
      }
    }
  }
}

TEST(Message, SurvivesGarbageOfAnySeed) {
  const Bytes request = Encode(PublishCall());
  int taken = 0;
  int refused = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    Bytes bytes = request;
    for (unsigned changes = 1 + random() % 8; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<std::uint8_t>(random());
    }
    IgnoreBecauseBestEffort(DecodeReply(bytes));
    const auto decoded = DecodeRequest(bytes);
    if (!decoded) {
      ++refused;
      continue;
    }
    ++taken;
    // A message has one meaning: encoding it again gives what was decoded.
    const Bytes again = Encode(*decoded);
    const auto read = DecodeRequest(again);
    ASSERT_TRUE(read) << read.error().Message();
    ASSERT_EQ(Encode(*read), again);
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

}  // namespace
}  // namespace mountd::csi::ipc
