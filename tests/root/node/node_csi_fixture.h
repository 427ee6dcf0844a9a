// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/csi/process.h"
#include "tests/support/eventually.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {

inline constexpr char kBusDirectory[] = "/run/host/bus";

inline constexpr char kFaults[] = "/run/host/fault";
inline constexpr char kFaultDirectory[] = "/run/mountd/base/p/fault";
// The configuration has one try of each call, so that each fault is seen; the
// next try belongs to a new call.
inline constexpr char kFaultConfig[] = R"(
[host_volume.a]
path = "/run/host/a"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
plugins = ["*"]
register_plugins = ["*"]
control_plugins = ["*"]
[limits]
operations_per_uid = 512
peers_per_uid = 256
rpcs_per_plugin = 50
[timeouts]
rpc_ms = 700
rpc_retries_ms = 1
probe_starting_ms = 50
probe_ready_ms = 500
probe_timeout_ms = 700
)";

// gRPC's codes, and the codes that mountd reports for them.
struct CodeRow {
  int code;
  const char* told;
  bool final;
};
inline constexpr CodeRow kCodes[] = {
    {1, "Unavailable", false},       {2, "Internal", false},
    {3, "InvalidArgument", true},    {4, "DeadlineExceeded", false},
    {5, "NotFound", true},           {6, "AlreadyExists", true},
    {7, "PermissionDenied", true},   {8, "ResourceExhausted", false},
    {9, "FailedPrecondition", true}, {10, "Aborted", false},
    {11, "InvalidArgument", true},   {12, "NotSupported", true},
    {13, "Internal", true},          {14, "Unavailable", false},
    {15, "Internal", false},         {16, "PermissionDenied", true},
};

// Owns a whole mountd with an unprivileged agent and a real CSI plugin that
// fails as the test says (tests/csi/fault_plugin.cc).
class NodeCsi : public NodeFixture {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    std::filesystem::create_directories("/run/host/a");
    std::filesystem::create_directories(kFaults);
    BeforeStart();
    ASSERT_NO_FATAL_FAILURE(StartNode(config_));
    ASSERT_EQ(MessageOf(client_->RegisterPlugin(
                  {.plugin = "fault", .type = agent::PluginType::kMonolith})),
              "Ok");
    StartPlugin();
    ASSERT_EQ(Outcome(client_->PrepareAllocation("web")), "Ok");
  }
  void TearDown() override {
    plugin_ = Process();
    NodeFixture::TearDown();
  }

  virtual void BeforeStart() {}

  void StartPlugin(const std::string& node_id = "node-1") {
    const std::string socket = std::string(kFaultDirectory) + "/csi.sock";
    std::filesystem::remove(socket);
    plugin_ = Process({FAULT_PLUGIN, socket, kFaults, node_id});
    ASSERT_TRUE(AwaitPlugin("healthy"));
  }
  bool AwaitPlugin(const std::string& state) {
    return Eventually([&] {
      const auto plugin = client_->GetPlugin("fault");
      return plugin && plugin->state == state;
    });
  }
  // Makes the plugin do `action` in each call of that RPC, and in no other,
  // until the next Tell.
  void Tell(const std::string& rpc, const std::string& action) {
    std::filesystem::remove(std::string(kFaults) + "/faults");
    if (!action.empty()) {
      std::ofstream(std::string(kFaults) + "/faults")
          << rpc << " * " << action << "\n";
    }
  }

  static agent::VolumeSpec Volume(const std::string& id = "v") {
    agent::VolumeSpec spec;
    spec.alias = "data";
    spec.volume = id;
    spec.plugin = "fault";
    return spec;
  }
  std::string Publish() {
    return Outcome(client_->PublishVolume("web", Volume()));
  }
  std::string Unpublish() {
    return Outcome(client_->UnpublishVolume("web", "data"));
  }
  // Returns "<volume's state> <publication's>", with "" for a state that is not
  // recorded.
  std::string Recorded() {
    const auto volumes = client_->ListVolumes();
    const auto allocation = client_->GetAllocation("web");
    if (!volumes || !allocation) {
      return "?";
    }
    return (volumes->empty() ? "" : volumes->front().state) + " " +
           (allocation->volumes.empty() ? ""
                                        : allocation->volumes.front().state);
  }
  bool NothingIsLeft() {
    const auto owed = client_->ListOwed();
    return Recorded() == " " && owed && owed->empty() &&
           MountPointsUnder(kFaultDirectory).size() == 1;
  }
  // Expects that the same call succeeds after any fault, and that the release
  // removes all.
  void ExpectAGoodEnd() {
    Tell("", "");
    EXPECT_TRUE(Eventually([&] { return Publish() == "Ok"; })) << Recorded();
    EXPECT_EQ(Recorded(), "staged published");
    ExpectReleased();
  }
  void ExpectReleased() {
    EXPECT_TRUE(Eventually([&] { return Unpublish() == "Ok"; })) << Recorded();
    EXPECT_TRUE(Eventually([&] { return NothingIsLeft(); })) << Recorded();
  }

  // Returns how often the RPC was called.
  static std::size_t Asked(const std::string& rpc) {
    std::ifstream calls(std::string(kFaults) + "/calls");
    std::size_t count = 0;
    for (std::string line; std::getline(calls, line);) {
      count += line.starts_with("{\"rpc\": \"" + rpc + "\"") ? 1U : 0U;
    }
    return count;
  }

  std::string config_ = kFaultConfig;
  Process plugin_;
};

}  // namespace mountd::testing
