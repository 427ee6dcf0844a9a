// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-mounts [--quick] [--json FILE]: measures BindMount and Unmount
// beside their alternatives. Runs as root in a mount, network and pid namespace
// of its own (bench/run).
#include <cstdio>
#include <cstring>
#include <map>
#include <string>

#include "bench/bench_main.h"
#include "bench/mount_ways.h"
#include "bench/report.h"
#include "bench/world.h"

namespace mountd::bench {
namespace {

struct Times {
  Samples mount;
  Samples unmount;
};

constexpr int kPresent[] = {0, 100, 1000, 10'000};

std::string Others(int present) {
  return std::to_string(present) + " other mounts";
}

class Mounts {
 public:
  Mounts(World& world, agent::Client& client, Report& report, int rounds)
      : world_(world), client_(client), report_(report), rounds_(rounds) {}

  Result<void> Run() {
    MOUNTD_TRY(client_.PrepareAllocation("bench"));
    for (const int present : kPresent) {
      MOUNTD_TRY(world_.HaveMounts(present));
      MOUNTD_TRY(AllWays(Others(present), present > 1000));
    }
    MOUNTD_TRY(PlainDirectory("plain directory, 10000"));
    MOUNTD_TRY(world_.HaveMounts(0));
    MOUNTD_TRY(PlainDirectory("plain directory"));
    MOUNTD_TRY(world_.HaveNamespaces(30));
    MOUNTD_TRY(AllWays("30 slave namespaces", false));
    MOUNTD_TRY(world_.HaveNamespaces(0));
    MOUNTD_TRY(ManyUsers());
    MOUNTD_TRY(NaiveLayout());
    Ratios();
    return Ok();
  }

 private:
  // Measures the ways in turn, so that the machine's other work affects all of
  // them. Runs slow programs less often. mountd's call comes after another
  // call, because an agent makes a row of calls for an allocation.
  Result<void> AllWays(const std::string& point, bool slow) {
    const auto mountd = ThroughMountd(client_, "volume");
    const auto calls = BySystemCalls();
    const auto libmount = ByLibmount();
    const auto programs = ByPrograms();
    const auto empty = EmptyCalls(client_, world_);
    const int every = slow ? 20 : 4;
    for (int i = -1; i < rounds_; ++i) {
      for (MountWay* way : {libmount.get(), programs.get(), calls.get(),
                            empty.get(), mountd.get()}) {
        const bool other = way == libmount.get() || way == programs.get();
        if (!other || i % every == 0) {
          MOUNTD_TRY(Once(point, *way, i < 0));
        }
      }
    }
    for (const MountWay* way : {programs.get(), libmount.get(), mountd.get(),
                                calls.get(), empty.get()}) {
      Show(point, way->name());
    }
    return Ok();
  }

  Result<void> Once(const std::string& point, MountWay& way, bool warm_up) {
    Times unused;
    Times& times = warm_up ? unused : times_[point + way.name()];
    MOUNTD_TRY(Time(times.mount, [&] { return way.Mount(); }));
    return Time(times.unmount, [&] { return way.Unmount(); });
  }

  void Show(const std::string& point, const std::string& who) {
    const Times& times = times_[point + who];
    report_.Row(point, who, times.mount, times.unmount);
  }

  Result<void> Mountd(const std::string& point, const std::string& volume,
                      int rounds) {
    const auto way = ThroughMountd(client_, volume);
    for (int i = -1; i < rounds; ++i) {
      MOUNTD_TRY(Once(point, *way, i < 0));
    }
    Show(point, way->name());
    return Ok();
  }

  Result<void> BindUser(const std::string& volume, int number) {
    MOUNTD_TRY(client_.BindMount(
        "bench", {.task = "users",
                  .name = "user" + std::to_string(number),
                  .source_type = agent::SourceType::kHostVolume,
                  .source = volume,
                  .propagation = agent::Propagation::kHostToTask}));
    return Ok();
  }
  Result<void> UnmountUser(int number) {
    return client_.Unmount("bench", "users", "user" + std::to_string(number));
  }

  // Measures with the first and last user, with whom the anchor comes and goes,
  // which takes long, and with a second user.
  Result<void> PlainDirectory(const std::string& point) {
    MOUNTD_TRY(Mountd(point + ", alone", "plain", rounds_ / 10));
    MOUNTD_TRY(BindUser("plain", 0));
    MOUNTD_TRY(Mountd(point, "plain", rounds_));
    return UnmountUser(0);
  }

  Result<void> ManyUsers() {
    constexpr int kUsers = 1000;
    for (int i = 0; i < kUsers; ++i) {
      MOUNTD_TRY(BindUser("volume", i));
    }
    MOUNTD_TRY(AllWays("1000 users", false));
    for (int i = 0; i < kUsers; ++i) {
      MOUNTD_TRY(UnmountUser(i));
    }
    return Ok();
  }

  // Uses the same points as the others with as many mounts, although the mounts
  // lie elsewhere.
  Result<void> NaiveLayout() {
    const auto way = BySystemCallsNaively();
    for (const int present : kPresent) {
      MOUNTD_TRY(world_.HaveNaiveMounts(present));
      for (int i = -1; i < rounds_; ++i) {
        MOUNTD_TRY(Once(Others(present), *way, i < 0));
      }
      Show(Others(present), way->name());
    }
    return world_.HaveNaiveMounts(0);
  }

  double Mount(const std::string& point, const std::string& who = "mountd") {
    return times_[point + who].mount.Median();
  }
  double Unmount(const std::string& point, const std::string& who = "mountd") {
    return times_[point + who].unmount.Median();
  }

  void Ratios() {
    const std::string none = Others(0);
    const std::string all = Others(10'000);
    const double empty = Mount(none, "empty") + Unmount(none, "empty");
    std::printf("\n");
    report_.Ratio("bindmount.speedup_vs_mount8",
                  Mount(none, "mount(8)") / Mount(none), 10, true);
    report_.Ratio("bindmount.speedup_vs_mount8_10k",
                  Mount(all, "mount(8)") / Mount(all), 10, true);
    report_.Ratio("bindmount.growth_10k", Mount(all) / Mount(none), 1.5, false);
    report_.Ratio("unmount.growth_10k", Unmount(all) / Unmount(none), 1.5,
                  false);
    report_.Ratio("naive.growth_10k",
                  Mount(all, "naive layout") / Mount(none, "naive layout"), 0,
                  false);
    report_.Ratio("unmount.speedup_vs_umount8",
                  Unmount(none, "mount(8)") / Unmount(none), 0, true);
    report_.Ratio("bindmount.vs_floor",
                  Mount(none) / (Mount(none, "system calls") + empty), 2.5,
                  false);
    report_.Ratio("bindmount.speedup_vs_libmount_10k",
                  Mount(all, "libmount") / Mount(all), 0, true);
    report_.Ratio("bindmount.slaves_30",
                  Mount("30 slave namespaces") / Mount(none), 0, false);
    report_.Ratio("bindmount.users_1000", Mount("1000 users") / Mount(none), 0,
                  false);
    report_.Ratio("bindmount.plain_directory_growth_10k",
                  Mount("plain directory, 10000") / Mount("plain directory"),
                  1.5, false);
    report_.Ratio("bindmount.first_of_plain_growth_10k",
                  Mount("plain directory, 10000, alone") /
                      Mount("plain directory, alone"),
                  0, false);
  }

  World& world_;
  agent::Client& client_;
  Report& report_;
  const int rounds_;
  std::map<std::string, Times> times_;  // by point and name
};

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  using mountd::bench::Mounts;
  return mountd::bench::RunBench(
      argc, argv, [](auto& world, auto& client, auto& report, bool quick) {
        return Mounts(world, client, report, quick ? 100 : 500).Run();
      });
}
