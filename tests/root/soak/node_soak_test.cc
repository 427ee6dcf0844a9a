// SPDX-License-Identifier: LGPL-2.1-or-later
//
// A whole node under a random mix of all calls and all faults. Exactly what
// should be there is there, and nothing grows.
//
//   MOUNTD_SOAK_SEED         seed of the random numbers; it is printed
//   MOUNTD_SOAK_OPERATIONS   number of calls (2000)
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <optional>
#include <random>
#include <thread>
#include <utility>

#include "tests/csi/process.h"
#include "tests/root/soak/soak_calls.h"
#include "tests/root/soak/soak_model.h"
#include "tests/root/soak/soak_resources.h"
#include "tests/support/environment.h"
#include "tests/support/eventually.h"
#include "tests/support/node/node_fixture.h"

namespace mountd::testing {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr char kFaultFiles[] = "/run/host/fault";
constexpr char kPluginDirectory[] = "/run/mountd/base/p/fault";
constexpr char kSoakConfig[] = R"(
[host_volume.own]
path = "/run/host/own"
propagation = ["private", "host-to-task", "bidirectional"]
[host_volume.plain]
path = "/run/host/plain"
propagation = ["private", "host-to-task", "bidirectional"]
[network.default]
ipv4 = "10.88.0.0/24"
ipv6 = "fd88::/64"
[network.second]
ipv4 = "10.89.0.0/24"
[[rule]]
users = ["agent"]
host_volumes = ["*"]
bidirectional = true
networks = ["*"]
host_ports = ["20000-20999"]
plugins = ["*"]
register_plugins = ["*"]
[limits]
peers_per_uid = 256
[timeouts]
rpc_ms = 700
rpc_retries_ms = 1
probe_starting_ms = 50
probe_ready_ms = 500
probe_timeout_ms = 700
)";

// The number of samples over all operations, and the number of operations
// between two comparisons of everything.
constexpr int kStormyPoints = 6;
constexpr int kCalmPoints = 16;
constexpr int kComparedEvery = 40;

void SignalProcesses(const char* name, int signal) {
  for (const UniqueFd& process : Node::Processes(name)) {
    ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
  }
}

// Runs an agent that is killed during its call.
[[noreturn]] void BeDyingClient(const SoakOperation& operation) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::syscall(SYS_setresgid, kAgentUid, kAgentUid, kAgentUid);
  ::syscall(SYS_setresuid, kAgentUid, kAgentUid, kAgentUid);
  auto client = agent::Client::Connect();
  if (client) {
    IgnoreBecauseBestEffort(Call(*client, operation));
  }
  ::_exit(0);
}

class NodeSoak : public NodeFixture {
 protected:
  void SetUp() override {
    PrivateNamespaces::SetUp();
    if (IsSkipped()) {
      return;
    }
    for (const char* path : {"/run/host/own", "/run/host/plain", kFaultFiles}) {
      fs::create_directories(path);
    }
    ASSERT_EQ(::mount("tmpfs", "/run/host/own", "tmpfs", 0, nullptr), 0);
    ASSERT_EQ(::mount(nullptr, "/run/host/own", nullptr, MS_SHARED, nullptr),
              0);
    ASSERT_NO_FATAL_FAILURE(StartNode(kSoakConfig));
    ASSERT_EQ(MessageOf(client_->RegisterPlugin(
                  {.plugin = "fault", .type = agent::PluginType::kMonolith})),
              "Ok");
    StartPlugin();
    ASSERT_TRUE(PluginIsHealthy());
    std::cout << "MOUNTD_SOAK_SEED=" << seed_
              << " MOUNTD_SOAK_OPERATIONS=" << operations_ << std::endl;
  }
  void TearDown() override {
    plugin_ = Process();
    clients_.clear();
    NodeFixture::TearDown();
  }

  void StartPlugin() {
    const std::string socket = std::string(kPluginDirectory) + "/csi.sock";
    fs::remove(socket);
    plugin_ = Process({FAULT_PLUGIN, socket, kFaultFiles});
  }
  bool PluginIsHealthy() {
    return Eventually([this] {
      auto client = node_->Connect();
      const auto plugin = client ? client->GetPlugin("fault")
                                 : Result<agent::PluginStatus>(client.error());
      return plugin && plugin->state == "healthy";
    });
  }
  static void TellPlugin(const std::string& line) {
    const std::string path = std::string(kFaultFiles) + "/faults";
    std::ofstream(path + ".new") << line;
    fs::rename(path + ".new", path);
  }

  // ---- One round ------------------------------------------------------------

  // Returns the agent's client, and connects again if the connection broke.
  agent::Client* ClientOf(std::size_t number,
                          const agent::ClientOptions& options) {
    std::optional<agent::Client>& client = clients_[number];
    if (!client) {
      auto connected = node_->Connect(options);
      if (!connected) {
        return nullptr;
      }
      client.emplace(*std::move(connected));
    }
    return &*client;
  }

  // Repeats the call until its answer is final. Returns "" if the answer is the
  // right one.
  std::string Make(std::size_t number, const SoakOperation& operation) {
    Result<void> result = Ok();
    const auto deadline = Clock::now() + std::chrono::seconds(60);
    do {
      agent::Client* client = ClientOf(number, {.reconnect = false});
      result = client != nullptr
                   ? Call(*client, operation)
                   : Result<void>(MakeError(Code::kUnavailable, "connect", ""));
      if (IsForNow(result)) {
        clients_[number].reset();
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      }
    } while (IsForNow(result) && Clock::now() < deadline);
    return Outcome(result) == operation.outcome
               ? ""
               : TextOf(operation) + ", but " + Outcome(result) + ": " +
                     MessageOf(result);
  }

  // Makes the round's first call in an agent that dies before the other agents
  // make theirs.
  void MakeAndDie(const SoakRound& round) {
    const pid_t child = ::fork();
    if (child == 0) {
      BeDyingClient(round.operations.front());
    }
    // The agent needs some time to connect.
    std::this_thread::sleep_for(
        std::chrono::microseconds(2000 + round.after_us));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  }
  void MakeAndCancel(const SoakRound& round) {
    auto client = node_->Connect(
        {.patience = std::chrono::milliseconds(1 + round.after_us / 1000),
         .join = false,
         .reconnect = false});
    if (!client) {
      return;
    }
    SignalProcesses("mountd-exec", SIGSTOP);
    const Result<void> result = Call(*client, round.operations.front());
    if (!result && result.error().code == Code::kInProgress) {
      IgnoreBecauseBestEffort(client->Cancel(result.error().detail));
    }
    SignalProcesses("mountd-exec", SIGCONT);
  }

  void Begin(const SoakRound& round) {
    constexpr const char* kRpcs[] = {"NodeStageVolume", "NodePublishVolume",
                                     "NodeUnpublishVolume",
                                     "NodeUnstageVolume"};
    constexpr const char* kActions[] = {"code 14", "code-after 14", "hang",
                                        "die", "die-after"};
    if (round.trouble == SoakTrouble::kPluginFails) {
      TellPlugin(std::string(kRpcs[round.after_us % 4]) + " * " +
                 kActions[round.after_us % 5] + "\n");
    } else if (round.trouble == SoakTrouble::kClientDies) {
      MakeAndDie(round);
    } else if (round.trouble == SoakTrouble::kCancel) {
      MakeAndCancel(round);
    }
  }
  void Disturb(const SoakRound& round) {
    std::this_thread::sleep_for(std::chrono::microseconds(round.after_us));
    switch (round.trouble) {
      case SoakTrouble::kKillMountd:
        return Node::Kill(Node::Processes("mountd"));
      case SoakTrouble::kKillExecutors:
        return Node::Kill(Node::Processes("mountd-exec"));
      case SoakTrouble::kKillCsi:
        return Node::Kill(Node::Processes("mountd-csi"));
      case SoakTrouble::kRestartPlugin:
        return StartPlugin();
      case SoakTrouble::kPluginFails:
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        return TellPlugin("");
      case SoakTrouble::kStopExecutors:
        SignalProcesses("mountd-exec", SIGSTOP);
        // The stop is longer than the time that a slow plan keeps its lane.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return SignalProcesses("mountd-exec", SIGCONT);
      default:
        return;
    }
  }
  // Starts the plugin if it has died. It may do so at any call after it was
  // told to, even at one that mountd makes by itself after the agents' calls.
  void RestartDeadPlugin() {
    const fs::path process = "/proc/" + std::to_string(plugin_.pid());
    std::error_code none;
    if (fs::read_symlink(process / "exe", none).empty()) {
      StartPlugin();
    }
  }
  void KeepPluginRunning(const std::atomic<std::size_t>& calls) {
    while (calls > 0) {
      RestartDeadPlugin();
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  // Makes the calls of a round. Returns "" if all ended as they must.
  std::string RunRound(const SoakRound& round) {
    Begin(round);
    std::vector<std::string> wrong(round.operations.size());
    std::vector<std::thread> agents;
    clients_.resize(std::max(clients_.size(), wrong.size()));
    std::atomic<std::size_t> calls = wrong.size();
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      agents.emplace_back([&, i] {
        wrong[i] = Make(i, round.operations[i]);
        --calls;
      });
    }
    if (round.trouble != SoakTrouble::kNone) {
      Disturb(round);
    }
    KeepPluginRunning(calls);
    for (std::thread& agent : agents) {
      agent.join();
    }
    std::string text;
    for (std::size_t i = 0; i < wrong.size(); ++i) {
      ++done_;
      text += wrong[i].empty() ? "" : wrong[i] + "\n";
    }
    if (!text.empty()) {
      text += std::string(NameOf(round.trouble)) + " after " +
              std::to_string(round.after_us) + " us\n";
    }
    return text;
  }

  // ---- The whole ------------------------------------------------------------

  std::string Where() const {
    return "MOUNTD_SOAK_SEED=" + std::to_string(seed_) + ", operation " +
           std::to_string(done_) + ": ";
  }
  void Run(const SoakRound& round) {
    const std::string wrong = RunRound(round);
    ASSERT_EQ(wrong, "") << Where();
  }
  void Compare() {
    std::string difference;
    const bool same = Eventually([&] {
      RestartDeadPlugin();
      agent::Client* client = ClientOf(0, {.reconnect = false});
      difference = client != nullptr ? DifferenceFrom(script_.model(), *client)
                                     : "no connection";
      if (!difference.empty()) {
        clients_[0].reset();
      }
      return difference.empty();
    });
    ASSERT_TRUE(same) << Where() << difference;
  }
  // Makes so many calls, and then releases everything.
  void RunUntil(std::uint32_t operations, bool stormy) {
    int compared = done_;
    while (done_ < static_cast<int>(operations)) {
      ASSERT_NO_FATAL_FAILURE(Run(script_.Next(stormy)));
      if (done_ - compared >= kComparedEvery) {
        compared = done_;
        ASSERT_NO_FATAL_FAILURE(Compare());
      }
    }
    for (const SoakRound& round : script_.ReleaseAll()) {
      ASSERT_NO_FATAL_FAILURE(Run(round));
    }
    ASSERT_NO_FATAL_FAILURE(Compare());
  }
  // Makes everything that stays after its first use.
  void WarmUp() {
    clients_.resize(1);
    SoakOperation operation;
    operation.allocation = "a0";
    const auto make = [&](SoakKind kind, const char* task, const char* name,
                          const char* source) {
      operation.kind = kind;
      operation.task = task;
      operation.name = name;
      operation.mount.source = source;
      operation.network.network = name;
      ASSERT_EQ(Make(0, operation), "");
    };
    make(SoakKind::kPrepare, "", "", "");
    make(SoakKind::kBind, "app", "m0", "own");
    make(SoakKind::kBind, "app", "m1", "plain");
    make(SoakKind::kPublish, "data", "v", "");
    make(SoakKind::kSetup, "eth0", "default", "");
    make(SoakKind::kSetup, "eth1", "second", "");
    make(SoakKind::kRelease, "", "", "");
    Compare();
  }
  // Returns the inventory without this process's fds and the plugin's own
  // files.
  static Inventory Take() {
    Inventory inventory = Inventory::Take();
    std::erase_if(inventory.items, [](const std::string& item) {
      return item.starts_with("fd ") ||
             item.starts_with(std::string("file ") + kFaultFiles);
    });
    return inventory;
  }
  void ExpectNothingIsLeft(const Inventory& before) {
    std::string difference;
    EXPECT_TRUE(Eventually([&] {
      difference = Difference(before, Take());
      return difference.empty();
    })) << Where()
        << difference;
    EXPECT_EQ(node_->Log().find(" is lost: "), std::string::npos);
  }
  // Takes a sample once the work that the last call began has ended.
  static SoakResources TakeSettled() {
    SoakResources sample = TakeSoakResources();
    Eventually([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      const SoakResources next = TakeSoakResources();
      const bool same =
          next.at("mountd threads") == sample.at("mountd threads");
      sample = next;
      return same;
    });
    return sample;
  }

  const std::uint32_t seed_ =
      NumberOf("MOUNTD_SOAK_SEED", std::random_device()());
  const std::uint32_t operations_ = NumberOf("MOUNTD_SOAK_OPERATIONS", 2000);
  SoakScript script_{seed_};
  Process plugin_;
  std::vector<std::optional<agent::Client>> clients_;
  int done_ = 0;
};

TEST_F(NodeSoak, WhatShouldBeThereIsAndNothingGrows) {
  ASSERT_NO_FATAL_FAILURE(WarmUp());
  const Inventory before = Take();
  const std::uint32_t stormy = operations_ / 2;
  for (int point = 1; point <= kStormyPoints; ++point) {
    ASSERT_NO_FATAL_FAILURE(
        RunUntil(stormy * static_cast<std::uint32_t>(point) / kStormyPoints,
                 /*stormy=*/true));
  }
  ExpectNothingIsLeft(before);
  // No process of mountd is killed from here on, so leaks add up.
  SoakSeries series;
  for (int point = 1; point <= kCalmPoints; ++point) {
    const auto until = stormy + (operations_ - stormy) *
                                    static_cast<std::uint32_t>(point) /
                                    kCalmPoints;
    ASSERT_NO_FATAL_FAILURE(RunUntil(until, /*stormy=*/false));
    series.Add(TakeSettled());
  }
  EXPECT_EQ(series.Growth(), "") << Where() << "\n" << series.Text();
  ExpectNothingIsLeft(before);
}

TEST(SoakScript, IsTheSeedsAlone) {
  const auto text_of = [](std::uint32_t seed) {
    SoakScript script(seed);
    std::string text;
    for (int i = 0; i < 200; ++i) {
      const SoakRound round = script.Next(i % 2 == 0);
      for (const SoakOperation& operation : round.operations) {
        text += TextOf(operation) + "\n";
      }
      text += NameOf(round.trouble) + std::to_string(round.after_us) + "\n";
    }
    return text;
  };
  EXPECT_EQ(text_of(1), text_of(1));
  EXPECT_NE(text_of(1), text_of(2));
}

TEST(SoakSeries, TellsWhatGrowsFromWhatVaries) {
  SoakSeries flat;
  SoakSeries leaking;
  for (int i = 0; i < 16; ++i) {
    flat.Add({{"mountd fds", 40 + i % 5}, {"mountd rss_kb", 9000 + i % 3}});
    leaking.Add({{"mountd fds", 40 + i}, {"mountd rss_kb", 9000}});
  }
  EXPECT_EQ(flat.Growth(), "");
  EXPECT_EQ(leaking.Growth(), "mountd fds grew from 46 to 54\n");
}

}  // namespace
}  // namespace mountd::testing
