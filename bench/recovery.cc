// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-recovery [--quick] [--json FILE]: measures the time from
// mountd's exec after a SIGKILL to its first answer, by the number of records.
// Runs as root in a mount, network and pid namespace of its own (bench/run).
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/bench_main.h"
#include "bench/csi_plugin.h"
#include "bench/report.h"
#include "bench/whole_allocations.h"
#include "bench/world.h"

namespace mountd::bench {
namespace {

struct Counts {
  std::vector<int> allocations;
  int kills;   // at each number of allocations
  int rounds;  // of BindMount, at each number
};

const Counts kFull = {{0, 100, 1000}, 15, 300};
const Counts kQuick = {{0, 30, 100}, 5, 60};

class Recovery {
 public:
  Recovery(World& world, Report& report, const Counts& counts)
      : world_(world), report_(report), counts_(counts), present_(world) {}

  Result<void> Run() {
    MOUNTD_ASSIGN(agent::Client client, world_.Connect());
    MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
    MOUNTD_TRY(client.PrepareAllocation("bench"));
    for (const int count : counts_.allocations) {
      MOUNTD_TRY(present_.Have(count));
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
  // Measures BindMount on the same node, because the other figures are compared
  // with it.
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

  // Measures from the moment when a new mountd runs, because the launcher waits
  // before it starts one, as systemd does.
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
      return EmptyCall(*client);
    }));
    // Checks that nothing is lost or uncertain.
    MOUNTD_TRY(present_.CheckAll(*client));
    return AwaitHealthy(*client);
  }

  void Show(int count) {
    const Times& times = times_[count];
    report_.Row(std::to_string(count) + " allocations", "mountd",
                {{"start", times.start}, {"bindmount", times.bind}});
  }

  double Start(int count) { return times_[count].start.Median(); }

  double Each(int count) { return Start(count) / (count * kRecordsOfWhole); }

  void Ratios() {
    std::printf("\n");
    const int most = counts_.allocations.back();
    const int fewer = *(counts_.allocations.end() - 2);
    const double bind = times_[most].bind.Median();
    report_.Ratio("recovery.per_record_vs_bindmount", Each(most) / bind, 1,
                  false);
    // Divides the time that each of the last allocations adds by the time that
    // each of the earlier ones added. Neither contains the start with no
    // allocation.
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
  Present present_;
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
