// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/csi/csi_channel.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "csi-node/types/secrets.h"
#include "mountd/base/operation_trace.h"

namespace mountd::csi {
namespace {

TEST_F(CsiChannel, AsksThePluginWhatItIs) {
  const auto ready = client_->Probe(ref_, Soon());
  ASSERT_TRUE(ready);
  EXPECT_TRUE(*ready);
  const auto info = client_->GetPluginInfo(ref_, Soon());
  ASSERT_TRUE(info);
  EXPECT_EQ("csi-local.mountd.org", info->name);
  const auto node = client_->NodeGetInfo(ref_, Soon());
  ASSERT_TRUE(node);
  EXPECT_EQ("node-1", node->node_id);
  EXPECT_EQ(0, node->max_volumes);
  const auto capabilities = client_->GetCapabilities(ref_, Soon());
  ASSERT_TRUE(capabilities);
  EXPECT_EQ((std::vector<int>{1, 2, 5}), capabilities->services);
  EXPECT_FALSE(capabilities->controller_rpcs.empty());
  EXPECT_EQ((std::vector<int>{1, 2, 3, 4, 5, 6, 7, 8}),
            capabilities->node_rpcs);
}

TEST_F(CsiChannel, StagesPublishesAndUndoesAllOfIt) {
  ASSERT_EQ(RpcCode::kOk, CodeOf(client_->NodeStageVolume(ref_, Stage(),
                                                          UniqueFd(), Soon())));
  ASSERT_EQ(RpcCode::kOk, CodeOf(client_->NodePublishVolume(
                              ref_, Publish(), UniqueFd(), Soon())));
  std::ofstream(root() + "/publish/a/file") << "x";
  EXPECT_TRUE(fs::exists(root() + "/data/volumes/v/file"));
  UndoAll(ref_);
}

TEST_F(CsiChannel, APluginsErrorKeepsItsCodeAndText) {
  const auto published =
      client_->NodePublishVolume(ref_, Publish(), UniqueFd(), Soon());
  ASSERT_FALSE(published);
  EXPECT_EQ(RpcCode::kNotFound, published.error().code);
  EXPECT_NE(std::string::npos,
            published.error().message.find("the volume does not exist"));
}

TEST_F(CsiChannel, SecretsReachThePluginAndNoError) {
  UseFakePlugin();
  const Result<UniqueFd> secrets =
      EncodeSecrets({{"user", "anna"}, {"password", "hunter2"}});
  ASSERT_TRUE(secrets);
  StageRequest request = Stage("tell");
  request.capability.mount_flags = {"vers=4.2", "ro"};
  const auto staged =
      client_->NodeStageVolume(fake_, request, *secrets, Soon());
  ASSERT_FALSE(staged);
  EXPECT_EQ(RpcCode::kInternal, staged.error().code);
  const std::string& text = staged.error().message;
  for (const char* hidden : {"anna", "hunter2", "vers=4.2"}) {
    EXPECT_EQ(std::string::npos, text.find(hidden)) << text;
  }
  for (const char* shown : {"login failed:", "user=[REDACTED]",
                            "password=[REDACTED]", "-o [REDACTED] -o ro"}) {
    EXPECT_NE(std::string::npos, text.find(shown)) << text;
  }
}

// The plugin gets the RPC's own span. Without a trace it gets no such metadata.
TEST_F(CsiChannel, ATraceReachesThePlugin) {
  UseFakePlugin();
  const auto told = [&] {
    return client_->NodeStageVolume(fake_, Stage("trace"), UniqueFd(), Soon())
        .error()
        .message;
  };
  EXPECT_EQ("traceparent:", told());
  OperationTrace trace(
      {ParseTraceParent(
           "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"),
       ""},
      OperationTrace::Clock::now());
  const CurrentTrace current(&trace);
  const std::string text = told();
  const std::vector<Span> spans = trace.Report("PublishVolume", std::nullopt);
  ASSERT_EQ(2U, spans.size());
  EXPECT_EQ("NodeStageVolume", spans[1].name);
  EXPECT_EQ(Span::Kind::kClient, spans[1].kind);
  EXPECT_EQ(Code::kInternal, spans[1].error);
  EXPECT_EQ("traceparent: 00-0af7651916cd43dd8448eb211c80319c-" +
                ToHex(spans[1].id) + "-01",
            text);
}

TEST_F(CsiChannel, AnUnsealedMemfdIsRefusedUnsent) {
  UseFakePlugin();
  const UniqueFd file(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(RpcCode::kInvalidArgument,
            CodeOf(client_->NodeStageVolume(fake_, Stage("x"), file, Soon())));
}

TEST_F(CsiChannel, AnswersBeyondTheirBoundsAreErrors) {
  UseFakePlugin();
  EXPECT_EQ(RpcCode::kInternal, CodeOf(client_->GetPluginInfo(fake_, Soon())));
  EXPECT_EQ(RpcCode::kInternal,
            CodeOf(client_->GetCapabilities(fake_, Soon())));
  EXPECT_EQ(RpcCode::kInternal, CodeOf(client_->NodeGetInfo(fake_, Soon())));
  // The answer has no `ready`.
  const auto ready = client_->Probe(fake_, Soon());
  ASSERT_TRUE(ready);
  EXPECT_TRUE(*ready);
}

TEST_F(CsiChannel, AVolumesUsageAndConditionAreTold) {
  UseFakePlugin();
  const auto stats =
      client_->NodeGetVolumeStats(fake_, "worn", "/p", "/s", Soon());
  ASSERT_TRUE(stats);
  ASSERT_EQ(1U, stats->usage.size());
  EXPECT_EQ(1, stats->usage[0].available);
  EXPECT_EQ(3, stats->usage[0].total);
  EXPECT_EQ(2, stats->usage[0].used);
  EXPECT_TRUE(stats->usage[0].inodes);
  ASSERT_TRUE(stats->condition);
  EXPECT_TRUE(stats->condition->abnormal);
  EXPECT_EQ("worn x", stats->condition->message.substr(0, 6));
  EXPECT_EQ(1024U, stats->condition->message.size());
  EXPECT_EQ(RpcCode::kInternal, CodeOf(client_->NodeGetVolumeStats(
                                    fake_, "x", "/p", "/s", Soon())));
}

TEST_F(CsiChannel, AVolumesHealthIsACondition) {
  UseFakePlugin();
  const auto health = [this](const char* volume) {
    return client_->NodeGetVolumeHealth(fake_, volume, "/p", "/s", Soon());
  };
  const auto worn = health("worn");
  ASSERT_TRUE(worn);
  EXPECT_TRUE(worn->abnormal);
  EXPECT_EQ("DEGRADED (Slow): worn x", worn->message.substr(0, 23));
  EXPECT_EQ(1024U, worn->message.size());
  const auto lost = health("lost");
  ASSERT_TRUE(lost);
  EXPECT_EQ((VolumeCondition{true, "DATA_LOSS; UNKNOWN_VOLUME_HEALTH_TYPE"}),
            *lost);
  const auto well = health("well");
  ASSERT_TRUE(well);
  EXPECT_EQ((VolumeCondition{false, ""}), *well);
}

TEST_F(CsiChannel, AVolumeIsExpandedOnTheNode) {
  UseFakePlugin();
  const UniqueFd secrets = *EncodeSecrets({{"password", "hunter2"}});
  ExpandRequest request{"grow", "/p", "/s", 4096, 0, {}};
  const auto expanded =
      client_->NodeExpandVolume(fake_, request, secrets, Soon());
  ASSERT_TRUE(expanded);
  EXPECT_EQ(4096, *expanded);
  request.volume_id = "x";  // the fake plugin answers a negative size
  EXPECT_EQ(RpcCode::kInternal,
            CodeOf(client_->NodeExpandVolume(fake_, request, secrets, Soon())));
}

TEST_F(CsiChannel, AStoppedPluginMeansDeadlineExceeded) {
  plugin_.Signal(SIGSTOP);
  EXPECT_EQ(RpcCode::kDeadlineExceeded,
            CodeOf(client_->Probe(ref_, In(milliseconds(100)))));
  plugin_.Signal(SIGCONT);
  EXPECT_EQ(RpcCode::kOk, CodeOf(client_->Probe(ref_, Soon())));
}

TEST_F(CsiChannel, AHangingCallHoldsUpNoOther) {
  UseFakePlugin();
  std::thread hanging([this] {
    EXPECT_EQ(RpcCode::kCancelled,
              CodeOf(client_->NodeStageVolume(fake_, Stage("hang"), UniqueFd(),
                                              Soon())));
  });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(RpcCode::kOk, CodeOf(client_->Probe(ref_, Soon())));
  }
  // Closing a channel ends the calls under way on it, and nothing else.
  EXPECT_EQ(RpcCode::kDeadlineExceeded,
            CodeOf(client_->NodeStageVolume(fake_, Stage("hang"), UniqueFd(),
                                            In(milliseconds(50)))));
  client_->Close(fake_);
  hanging.join();
  EXPECT_EQ(RpcCode::kUnavailable, CodeOf(client_->Probe(fake_, Soon())));
  EXPECT_EQ(RpcCode::kOk, CodeOf(client_->Probe(ref_, Soon())));
}

TEST_F(CsiChannel, AKilledPluginIsUnavailableUntilTheNextGeneration) {
  ASSERT_EQ(RpcCode::kOk, CodeOf(client_->NodeStageVolume(ref_, Stage(),
                                                          UniqueFd(), Soon())));
  plugin_.KillAndWait();
  EXPECT_EQ(RpcCode::kUnavailable, CodeOf(client_->Probe(ref_, Soon())));
  StartPlugin({CSI_LOCAL, "--endpoint", Socket(), "--data-dir",
               root() + "/data", "--node-id", "node-1", "--create-on-stage"});
  EXPECT_EQ(RpcCode::kUnavailable, CodeOf(client_->Probe(ref_, Soon())));
  ASSERT_EQ(RpcCode::kOk, CodeOf(client_->Open(next_, ToPlugin())));
  EXPECT_EQ(RpcCode::kOk, CodeOf(client_->NodeStageVolume(next_, Stage(),
                                                          UniqueFd(), Soon())));
  EXPECT_EQ(1, testing::MountsAt(root() + "/staging/v"));
  // The old generation stays closed.
  EXPECT_EQ(RpcCode::kUnavailable, CodeOf(client_->Probe(ref_, Soon())));
  EXPECT_EQ(RpcCode::kAlreadyExists, CodeOf(client_->Open(ref_, ToPlugin())));
  UndoAll(next_);
}

TEST_F(CsiChannel, APluginKilledInACallIsUnavailableAtOnce) {
  UseFakePlugin();
  std::thread killer([this] {
    // The call is under way by then; the outcome is the same if it is not.
    std::this_thread::sleep_for(milliseconds(100));
    fake_plugin_.Signal(SIGKILL);
  });
  EXPECT_EQ(RpcCode::kUnavailable,
            CodeOf(client_->NodeStageVolume(fake_, Stage("hang"), UniqueFd(),
                                            Soon())));
  killer.join();
}

TEST_F(CsiChannel, AKilledMountdCsiEndsEveryCallInFlight) {
  UseFakePlugin();
  std::vector<std::thread> callers;
  std::atomic<int> unavailable = 0;
  callers.reserve(8);
  for (int i = 0; i < 8; ++i) {
    callers.emplace_back([&] {
      const auto staged =
          client_->NodeStageVolume(fake_, Stage("hang"), UniqueFd(), Soon());
      unavailable += CodeOf(staged) == RpcCode::kUnavailable ? 1 : 0;
    });
  }
  EXPECT_EQ(RpcCode::kOk, CodeOf(client_->Probe(ref_, Soon())));
  mountd_csi_.KillAndWait();
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(8, unavailable);
  EXPECT_TRUE(WaitForDisconnects(1));
  EXPECT_EQ(RpcCode::kUnavailable, CodeOf(client_->Probe(ref_, Soon())));
}

TEST_F(CsiChannel, OpenReconnectsToANewMountdCsi) {
  mountd_csi_.KillAndWait();
  ASSERT_TRUE(WaitForDisconnects(1));
  StartMountdCsi();
  ASSERT_EQ(RpcCode::kOk, CodeOf(client_->Open(next_, ToPlugin())));
  EXPECT_EQ(RpcCode::kOk, CodeOf(client_->Probe(next_, Soon())));
  // Only the old connection knew this channel.
  const auto old = client_->Probe(ref_, Soon());
  ASSERT_FALSE(old);
  EXPECT_EQ(RpcCode::kUnavailable, old.error().code);
  EXPECT_NE(std::string::npos, old.error().message.find("channel is gone"));
}

TEST_F(CsiChannel, WithoutMountdCsiOpenIsUnavailable) {
  mountd_csi_.KillAndWait();
  ASSERT_TRUE(WaitForDisconnects(1));
  listener_.reset();
  EXPECT_EQ(RpcCode::kUnavailable, CodeOf(client_->Open(next_, ToPlugin())));
}

TEST_F(CsiChannel, AStoppedMountdCsiMeansDeadlineExceededAndNothingDoneLate) {
  mountd_csi_.Signal(SIGSTOP);
  EXPECT_EQ(RpcCode::kDeadlineExceeded,
            CodeOf(client_->NodeStageVolume(ref_, Stage(), UniqueFd(),
                                            In(milliseconds(100)))));
  mountd_csi_.Signal(SIGCONT);
  EXPECT_EQ(RpcCode::kOk, CodeOf(client_->Probe(ref_, Soon())));
  EXPECT_EQ(0, testing::MountsAt(root() + "/staging/v"));
}

TEST_F(CsiChannel, OnlyTheNamedUserIsServed) {
  const UniqueFd other = testing::Listen(root() + "/other.sock");
  const Process strict({MOUNTD_CSI, "--peer-user",
                        std::to_string(::getuid() + 4242), "--listen-fd", "3"},
                       other);
  CsiChannelClient client(
      []() -> Result<UniqueFd> { return ConnectNow(root() + "/other.sock"); });
  EXPECT_EQ(RpcCode::kUnavailable, CodeOf(client.Open(ref_, ToPlugin())));
}

TEST_F(CsiChannel, WhatIsNoConnectedUnixSocketIsNoChannel) {
  EXPECT_EQ(
      RpcCode::kInvalidArgument,
      CodeOf(client_->Open(next_, UniqueFd(::open("/dev/null", O_RDWR)))));
  EXPECT_EQ(RpcCode::kInvalidArgument,
            CodeOf(client_->Open(next_, testing::Listen(root() + "/l.sock"))));
  EXPECT_EQ(RpcCode::kInvalidArgument,
            CodeOf(client_->Open(next_, UniqueFd())));
}

TEST_F(CsiChannel, MountdCsiHoldsNoCapabilityAndIsFiltered) {
  ASSERT_EQ(RpcCode::kOk, CodeOf(client_->Probe(ref_, Soon())));
  std::ifstream status("/proc/" + std::to_string(mountd_csi_.pid()) +
                       "/status");
  int seen = 0;
  for (std::string line; std::getline(status, line);) {
    if (line.rfind("Cap", 0) == 0) {
      EXPECT_NE(std::string::npos, line.find("0000000000000000")) << line;
      ++seen;
    }
    if (line.rfind("NoNewPrivs:", 0) == 0) {
      EXPECT_EQ("NoNewPrivs:\t1", line);
      ++seen;
    }
    if (line.rfind("Seccomp:", 0) == 0) {
      EXPECT_EQ("Seccomp:\t2", line);
      ++seen;
    }
  }
  EXPECT_EQ(7, seen);
}

#ifndef MOUNTD_SANITIZED
TEST_F(CsiChannel, MountdCsisMemoryIsBounded) {
  ASSERT_EQ(RpcCode::kOk, CodeOf(client_->Probe(ref_, Soon())));
  std::ifstream limits("/proc/" + std::to_string(mountd_csi_.pid()) +
                       "/limits");
  std::string all(std::istreambuf_iterator<char>(limits), {});
  for (const char* name : {"Max data size", "Max core file size"}) {
    const std::size_t at = all.find(name);
    ASSERT_NE(std::string::npos, at) << all;
    EXPECT_EQ(std::string::npos,
              all.substr(at, all.find('\n', at) - at).find("unlimited"));
  }
}
#endif

TEST_F(CsiChannel, ChannelsAndConnectionsLeakNoFds) {
  const auto cycle = [this](std::uint64_t generation) {
    const ChannelRef ref{"cycle", generation};
    ASSERT_EQ(RpcCode::kOk, CodeOf(client_->Open(ref, ToPlugin())));
    const UniqueFd secrets = *EncodeSecrets({{"k", "v"}});
    ASSERT_EQ(RpcCode::kOk, CodeOf(client_->Probe(ref, Soon())));
    ASSERT_EQ(RpcCode::kOk,
              CodeOf(client_->NodeStageVolume(ref, Stage(), secrets, Soon())));
    ASSERT_EQ(RpcCode::kOk, CodeOf(client_->NodeUnstageVolume(
                                ref, "v", root() + "/staging/v", Soon())));
    client_->Close(ref);
  };
  cycle(1);
  const auto ours = testing::OpenFds(::getpid());
  // gRPC closes a channel's fd a moment after the channel's last user is gone.
  const auto count = [this] {
    return testing::OpenFds(mountd_csi_.pid()).size();
  };
  const auto settled = [&](std::size_t limit) {
    const auto end = Clock::now() + seconds(10);
    while (count() > limit && Clock::now() < end) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    return count();
  };
  // On either side of the count one channel may still be closing.
  const std::size_t before = count() + 1;
  for (std::uint64_t generation = 2; generation < 50; ++generation) {
    cycle(generation);
  }
  EXPECT_LE(settled(before), before);
  EXPECT_EQ(ours, testing::OpenFds(::getpid()));
}

TEST_F(CsiChannel, ManyCallersAtOnceEachGetTheirOwnAnswer) {
  UseFakePlugin();
  std::vector<std::thread> callers;
  std::atomic<int> right = 0;
  for (int i = 0; i < 16; ++i) {
    callers.emplace_back([&, i] {
      for (int k = 0; k < 20; ++k) {
        if (i % 2 == 0) {
          const auto node = client_->NodeGetInfo(ref_, Soon());
          right += node && node->node_id == "node-1" ? 1 : 0;
        } else {
          right +=
              CodeOf(client_->NodeStageVolume(fake_, Stage("tell"), UniqueFd(),
                                              Soon())) == RpcCode::kInternal
                  ? 1
                  : 0;
        }
      }
    });
  }
  for (std::thread& caller : callers) {
    caller.join();
  }
  EXPECT_EQ(16 * 20, right);
}

}  // namespace
}  // namespace mountd::csi
