// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-csi [--quick] [--json FILE]: measures PublishVolume and
// UnpublishVolume beside the same RPCs, made directly to another instance of
// the same plugin.
#include <cstdio>
#include <filesystem>
#include <string>

#include "bench/bench_main.h"
#include "bench/csi_plugin.h"
#include "bench/direct_plugin.h"
#include "bench/host_path_pair.h"
#include "tests/csi/host_path.h"

namespace mountd::bench {
namespace {

constexpr char kDirect[] = "/run/bench/direct";

struct Rounds {
  int csi_local;
  int host_path;  // runs programs, so it takes a hundred times as long
};

constexpr Rounds kFull = {1000, 200};
constexpr Rounds kQuick = {150, 30};

struct Times {
  Samples up;
  Samples down;
  Samples direct_up;
  Samples direct_down;
  Samples empty;
};

// One plugin twice, behind mountd and by itself, with a volume of each.
struct Twice {
  std::string plugin;
  std::string volume;
  DirectPlugin& direct;
  std::string direct_volume;
};

// Makes an empty call before each contender's first call.
Result<void> Round(agent::Client& client, const Twice& twice, Times& times) {
  agent::VolumeSpec spec;
  spec.alias = "data";
  spec.volume = twice.volume;
  spec.plugin = twice.plugin;
  MOUNTD_TRY(EmptyCall(client));
  MOUNTD_TRY(
      Time(times.up, [&] { return client.PublishVolume("bench", spec); }));
  MOUNTD_TRY(Time(times.down,
                  [&] { return client.UnpublishVolume("bench", "data"); }));
  MOUNTD_TRY(Time(times.direct_up,
                  [&] { return twice.direct.Publish(twice.direct_volume); }));
  MOUNTD_TRY(Time(times.direct_down,
                  [&] { return twice.direct.Unpublish(twice.direct_volume); }));
  return AfterOne(times.empty, [&] { return EmptyCall(client); });
}

Result<Times> InTurn(agent::Client& client, const Twice& twice, int rounds) {
  Times unused;  // the first round connects, and finds cold caches
  MOUNTD_TRY(Round(client, twice, unused));
  Times times;
  for (int i = 0; i < rounds; ++i) {
    MOUNTD_TRY(Round(client, twice, times));
  }
  return times;
}

void Show(Report& report, const std::string& plugin, const Times& times) {
  report.Row(plugin, "mountd",
             {{"publish", times.up}, {"unpublish", times.down}});
  report.Row(plugin, "the RPCs",
             {{"publish", times.direct_up}, {"unpublish", times.direct_down}});
  const Samples none;
  report.Row(plugin, "empty call",
             {{"publish", times.empty}, {"unpublish", none}});
}

Result<void> CsiLocal(agent::Client& client, Report& report, int rounds) {
  const std::string directory = std::string(kDirect) + "/local";
  std::filesystem::create_directories(directory);
  const std::string socket = directory + "/csi.sock";
  MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
  const testing::Process other = StartCsiLocal(socket, directory + "/data");
  DirectPlugin direct(socket, directory);
  MOUNTD_ASSIGN(const Times times,
                InTurn(client, {"local", "volume", direct, "volume"}, rounds));
  Show(report, "csi-local", times);
  const double empty = times.empty.Median();
  report.Ratio("csi.publish_added_empty_calls",
               (times.up.Median() - times.direct_up.Median()) / empty, 10,
               false);
  report.Ratio("csi.unpublish_added_empty_calls",
               (times.down.Median() - times.direct_down.Median()) / empty, 0,
               false);
  return Ok();
}

Result<void> HostPath(agent::Client& client, Report& report,
                      const std::string& program, int rounds) {
  MOUNTD_ASSIGN(
      const HostPathPair pair,
      StartHostPathPair(client, program, std::string(kDirect) + "/hostpath"));
  MOUNTD_ASSIGN(
      const Times times,
      InTurn(client, {kHostPath, pair.volume, *pair.direct, pair.direct_volume},
             rounds));
  Show(report, "csi-driver-host-path", times);
  report.Ratio("csi.publish_vs_direct_hostpath",
               times.up.Median() / times.direct_up.Median(), 1.15, false);
  report.Ratio("csi.unpublish_vs_direct_hostpath",
               times.down.Median() / times.direct_down.Median(), 0, false);
  return Ok();
}

Result<void> MeasureCsi(agent::Client& client, Report& report,
                        const Rounds& rounds) {
  MOUNTD_TRY(client.PrepareAllocation("bench"));
  MOUNTD_TRY(CsiLocal(client, report, rounds.csi_local));
  std::printf("\n");
  const std::string program = testing::HostPathProgram();
  if (program.empty()) {
    report.Note(
        "csi-driver-host-path: left out, as neither HOSTPATHPLUGIN nor PATH "
        "has its program");
    return Ok();
  }
  return HostPath(client, report, program, rounds.host_path);
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  return mountd::bench::RunBench(
      argc, argv, [](auto& /*world*/, auto& client, auto& report, bool quick) {
        return mountd::bench::MeasureCsi(
            client, report,
            quick ? mountd::bench::kQuick : mountd::bench::kFull);
      });
}
