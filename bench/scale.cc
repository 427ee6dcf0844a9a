// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-scale [--quick] [--json FILE]: whole allocations, started and
// stopped by several connections at once, by how many others are there.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
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
  int allocations;  // started and stopped at each
  int batch;        // of so many the rate is one sample
};

const Counts kFull = {{0, 100, 1000}, 1000, 100};
const Counts kQuick = {{0, 100}, 120, 40};

struct Times {
  Samples start;  // one connection's
  Samples stop;
  Samples each;   // a batch's time for each of its allocations
  int again = 0;  // releases that failed, and were asked for again
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
    for (const int count : counts_.present) {
      MOUNTD_TRY(present_.Have(count));
      for (int done = 0; done < counts_.allocations; done += counts_.batch) {
        MOUNTD_TRY(Batch(agents, times_[count]));
      }
      MOUNTD_TRY(present_.CheckAll(client));
      Show(count);
    }
    Ratios();
    return Ok();
  }

 private:
  // Each connection has one allocation at a time, and the next when that is
  // gone.
  Result<void> Batch(Agents& agents, Times& times) {
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
    return Ok();
  }

  static double Microseconds(Spans::Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  }

  static std::string Point(int count) {
    return std::to_string(count) + " present";
  }

  void Show(int count) {
    const Times& times = times_[count];
    report_.Row(Point(count), "mountd",
                {{"start", times.start}, {"stop", times.stop}});
  }

  void Ratios() {
    std::printf("\n");
    for (const auto& [count, times] : times_) {
      const double each = times.each.Median();
      report_.Figures(Point(count), "mountd", times.each.count(),
                      {{"each_us", each},
                       {"per_second", 1e6 / each},
                       {"failed", static_cast<double>(times.again)}});
    }
    std::printf("\n");
    const int most = counts_.present.back();
    report_.Ratio("scale.alloc_cost_growth_" + std::to_string(most),
                  times_[most].each.Median() / times_[0].each.Median(), 2,
                  false);
  }

  Report& report_;
  const Counts counts_;
  const World& world_;
  Present present_;
  std::map<int, Times> times_;
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
