// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "agent/subscriber.h"
#include "tests/support/eventually.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {

inline constexpr char kNetworkConfig[] = R"(
[network.default]
ipv4 = "10.88.0.0/24"
ipv6 = "fd88::/64"
[network.small]
ipv4 = "10.89.0.0/29"
[[rule]]
users = ["agent"]
networks = ["*"]
host_ports = ["20000-20999"]
[limits]
operations_per_uid = 512
peers_per_uid = 256
)";

// Returns all fields of a status as text.
inline std::string TextOf(const agent::NetworkStatus& status) {
  std::string text = status.mode + " " + status.network + " " +
                     status.interface + " " + status.netns_path + "=" +
                     std::to_string(status.netns_inode) + " " + status.address +
                     " " + status.address6 + " " + status.gateway + " " +
                     status.gateway6 + " " + status.host_interface +
                     (status.isolated ? " isolated" : "") +
                     (status.default_route ? " default" : "");
  for (const agent::Port& port : status.ports) {
    text += " " + port.label + ":" + port.host_address + ":" +
            std::to_string(port.host) + ">" + std::to_string(port.container) +
            "*" + std::to_string(port.count) + "/" + port.protocols;
  }
  return text;
}

// Records the signals of networks as lines, in order. Thread-safe.
class NetworkSignals {
 public:
  void Add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  std::vector<std::string> All() const {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  void Forget() {
    const std::lock_guard lock(mutex_);
    lines_.clear();
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

// Owns a whole mountd with two networks or a test's own, and an agent that
// hears its signals.
class NodeNetworkFixture : public NodeFixture {
 protected:
  void SetUp() override {
    NodeFixture::SetUp();
    if (IsSkipped()) {
      return;
    }
    ASSERT_NO_FATAL_FAILURE(StartNode(ConfigText()));
    ASSERT_EQ(MessageOf(client_->GetCapabilities()), "Ok");
  }
  void TearDown() override {
    subscriber_.reset();
    NodeFixture::TearDown();
  }

  virtual std::string ConfigText() const { return kNetworkConfig; }

  // Subscribes as the agent, whom the signals are for.
  void Subscribe() {
    subscriber_.reset();
    std::optional<Result<agent::Subscriber>> started;
    std::thread([&] {
      ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
      ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
      started = agent::Subscriber::Start({}, Handlers());
    }).join();
    ASSERT_TRUE(*started) << started->error().Message();
    subscriber_.emplace(**std::move(started));
  }

  // Kills the processes, and connects again, because a client that does so by
  // itself would be root.
  void Kill(const std::string& process) {
    Node::Kill(Node::Processes(process));
    Connect();
  }

  void Prepare(const std::string& allocation) {
    ASSERT_EQ(MessageOf(client_->PrepareAllocation(allocation)), "Ok");
  }
  agent::NetworkStatus SetUpNetwork(const std::string& allocation,
                                    const agent::NetworkSpec& spec) {
    Prepare(allocation);
    const auto made = client_->SetupNetwork(allocation, spec);
    EXPECT_EQ(MessageOf(made), "Ok");
    return made ? *made : agent::NetworkStatus{};
  }
  std::vector<agent::NetworkStatus> NetworksOf(const std::string& allocation) {
    const auto status = client_->GetAllocation(allocation);
    return status ? status->networks : std::vector<agent::NetworkStatus>{};
  }
  std::vector<std::string> TextsOf(const std::string& allocation) {
    std::vector<std::string> texts;
    for (const agent::NetworkStatus& status : NetworksOf(allocation)) {
      texts.push_back(TextOf(status));
    }
    return texts;
  }
  void Release(const std::string& allocation) {
    ASSERT_EQ(MessageOf(client_->ReleaseAllocation(allocation)), "Ok");
  }
  agent::AddressUsage Usage(const std::string& network) {
    const auto capabilities = client_->GetCapabilities();
    EXPECT_EQ(MessageOf(capabilities), "Ok");
    return capabilities ? capabilities->addresses.at(network)
                        : agent::AddressUsage{};
  }
  bool AllAddressesAreFree() {
    return Eventually([&] {
      return Usage("default").free == Usage("default").capacity &&
             Usage("small").free == Usage("small").capacity;
    });
  }
  // Returns what is left of networks; "" if nothing is.
  static std::string NetworkDifference(const Inventory& before) {
    std::string difference;
    Eventually([&] {
      difference =
          Difference(OfNetworks(before), OfNetworks(Inventory::Take()));
      return difference.empty();
    });
    return difference;
  }
  static bool Run(const std::string& command) {
    const int status = std::system((command + " 2>/dev/null").c_str());
    return status == 0;
  }

  NetworkSignals told_;

 private:
  agent::SignalHandlers Handlers() {
    agent::SignalHandlers handlers;
    handlers.network_repaired = [this](const auto& allocation,
                                       const auto& interface,
                                       const auto& what) {
      told_.Add(allocation + "/" + interface + " repaired: " + what);
    };
    handlers.network_lost = [this](const auto& allocation,
                                   const auto& interface,
                                   const auto& /*reason*/) {
      told_.Add(allocation + "/" + interface + " lost");
    };
    handlers.ruleset_restored = [this] { told_.Add("ruleset restored"); };
    handlers.addresses_scarce = [this](const std::string& network,
                                       const agent::AddressUsage& usage) {
      told_.Add(network + " scarce: " + std::to_string(usage.free) + " of " +
                std::to_string(usage.capacity));
    };
    return handlers;
  }

  // Removes this process's fds, which change when clients connect again.
  static Inventory OfNetworks(Inventory inventory) {
    std::erase_if(inventory.items, [](const std::string& item) {
      return item.starts_with("fd ");
    });
    return inventory;
  }

  std::optional<agent::Subscriber> subscriber_;
};

}  // namespace mountd::testing
