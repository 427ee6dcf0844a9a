// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A slow plugin does not make the calls of other users wait.
#include <algorithm>
#include <array>
#include <chrono>
#include <future>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "tests/root/node/node_csi_fixture.h"

namespace mountd::testing {
namespace {

using Clock = std::chrono::steady_clock;

class NodeCsiLoad : public NodeCsi {
 protected:
  NodeCsiLoad() {
    constexpr std::string_view kShort = "rpc_ms = 700";
    config_.replace(config_.find(kShort), kShort.size(), "rpc_ms = 30000");
  }
};

TEST_F(NodeCsiLoad, TwoHundredVolumesHoldUpNoMount) {
  constexpr int kVolumes = 200;
  constexpr int kAtOnce = 50;  // limits.rpcs_per_plugin
  constexpr double kCallMs = 1000;
  for (int i = 0; i < kVolumes; ++i) {
    ASSERT_EQ(Outcome(client_->PrepareAllocation("a" + std::to_string(i))),
              "Ok");
  }
  const auto bind = [&](const std::string& name) {
    const auto begun = Clock::now();
    agent::BindMountSpec spec;
    spec.task = "app";
    spec.name = name;
    spec.source_type = agent::SourceType::kHostVolume;
    spec.source = "a";
    EXPECT_EQ(Outcome(client_->BindMount("web", spec)), "Ok");
    return std::chrono::duration<double, std::milli>(Clock::now() - begun)
        .count();
  };
  const auto median = [&](const std::string& prefix) {
    std::array<double, 9> all{};
    for (std::size_t i = 0; i < all.size(); ++i) {
      all.at(i) = bind(prefix + std::to_string(i));
    }
    std::sort(all.begin(), all.end());
    return all[all.size() / 2];
  };
  const double alone = median("alone");

  Tell("NodePublishVolume", "delay 1000");
  const auto begun = Clock::now();
  std::vector<std::future<std::string>> all;
  for (int i = 0; i < kVolumes; ++i) {
    all.push_back(std::async(std::launch::async, [this, i] {
      auto client = node_->Connect();
      return client ? Outcome(client->PublishVolume(
                          "a" + std::to_string(i),
                          Volume("v" + std::to_string(i))))
                    : Outcome(client);
    }));
  }
  // From here on three rounds of calls are still to come, of a second each.
  EXPECT_TRUE(
      Eventually([&] { return Asked("NodePublishVolume") >= kAtOnce; }));
  const double beside = median("beside");
  const auto pending = std::count_if(all.begin(), all.end(), [](auto& one) {
    return one.wait_for(std::chrono::seconds(0)) != std::future_status::ready;
  });
  EXPECT_GT(pending, 0);
  for (auto& one : all) {
    EXPECT_EQ(one.get(), "Ok");
  }
  const double all_ms =
      std::chrono::duration<double, std::milli>(Clock::now() - begun).count();
  std::cerr << kVolumes << " volumes, " << kAtOnce
            << " calls of 1 s at once: " << all_ms << " ms; a mount alone "
            << alone << " ms, beside them " << beside << " ms\n";
  // One after the other the calls would take 200 s. Four rounds show that the
  // bound on calls at once holds.
  EXPECT_LT(all_ms, kVolumes * kCallMs / 4);
  EXPECT_GE(all_ms, kVolumes / kAtOnce * kCallMs);
  // A mount that waited for the calls would wait for at least one of them.
  EXPECT_LT(beside, alone + kCallMs / 2);
  Tell("", "");
  for (int i = 0; i < kVolumes; ++i) {
    EXPECT_EQ(Outcome(client_->ReleaseAllocation("a" + std::to_string(i))),
              "Ok");
  }
  EXPECT_EQ(Outcome(client_->ReleaseAllocation("web")), "Ok");
  EXPECT_TRUE(Eventually([&] {
    const auto volumes = client_->ListVolumes();
    return volumes && volumes->empty() &&
           MountPointsUnder(kFaultDirectory).size() == 1;
  }));
}

}  // namespace
}  // namespace mountd::testing
