// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-network [--quick] [--json FILE]: measures SetupNetwork and
// TeardownNetwork beside their alternatives and beside the bare messages. Runs
// as root in a mount, network and pid namespace of its own (bench/run).
#include <linux/netlink.h>

#include <array>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/agents.h"
#include "bench/bench_main.h"
#include "bench/cni_chain.h"
#include "bench/mountd_network.h"
#include "bench/namespaces.h"
#include "bench/netavark.h"
#include "bench/network_crowd.h"
#include "bench/network_floor.h"
#include "bench/raw_netlink.h"
#include "bench/report.h"
#include "bench/world.h"

namespace mountd::bench {
namespace {

constexpr int kAtOnce = 16;
constexpr int kBurst = 100;
constexpr int kUsualPorts = 8;
constexpr int kPortCounts[] = {0, kUsualPorts, 32};

// The first host port of each part of the bench.
constexpr int kAlonePorts = 30'000;
constexpr int kAtOncePorts = 31'000;
constexpr int kBurstPorts = 32'000;
constexpr int kPresentPorts = 40'000;

struct Counts {
  int rounds;                // of mountd and of the messages
  std::map<int, int> every;  // by ports: programs run in every so many rounds
  int at_once;
  int bursts;
  std::vector<int> present;
};

const Counts kFull = {45, {{0, 3}, {8, 5}, {32, 15}}, 8, 5, {100, 1000}};
const Counts kQuick = {6, {{0, 3}, {8, 3}}, 2, 1, {1000}};

struct Times {
  Samples setup;
  Samples teardown;  // until the answer
  Samples gone;      // until the link is gone
};

std::string Point(int present, int ports) {
  return std::to_string(present) + " present, " + std::to_string(ports) +
         " ports";
}

Result<void> Once(NetworkWay& way, int ports, Times& times) {
  MOUNTD_TRY(way.Prepare(Ports(kAlonePorts, ports)));
  MOUNTD_TRY(Time(times.setup, [&] { return way.SetUp(); }));
  Settle();
  MOUNTD_TRY(way.Use());
  MOUNTD_TRY(Time(times.gone, [&]() -> Result<void> {
    MOUNTD_TRY(Time(times.teardown, [&] { return way.TearDown(); }));
    return way.AwaitGone();
  }));
  MOUNTD_TRY(way.CleanUp());
  Settle();
  return Ok();
}

class Networks {
 public:
  Networks(World& world, agent::Client& client, NetworkCrowd& crowd,
           LinkWatch& links, Report& report, const Counts& counts,
           std::string cni)
      : world_(world),
        client_(client),
        crowd_(crowd),
        links_(links),
        report_(report),
        counts_(counts),
        cni_version_(std::move(cni)) {}

  Result<void> Run() {
    MOUNTD_TRY(client_.PrepareAllocation("bench"));
    MOUNTD_TRY(MakeWays());
    for (const int ports : kPortCounts) {
      MOUNTD_TRY(InTurn(ports, true));
    }
    ShowParts();
    MOUNTD_TRY(AtOnceWithAllPorts());
    for (int i = 0; i < counts_.bursts; ++i) {
      MOUNTD_TRY(Burst());
    }
    Show("burst of " + std::to_string(kBurst), "mountd each");
    for (const int present : counts_.present) {
      MOUNTD_TRY(HavePresent(present));
      for (const int ports : kPortCounts) {
        MOUNTD_TRY(InTurn(ports, false));
      }
      MOUNTD_TRY(AtOnceWithAllPorts());
    }
    Ratios();
    return Ok();
  }

 private:
  Result<void> MakeWays() {
    Result<std::unique_ptr<NetworkWay>> chain = ByCniChain();
    report_.Note("CNI chain: " +
                 (chain ? cni_version_ : chain.error().Message()));
    Result<std::unique_ptr<NetworkWay>> netavark = ByNetavark();
    report_.Note("netavark: " +
                 (netavark ? NetavarkVersion() : netavark.error().Message()));
    for (auto* way : {&chain, &netavark}) {
      if (*way) {
        AddProgram(std::move(**way));
      }
    }
    if (!programs_.empty()) {
      AddProgram(NomadNamespaceAlone());
    }
    MOUNTD_ASSIGN(messages_, ByMessages(links_));
    mountd_ = NetworkThroughMountd(client_, "bench", links_);
    for (NetworkWay* way : Quick()) {
      Times warm_up;
      MOUNTD_TRY(Once(*way, kUsualPorts, warm_up));
    }
    std::printf("\n");
    return Ok();
  }

  // Returns the ways that are measured in each round, the floor first.
  std::array<NetworkWay*, 2> Quick() const {
    return {messages_.get(), mountd_.get()};
  }

  // Leaves out a program that does not work on this machine.
  void AddProgram(std::unique_ptr<NetworkWay> way) {
    Times warm_up;
    if (const Result<void> works = Once(*way, kUsualPorts, warm_up); !works) {
      report_.Note(way->name() +
                   " does not work here: " + works.error().Message());
      return;
    }
    programs_.push_back(std::move(way));
  }

  // Measures the ways in turn, so that the machine's other work affects all of
  // them.
  Result<void> InTurn(int ports, bool with_programs) {
    const auto found = counts_.every.find(ports);
    const int every =
        with_programs && found != counts_.every.end() ? found->second : 0;
    const std::string point = Point(present_, ports);
    for (int i = 0; i < counts_.rounds; ++i) {
      if (every != 0 && i % every == 0) {
        for (const auto& way : programs_) {
          MOUNTD_TRY(Once(*way, ports, times_[point + way->name()]));
        }
      }
      for (NetworkWay* way : Quick()) {
        MOUNTD_TRY(Empty(times_[point + "empty"]));
        MOUNTD_TRY(Once(*way, ports, times_[point + way->name()]));
      }
    }
    if (every != 0) {
      ShowPrograms(point);
    }
    for (const std::string& who :
         {messages_->name(), mountd_->name(), std::string("empty")}) {
      Show(point, who);
    }
    return Ok();
  }

  // Shows no "gone", because a program's link is gone when the program answers.
  void ShowPrograms(const std::string& point) {
    for (const auto& way : programs_) {
      times_[point + way->name()].gone = {};
      Show(point, way->name());
    }
  }

  // Shows the kernel's share of each part of a setup.
  void ShowParts() {
    for (const auto& [name, samples] : messages_->parts(kUsualPorts)) {
      report_.Row("messages, parts", name, {{"setup", samples}});
    }
  }

  // Measures the cheapest call and the cheapest plan.
  Result<void> Empty(Times& times) {
    MOUNTD_TRY(Time(times.setup, [&] { return client_.Version(); }));
    return Time(times.teardown, [&] { return world_.EmptyPlan(); });
  }

  void Show(const std::string& point, const std::string& who) {
    const Times& times = times_[point + who];
    report_.Row(point, who,
                {{"setup", times.setup},
                 {"teardown", times.teardown},
                 {"gone", times.gone}});
  }

  Result<void> AtOnceWithAllPorts() {
    MOUNTD_TRY(crowd_.Prepare("at-once", kAtOnce));
    for (const int ports : kPortCounts) {
      MOUNTD_TRY(AtOnce(ports));
    }
    return Ok();
  }

  // Measures the time of each call, and the time of all calls divided by their
  // number.
  Result<void> AtOnce(int ports) {
    const std::string point = Point(present_, ports);
    const std::string calls = "mountd x" + std::to_string(kAtOnce);
    Times& times = times_[point + calls];
    Times& each = times_[point + "each of them"];
    for (int i = 0; i < counts_.at_once; ++i) {
      MOUNTD_ASSIGN(const NetworkCrowd::Made made,
                    crowd_.SetUp("at-once", kAtOnce, kAtOncePorts, ports));
      MOUNTD_ASSIGN(const NetworkCrowd::Ended ended,
                    crowd_.TearDown("at-once", made));
      made.spans.AddTo(times.setup);
      ended.spans.AddTo(times.teardown);
      each.setup.Add(made.spans.Each());
      each.teardown.Add(ended.spans.Each());
      each.gone.Add(ended.gone_each);
    }
    Show(point, calls);
    Show(point, "each of them");
    return Ok();
  }

  Result<void> Burst() {
    Times& times = times_["burst of " + std::to_string(kBurst) + "mountd each"];
    MOUNTD_TRY(crowd_.Prepare("burst", kBurst));
    MOUNTD_ASSIGN(const NetworkCrowd::Made made,
                  crowd_.SetUp("burst", kBurst, kBurstPorts, kUsualPorts));
    MOUNTD_ASSIGN(const NetworkCrowd::Ended ended,
                  crowd_.TearDown("burst", made));
    times.setup.Add(made.spans.Each());
    times.teardown.Add(ended.spans.Each());
    times.gone.Add(ended.gone_each);
    return Ok();
  }

  Result<void> HavePresent(int count) {
    const std::string name = "present" + std::to_string(count);
    const int more = count - present_;
    MOUNTD_TRY(crowd_.Prepare(name, more));
    MOUNTD_TRY(crowd_.SetUp(name, more, kPresentPorts + present_ * kUsualPorts,
                            kUsualPorts));
    present_ = count;
    return Ok();
  }

  const Times& Of(int present, int ports, const std::string& who = "mountd") {
    return times_[Point(present, ports) + who];
  }

  // Reports `other` divided by mountd's own figure; nothing if `other` has no
  // samples.
  void Over(const std::string& name, const Samples& other, double own,
            double goal) {
    if (other.count() > 0) {
      report_.Ratio(name, other.Median() / own, goal, true);
    }
  }

  // Names a figure; leaves out the usual number of ports.
  static std::string NameWith(int ports, const std::string& name) {
    return "network." + name +
           (ports == kUsualPorts ? "" : "_" + std::to_string(ports) + "_ports");
  }

  void RatiosWith(int ports) {
    const auto named = [ports](const char* name) {
      return NameWith(ports, name);
    };
    const Times& mountd = Of(0, ports);
    const Times& chain = Of(0, ports, "CNI chain");
    const double setup = mountd.setup.Median();
    Over(named("setup_speedup_vs_cni"), chain.setup, setup, 75);
    Over(named("setup_speedup_vs_netavark"),
         Of(0, ports, NetavarkVersion()).setup, setup, NetavarkGoal());
    Over(named("setup_at_once_speedup_vs_cni"), chain.setup,
         Of(0, ports, "each of them").setup.Median(), 0);
    Over(named("teardown_answer_speedup_vs_cni"), chain.teardown,
         mountd.teardown.Median(), 100);
    Over(named("gone_speedup_vs_cni"), chain.teardown, mountd.gone.Median(),
         10);
    const double floor = Of(0, ports, "messages").setup.Median();
    const Times& empty = Of(0, ports, "empty");
    report_.Ratio(named("setup_vs_floor"), setup / floor, 2, false);
    report_.Ratio(
        named("setup_vs_floor_and_empty"),
        setup / (floor + empty.setup.Median() + empty.teardown.Median()), 0,
        false);
    RatiosOfGrowth(ports);
  }

  void RatiosOfGrowth(int ports) {
    const auto growth = [&](int present, const char* who) {
      return Of(present, ports, who).setup.Median() /
             Of(0, ports, who).setup.Median();
    };
    for (const int present : counts_.present) {
      const std::string end = std::to_string(present);
      report_.Ratio(NameWith(ports, "setup_growth_" + end),
                    growth(present, "mountd"), present == 1000 ? 2.5 : 0,
                    false);
      report_.Ratio(NameWith(ports, "floor_growth_" + end),
                    growth(present, "messages"), 0, false);
    }
  }

  // Returns the goal for this release of netavark, which depends on whether it
  // uses iptables or nf_tables.
  static double NetavarkGoal() {
    int minor = 0;
    std::sscanf(NetavarkVersion().c_str(), "netavark 1.%d", &minor);
    return minor < 14 ? 40 : 15;
  }

  void Ratios() {
    for (const int ports : kPortCounts) {
      std::printf("\n");
      RatiosWith(ports);
    }
    std::printf("\n");
    Over("network.gone_burst_speedup_vs_cni",
         Of(0, kUsualPorts, "CNI chain").teardown,
         times_["burst of " + std::to_string(kBurst) + "mountd each"]
             .gone.Median(),
         100);
  }

  World& world_;
  agent::Client& client_;
  NetworkCrowd& crowd_;
  LinkWatch& links_;
  Report& report_;
  const Counts& counts_;
  const std::string cni_version_;
  std::vector<std::unique_ptr<NetworkWay>> programs_;
  std::unique_ptr<NetworkFloor> messages_;
  std::unique_ptr<NetworkWay> mountd_;
  int present_ = 0;
  std::map<std::string, Times> times_;  // by point and name
};

Result<void> MeasureNetworks(World& world, agent::Client& client,
                             Report& report, bool quick,
                             const std::string& cni_version) {
  MOUNTD_ASSIGN(const UniqueFd route, OpenNetlink(NETLINK_ROUTE));
  MOUNTD_TRY(RaiseLoopback(route));
  MOUNTD_ASSIGN(LinkWatch links, LinkWatch::Open());
  MOUNTD_ASSIGN(Agents agents, Agents::Connect(world, kAtOnce));
  NetworkCrowd crowd(agents, links);
  return Networks(world, client, crowd, links, report, quick ? kQuick : kFull,
                  cni_version)
      .Run();
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  // Asks before the world hides the packages' database.
  const std::string cni_version = mountd::bench::CniVersion();
  return mountd::bench::RunBench(
      argc, argv, [&](auto& world, auto& client, auto& report, bool quick) {
        return mountd::bench::MeasureNetworks(world, client, report, quick,
                                              cni_version);
      });
}
