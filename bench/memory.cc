// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-memory [--quick] [--json FILE]: measures the memory of the idle
// daemons' processes, by the number of allocations.
#include <chrono>
#include <cstdio>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "bench/bench_main.h"
#include "bench/csi_plugin.h"
#include "bench/process_figures.h"
#include "bench/whole_allocations.h"

namespace mountd::bench {
namespace {

constexpr double kIdleGoal = 16;
constexpr double kManyGoal = 32;
constexpr int kMany = 1000;
constexpr int kLooks = 5;
// mountd closes every two seconds what was idle since the time before, so after
// this nothing is left that a peak has started.
constexpr std::chrono::milliseconds kQuiet{5000};
constexpr std::chrono::milliseconds kBetweenLooks{200};

// Samples of several looks; the report shows their medians.
struct Looks {
  Samples processes;
  Samples pss;
  Samples anonymous;
  Samples threads;
  Samples fds;
};

class Memory {
 public:
  Memory(const World& world, Report& report)
      : report_(report), present_(world) {}

  Result<void> Run(agent::Client& client, const std::vector<int>& counts) {
    MOUNTD_TRY(EmptyCall(client));
    MOUNTD_ASSIGN(const double idle, Look("nothing", {}));
    report_.Value("memory.pss_idle_mb", idle, "MB", kIdleGoal, false);
    MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
    for (const int count : counts) {
      MOUNTD_TRY(present_.Have(count));
      MOUNTD_ASSIGN(const double pss,
                    Look(std::to_string(count) + " allocations",
                         {"mountd-csi", "csi-local"}));
      MOUNTD_TRY(present_.CheckAll(client));
      if (count > 0) {
        report_.Value("memory.pss_" + std::to_string(count) + "_mb", pss, "MB",
                      count == kMany ? kManyGoal : 0, false);
      }
    }
    return Ok();
  }

 private:
  // Returns the PSS of mountd and its executors together, after a while without
  // a call.
  Result<double> Look(const std::string& point,
                      const std::vector<std::string>& others) {
    std::this_thread::sleep_for(kQuiet);
    std::vector<std::string> names = {"mountd", "mountd-exec"};
    names.insert(names.end(), others.begin(), others.end());
    std::map<std::string, Looks> looks;
    for (int i = 0; i < kLooks; ++i) {
      for (const std::string& name : names) {
        MOUNTD_TRY(Add(looks[name], name));
      }
      std::this_thread::sleep_for(kBetweenLooks);
    }
    for (const std::string& name : names) {
      Show(point, name, looks[name]);
    }
    return looks["mountd"].pss.Median() + looks["mountd-exec"].pss.Median();
  }

  static Result<void> Add(Looks& looks, const std::string& name) {
    MOUNTD_ASSIGN(const ProcessFigures figures, FiguresOf(name));
    looks.processes.Add(figures.processes);
    looks.pss.Add(figures.pss_mb);
    looks.anonymous.Add(figures.anonymous_mb);
    looks.threads.Add(figures.threads);
    looks.fds.Add(figures.fds);
    return Ok();
  }

  void Show(const std::string& point, const std::string& name,
            const Looks& looks) {
    report_.Figures(point, name, kLooks,
                    {{"processes", looks.processes.Median()},
                     {"pss_mb", looks.pss.Median()},
                     {"anon_mb", looks.anonymous.Median()},
                     {"threads", looks.threads.Median()},
                     {"fds", looks.fds.Median()}});
  }

  Report& report_;
  Present present_;
};

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  using mountd::bench::Memory;
  return mountd::bench::RunBench(
      argc, argv, [](auto& world, auto& client, auto& report, bool quick) {
        const std::vector<int> counts =
            quick ? std::vector{100} : std::vector{0, 100, 1000};
        return Memory(world, report).Run(client, counts);
      });
}
