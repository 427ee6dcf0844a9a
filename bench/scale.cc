// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-scale [--quick] [--json FILE]: measures whole allocations that
// several connections start and stop at once, by the number of others that
// exist.
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bench/agents.h"
#include "bench/bench_main.h"
#include "bench/csi_plugin.h"
#include "bench/whole_allocations.h"

namespace mountd::bench {
namespace {

constexpr int kConnections = 4;

struct Counts {
  std::vector<int> present;
  int allocations;  // started and stopped at each number
  int batch;        // the rate of so many is one sample
};

const Counts kFull = {{0, 100, 1000}, 1000, 100};
const Counts kQuick = {{0, 100}, 160, 40};

// The kernel still works on a namespace after its allocation is gone.
constexpr std::chrono::seconds kSettle{2};

struct Times {
  Samples start;  // of one connection
  Samples stop;
  Samples each;   // a batch's time divided by its allocations
  int again = 0;  // releases that failed and were repeated
};

class Scale {
 public:
  Scale(const World& world, Report& report, const Counts& counts)
      : report_(report), counts_(counts), world_(world), present_(world) {}

  Result<void> Run(agent::Client& client) {
    MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
    MOUNTD_ASSIGN(Agents agents, Agents::Connect(world_, kConnections));
    Times unused;
    MOUNTD_TRY(Batch(agents, unused));
    const int all = counts_.allocations;
    for (const int count : counts_.present) {
      MOUNTD_TRY(
          At(Point(count), agents, client, count, count == 0 ? all / 2 : all));
    }
    // Half of the rounds with no others come last, so that the machine's other
    // work affects both ends of the comparison.
    MOUNTD_TRY(At("0 present again", agents, client, 0, all / 2));
    Ratios();
    return Ok();
  }

 private:
  Result<void> At(const std::string& point, Agents& agents,
                  agent::Client& client, int present, int allocations) {
    MOUNTD_TRY(present_.Have(present));
    std::this_thread::sleep_for(kSettle);
    Times times;
    for (int done = 0; done < allocations; done += counts_.batch) {
      MOUNTD_ASSIGN(const double each, Batch(agents, times));
      if (present == 0) {
        none_.Add(each);
      } else if (present == counts_.present.back()) {
        most_.Add(each);
      }
    }
    MOUNTD_TRY(present_.CheckAll(client));
    Show(point, times);
    return Ok();
  }

  // Each connection has one allocation at a time, and starts the next when that
  // is gone. Returns the batch's time divided by its allocations.
  Result<double> Batch(Agents& agents, Times& times) {
    const auto count = static_cast<std::size_t>(counts_.batch);
    std::vector<double> starts(count);
    std::vector<double> stops(count);
    std::vector<int> again(count);
    const auto one = [&](agent::Client& client, int i) -> Result<void> {
      const std::string allocation = "scale-" + std::to_string(i);
      const auto began = Spans::Clock::now();
      MOUNTD_TRY(
          StartWhole(client, allocation, kFirstFreePort + i * kPortsOfWhole));
      const auto started = Spans::Clock::now();
      MOUNTD_ASSIGN(const int tries, StopWhole(client, allocation));
      const auto at = static_cast<std::size_t>(i);
      again[at] = tries - 1;
      starts[at] = Microseconds(started - began);
      stops[at] = Microseconds(Spans::Clock::now() - started);
      return Ok();
    };
    MOUNTD_ASSIGN(const Spans spans, agents.ForEach(counts_.batch, one));
    for (std::size_t i = 0; i < count; ++i) {
      times.start.Add(starts[i]);
      times.stop.Add(stops[i]);
      times.again += again[i];
    }
    times.each.Add(spans.Each());
    return spans.Each();
  }

  static double Microseconds(Spans::Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  }

  static std::string Point(int count) {
    return std::to_string(count) + " present";
  }

  void Show(const std::string& point, const Times& times) {
    report_.Row(point, "mountd",
                {{"start", times.start}, {"stop", times.stop}});
    rates_.emplace_back(point, times);
  }

  void Ratios() {
    std::printf("\n");
    for (const auto& [point, times] : rates_) {
      const double each = times.each.Median();
      report_.Figures(point, "mountd", times.each.count(),
                      {{"each_us", each},
                       {"per_second", 1e6 / each},
                       {"failed", static_cast<double>(times.again)}});
    }
    std::printf("\n");
    report_.Ratio(
        "scale.alloc_cost_growth_" + std::to_string(counts_.present.back()),
        most_.Median() / none_.Median(), 2, false);
  }

  Report& report_;
  const Counts counts_;
  const World& world_;
  Present present_;
  std::vector<std::pair<std::string, Times>> rates_;
  Samples none_;  // batches' times an allocation, with no others
  Samples most_;  // the same with the most others
};

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  using mountd::bench::Scale;
  return mountd::bench::RunBench(
      argc, argv, [](auto& world, auto& client, auto& report, bool quick) {
        return Scale(world, report,
                     quick ? mountd::bench::kQuick : mountd::bench::kFull)
            .Run(client);
      });
}
