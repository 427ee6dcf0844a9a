// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-recovery [--quick] [--json FILE]: how long mountd takes from its
// exec until it answers, after SIGKILL, by how much it has to look at. As root
// in a mount, network and pid namespace of its own (bench/run).
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/agents.h"
#include "bench/bench_main.h"
#include "bench/csi_plugin.h"
#include "bench/mountd_network.h"
#include "bench/network_way.h"
#include "bench/report.h"
#include "bench/world.h"

namespace mountd::bench {
namespace {

// Of each allocation: itself, a volume, its publication, two mounts of it, a
// network with four ports.
constexpr int kRecords = 6;
constexpr int kPorts = 4;
constexpr int kFirstPort = 20'100;
constexpr int kConnections = 4;

struct Counts {
  std::vector<int> allocations;
  int kills;   // at each
  int rounds;  // of BindMount at each
};

const Counts kFull = {{0, 1, 100, 300, 1000}, 15, 300};
const Counts kQuick = {{0, 30, 100}, 5, 60};

std::string Allocation(int i) { return "present-" + std::to_string(i); }

class Recovery {
 public:
  Recovery(World& world, Report& report, const Counts& counts)
      : world_(world), report_(report), counts_(counts) {}

  Result<void> Run() {
    MOUNTD_ASSIGN(agent::Client client, world_.Connect());
    MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
    MOUNTD_TRY(client.PrepareAllocation("bench"));
    for (const int count : counts_.allocations) {
      MOUNTD_TRY(Have(count));
      MOUNTD_TRY(Bind(count));
      for (int i = 0; i < counts_.kills; ++i) {
        MOUNTD_TRY(KillAndAwait(count));
      }
      Show(count);
    }
    Ratios();
    return Ok();
  }

 private:
  Result<void> Have(int count) {
    MOUNTD_ASSIGN(Agents agents, Agents::Connect(world_, kConnections));
    const int from = present_;
    MOUNTD_TRY(agents.ForEach(count - from, [&](agent::Client& client, int i) {
      return Make(client, from + i);
    }));
    present_ = count;
    return Ok();
  }

  static Result<void> Make(agent::Client& client, int i) {
    const std::string allocation = Allocation(i);
    MOUNTD_TRY(client.PrepareAllocation(allocation));
    MOUNTD_TRY(client.SetupNetwork(
        allocation, SpecWith(Ports(kFirstPort + i * kPorts, kPorts))));
    agent::VolumeSpec volume;
    volume.alias = "data";
    volume.volume = "volume-" + std::to_string(i);
    volume.plugin = "local";
    MOUNTD_TRY(client.PublishVolume(allocation, volume));
    for (const char* task : {"server", "sidecar"}) {
      MOUNTD_TRY(client.BindMount(
          allocation, {.task = task,
                       .name = "data",
                       .source_type = agent::SourceType::kVolume,
                       .source = "data",
                       .propagation = agent::Propagation::kHostToTask}));
    }
    return Ok();
  }

  // The measure of it all, on a node with as much.
  Result<void> Bind(int count) {
    MOUNTD_ASSIGN(agent::Client client, world_.Connect());
    for (int i = -1; i < counts_.rounds; ++i) {
      Samples unused;
      MOUNTD_TRY(Time(i < 0 ? unused : times_[count].bind, [&] {
        return client.BindMount(
            "bench", {.task = "task",
                      .name = "volume",
                      .source_type = agent::SourceType::kHostVolume,
                      .source = "volume",
                      .propagation = agent::Propagation::kHostToTask});
      }));
      MOUNTD_TRY(client.Unmount("bench", "task", "volume"));
    }
    return Ok();
  }

  // From the moment at which there is a mountd again. The launcher waits before
  // it starts one, as systemd does.
  Result<void> KillAndAwait(int count) {
    Times& times = times_[count];
    testing::Node::Kill(testing::Node::Processes("mountd"));
    while (testing::Node::Processes("mountd").empty()) {
      std::this_thread::yield();
    }
    std::optional<agent::Client> client;
    MOUNTD_TRY(Time(times.start, [&]() -> Result<void> {
      MOUNTD_ASSIGN(agent::Client connected, world_.Connect());
      client.emplace(std::move(connected));
      MOUNTD_TRY(client->Version());
      return Ok();
    }));
    // All is as it was: what was found wanting would be lost, or uncertain.
    MOUNTD_TRY(CheckAll(*client, count));
    return AwaitHealthy(*client);
  }

  static Result<void> CheckAll(agent::Client& client, int count) {
    for (int i = 0; i < count; ++i) {
      MOUNTD_ASSIGN(const agent::AllocationStatus status,
                    client.GetAllocation(Allocation(i)));
      const bool whole = status.networks.size() == 1 &&
                         status.volumes.size() == 1 &&
                         status.volumes.front().state == "published" &&
                         status.mounts.size() == 2 &&
                         status.mounts.front().state == "attached" &&
                         status.mounts.back().state == "attached";
      if (!whole) {
        return MakeError(Code::kInternal, "recover", Allocation(i),
                         "has lost something");
      }
    }
    return Ok();
  }

  void Show(int count) {
    const Times& times = times_[count];
    report_.Row(std::to_string(count) + " allocations", "mountd",
                {{"start", times.start}, {"bindmount", times.bind}});
  }

  double Start(int count) { return times_[count].start.Median(); }

  double Each(int count) { return Start(count) / (count * kRecords); }

  void Ratios() {
    std::printf("\n");
    const int most = counts_.allocations.back();
    const int fewer = *(counts_.allocations.end() - 2);
    for (const int count : counts_.allocations) {
      if (count > 0) {
        const std::string suffix = "_" + std::to_string(count);
        report_.Ratio("recovery.record_in_bindmounts" + suffix,
                      Each(count) / times_[count].bind.Median(),
                      count == most ? 1 : 0, false);
      }
    }
    // What each of the last ones adds, over what each of those before did: a
    // start with nothing to look at is in neither.
    const double last = (Start(most) - Start(fewer)) / (most - fewer);
    const double before = (Start(fewer) - Start(0)) / fewer;
    report_.Ratio("recovery.growth_of_record", last / before, 1.5, false);
    report_.Ratio("recovery.empty_in_bindmounts",
                  Start(0) / times_[0].bind.Median(), 0, false);
  }

  struct Times {
    Samples start;
    Samples bind;
  };

  World& world_;
  Report& report_;
  const Counts counts_;
  int present_ = 0;
  std::map<int, Times> times_;
};

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  using mountd::bench::Recovery;
  return mountd::bench::RunBench(
      argc, argv, [](auto& world, auto& /*client*/, auto& report, bool quick) {
        return Recovery(world, report,
                        quick ? mountd::bench::kQuick : mountd::bench::kFull)
            .Run();
      });
}
