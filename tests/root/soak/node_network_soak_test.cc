// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Several clients set up and tear down networks of many allocations at random,
// while mountd and its executors are killed and other programs delete links and
// rules. At the end each network that exists works, and after the last release
// nothing is left.
//
//   MOUNTD_NETWORK_STEPS   number of steps (2000)
//   MOUNTD_NETWORK_SEED    seed of the random numbers; it is printed
#include <net/if.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <memory>
#include <random>
#include <set>
#include <sstream>

#include "mountd/base/number.h"
#include "mountd/kernel/nft_command.h"
#include "tests/root/node/node_network_fixture.h"
#include "tests/support/held_namespace.h"
#include "tests/support/net_probe.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using agent::NetworkSpec;
using agent::NetworkStatus;

constexpr int kClients = 4;
constexpr int kAllocations = 16;
constexpr int kNamespaces = 3;

std::uint32_t NumberFrom(const char* variable, std::uint32_t otherwise) {
  const char* text = std::getenv(variable);
  const auto number = ParseNumber<std::uint32_t>(text != nullptr ? text : "");
  return number ? *number : otherwise;
}

class Random {
 public:
  explicit Random(std::uint32_t seed) : engine_(seed) {}
  int Below(int end) {
    return std::uniform_int_distribution<int>(0, end - 1)(engine_);
  }
  bool Percent(int percent) { return Below(100) < percent; }

 private:
  std::mt19937 engine_;
};

std::size_t FdsOf(const UniqueFd& pidfd) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(pidfd.get()));
  std::error_code gone;
  for (std::string word; info >> word;) {
    if (word == "Pid:" && info >> word) {
      const fs::directory_iterator fds("/proc/" + word + "/fd", gone);
      return static_cast<std::size_t>(std::distance(begin(fds), end(fds)));
    }
  }
  return 0;
}

// Returns "" if the kernel does not report the number.
std::string Conntrack() {
  std::string count;
  std::ifstream("/proc/sys/net/netfilter/nf_conntrack_count") >> count;
  return count;
}

class NodeNetworkSoak : public NodeNetworkFixture {
 protected:
  void SetUp() override {
    NodeNetworkFixture::SetUp();
    if (IsSkipped() || HasFatalFailure()) {
      return;
    }
    std::cout << "MOUNTD_NETWORK_SEED=" << seed_ << std::endl;
    for (int i = 0; i < kNamespaces; ++i) {
      namespaces_.push_back(std::make_unique<HeldNamespace>(kAgentUid));
      ASSERT_TRUE(namespaces_.back()->valid());
    }
    // The first network opens what stays open.
    SetUpNetwork("first", {});
    Release("first");
    ASSERT_TRUE(AllAddressesAreFree());
    before_ = Inventory::Take();
    conntrack_ = Conntrack();
    fds_ = MountdFds();
  }

  // Returns mountd's open fds without one for each executor, because executors
  // come and go.
  static int MountdFds() {
    const auto mountd = Node::Processes("mountd");
    return mountd.empty()
               ? -1
               : static_cast<int>(FdsOf(mountd.front())) -
                     static_cast<int>(Node::Processes("mountd-exec").size());
  }

  static std::string Any(Random* random) {
    return "a" + std::to_string(random->Below(kAllocations));
  }
  static void AddPorts(Random* random, NetworkSpec* spec) {
    constexpr const char* kAddresses[] = {"", "127.0.0.1", "0.0.0.0"};
    constexpr const char* kProtocols[] = {"tcp", "udp", "tcp+udp"};
    for (int i = random->Below(3); i > 0; --i) {
      agent::Port port;
      port.label = "p" + std::to_string(i);
      port.host =
          static_cast<std::uint16_t>(20000 + 100 * i + random->Below(90));
      port.container = random->Percent(50) ? 80 : 0;
      port.count = static_cast<std::uint16_t>(1 + random->Below(4));
      port.protocols = kProtocols[random->Below(3)];
      port.host_address = kAddresses[random->Below(3)];
      spec->ports.push_back(port);
    }
  }
  NetworkSpec AnySpec(Random* random) const {
    NetworkSpec spec;
    const int mode = random->Below(10);
    if (mode == 0) {
      spec.mode = "none";
    } else if (mode == 1) {
      spec.mode = "host";
      AddPorts(random, &spec);
    } else {
      if (mode == 2) {
        spec.mode = "driver";
      } else {
        AddBridge(random, &spec);
      }
      if (mode <= 3) {
        spec.netns =
            namespaces_
                .at(static_cast<std::size_t>(random->Below(kNamespaces)))
                ->fd();
      }
    }
    return spec;
  }
  static void AddBridge(Random* random, NetworkSpec* spec) {
    AddPorts(random, spec);
    // Each interface belongs to another network, because mountd refuses two in
    // one network.
    const bool second = random->Percent(25);
    spec->interface = second ? "eth1" : "";
    spec->network = second ? "small" : "";
    spec->isolated = random->Percent(20);
    if (spec->network.empty() && random->Percent(10)) {
      spec->address = "10.88.0." + std::to_string(200 + random->Below(10));
    }
  }

  // Expects only errors that the steps' own collisions and kills explain.
  static void Check(const std::string& what, const Result<void>& result) {
    static const std::set<Code> kExplained = {
        Code::kAlreadyExists,     Code::kFailedPrecondition,
        Code::kResourceExhausted, Code::kNotFound,
        Code::kUnavailable,       Code::kBusy,
        Code::kAborted,           Code::kInProgress,
        Code::kPermissionDenied};
    EXPECT_TRUE(result || kExplained.contains(result.error().code))
        << what << ": " << MessageOf(result);
  }
  template <typename T>
  static Result<void> Plain(const Result<T>& result) {
    return result ? Ok() : Result<void>(result.error());
  }

  void Step(agent::Client* client, Random* random) {
    const std::string id = Any(random);
    const int what = random->Below(100);
    if (what < 55) {
      Check("prepare", Plain(client->PrepareAllocation(id)));
      Check("set up", Plain(client->SetupNetwork(id, AnySpec(random))));
    } else if (what < 80) {
      constexpr const char* kInterfaces[] = {"", "eth0", "eth1", "lo"};
      Check("tear down",
            client->TeardownNetwork(id, kInterfaces[random->Below(4)]));
    } else {
      Check("release", Plain(client->ReleaseAllocation(id)));
    }
  }

  void RunClient(int number, int steps) {
    Random random(seed_ * 31 + static_cast<std::uint32_t>(number));
    std::optional<agent::Client> client;
    for (int i = 0; i < steps; ++i) {
      // The test connects as the agent, because a client that connects again by
      // itself would be root.
      if (!client || !client->Version()) {
        auto connected = node_->Connect({.reconnect = false});
        if (!connected) {
          continue;
        }
        client.emplace(*std::move(connected));
      }
      Step(&*client, &random);
      ++steps_done_;
    }
  }

  static void DeleteAnyLink(Random* random) {
    std::vector<std::string> links;
    struct if_nameindex* all = ::if_nameindex();
    for (auto* one = all; one != nullptr && one->if_index != 0; ++one) {
      if (std::string(one->if_name).starts_with("md")) {
        links.emplace_back(one->if_name);
      }
    }
    ::if_freenameindex(all);
    if (!links.empty()) {
      Run("ip link del " + links.at(static_cast<std::size_t>(
                               random->Below(static_cast<int>(links.size())))));
    }
  }
  // Disturbs networks and ends processes, once in every kEvery steps.
  void Disturb(const std::atomic<bool>& done) {
    constexpr int kEvery = 20;
    Random random(seed_);
    for (int next = kEvery; !done;) {
      if (steps_done_ < next) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      next += kEvery;
      switch (random.Below(4)) {
        case 0:
          Node::Kill(Node::Processes("mountd"));
          break;
        case 1:
          Node::Kill(Node::Processes("mountd-exec"));
          break;
        case 2:
          DeleteAnyLink(&random);
          break;
        default:
          EXPECT_TRUE(exec::RunNftCommand("flush ruleset").has_value());
      }
    }
  }

  void RunSteps() {
    std::atomic<bool> done = false;
    std::thread disturber([&] { Disturb(done); });
    std::vector<std::thread> clients;
    for (int i = 0; i < kClients; ++i) {
      clients.emplace_back(
          [this, i] { RunClient(i, static_cast<int>(all_steps_) / kClients); });
    }
    for (std::thread& client : clients) {
      client.join();
    }
    done = true;
    disturber.join();
    Connect();
  }

  // Expects that each bridge answers at its address and at its TCP ports.
  void ExpectAllWork() {
    for (int i = 0; i < kAllocations; ++i) {
      for (const NetworkStatus& status : NetworksOf("a" + std::to_string(i))) {
        if (status.mode == "bridge") {
          SCOPED_TRACE("a" + std::to_string(i) + ": " + TextOf(status));
          ExpectWorks(status);
        }
      }
    }
  }
  // Prints the state of a network that fails.
  static void Show(const NetworkStatus& status) {
    for (const char* what : {"addr", "route", "-6 route", "neigh"}) {
      Run("nsenter --net=" + status.netns_path + " ip " + what + " >&2");
    }
    Run("ip addr show " + status.host_interface + " >&2; ip route >&2");
    Run("nft list table inet mountd >&2");
  }
  static void ExpectWorks(const NetworkStatus& status) {
    const Server server(status.netns_path, 80, "hello");
    ASSERT_TRUE(server.valid());
    EXPECT_TRUE(
        Eventually([&] { return Ask(status.address, 80, 500) == "hello"; }));
    for (const agent::Port& port : status.ports) {
      if (port.container == 80 && port.protocols.starts_with("tcp")) {
        EXPECT_TRUE(Eventually([&] {
          return Ask("127.0.0.1", port.host, 500) == "hello";
        })) << port.host;
      }
    }
    if (HasFailure()) {
      Show(status);
    }
  }

  void ReleaseAll() {
    for (int i = 0; i < kAllocations; ++i) {
      const std::string id = "a" + std::to_string(i);
      const auto released = client_->ReleaseAllocation(id);
      EXPECT_TRUE(released || released.error().code == Code::kNotFound)
          << MessageOf(released);
    }
    EXPECT_TRUE(Eventually([&] {
      const auto owed = client_->ListOwed();
      return owed && owed->empty();
    }));
  }
  std::string LogLinesWith(const std::string& text) const {
    std::istringstream log(node_->Log());
    std::string lines;
    for (std::string line; std::getline(log, line);) {
      lines += line.find(text) == std::string::npos ? "" : line + "\n";
    }
    return lines;
  }
  void ExpectNothingIsLeft() {
    EXPECT_TRUE(AllAddressesAreFree())
        << Usage("default").free << " and " << Usage("small").free;
    EXPECT_EQ(NetworkDifference(before_), "");
    EXPECT_TRUE(Eventually([&] { return Conntrack() == conntrack_; }))
        << "connections: " << Conntrack() << ", not " << conntrack_;
    EXPECT_TRUE(Eventually([&] { return MountdFds() == fds_; }))
        << "mountd's fds: " << MountdFds() << ", not " << fds_;
    EXPECT_EQ(LogLinesWith(" is lost: "), "");
  }

  const std::uint32_t seed_ =
      NumberFrom("MOUNTD_NETWORK_SEED", std::random_device()());
  const std::uint32_t all_steps_ = NumberFrom("MOUNTD_NETWORK_STEPS", 2000);
  std::vector<std::unique_ptr<HeldNamespace>> namespaces_;
  std::atomic<int> steps_done_ = 0;
  Inventory before_;
  std::string conntrack_;
  int fds_ = 0;
};

TEST_F(NodeNetworkSoak, WhateverComesNothingIsLeft) {
  RunSteps();
  ExpectAllWork();
  // All processes and rules are removed once more, while no call runs.
  ASSERT_TRUE(exec::RunNftCommand("flush ruleset").has_value());
  Node::KillAll();
  Connect();
  ExpectAllWork();
  ReleaseAll();
  ExpectNothingIsLeft();
}

}  // namespace
}  // namespace mountd::testing
