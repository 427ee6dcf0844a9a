// SPDX-License-Identifier: LGPL-2.1-or-later
//
// mountd-bench-nomad [--quick] [--json FILE]: measures what a Nomad client
// without root calls for the network and for a CSI volume of a job, beside what
// a client as root calls. Runs as root in a mount, network and pid namespace of
// its own (bench/run); an ordinary user makes mountd's calls. Runs no Nomad.
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "bench/bench_main.h"
#include "bench/cni_chain.h"
#include "bench/csi_plugin.h"
#include "bench/direct_plugin.h"
#include "bench/host_path_pair.h"
#include "bench/nomad_chain.h"
#include "bench/task_agent.h"
#include "tests/csi/host_path.h"

namespace mountd::bench {
namespace {

namespace fs = std::filesystem;

constexpr int kPorts = 8;
constexpr int kFirstPort = 30'000;
constexpr char kCniDirectory[] = "/run/bench/cni";
constexpr char kProxied[] = "/run/bench/agent/proxy";
constexpr char kLocal[] = "local";
constexpr char kDirect[] = "/run/bench/direct";
// A new driver has no spare namespaces yet, so its first network is no sample.
constexpr int kNetworksOfADriver = 5;

struct Counts {
  int drivers;  // and as many runs of the CNI chain
  int local_volumes;
  int host_path_volumes;  // each runs programs
};

constexpr Counts kFull = {8, 300, 100};
constexpr Counts kQuick = {2, 40, 10};

// Makes mountd-cni's names, as the package does.
void MakeCniDirectory() {
  fs::create_directories(kCniDirectory);
  for (const char* name :
       {"loopback", "bridge", "host-local", "firewall", "portmap"}) {
    fs::create_symlink(MOUNTD_CNI, std::string(kCniDirectory) + "/" + name);
  }
}

// Does what Nomad's plugin and its client do from CreateNetwork to the chain's
// last plugin, and back.
Result<void> OneNetwork(TaskAgent& agent, Samples& up, Samples& down) {
  const std::string allocation = std::string("cni-") + kNomadAllocation;
  NomadChain chain(kCniDirectory, {"MOUNTD_CNI_NETWORK=default"});
  driver::CreatedNetwork made;
  MOUNTD_TRY(Time(up, [&]() -> Result<void> {
    MOUNTD_TRY(agent.client->PrepareAllocation(allocation));
    MOUNTD_ASSIGN(made, agent.driver->CreateNetwork(allocation, "job"));
    return chain.Add(made.isolation.namespace_path, Ports(kFirstPort, kPorts));
  }));
  MOUNTD_TRY(Time(down, [&]() -> Result<void> {
    MOUNTD_TRY(chain.Delete(made.isolation.namespace_path));
    MOUNTD_TRY(agent.driver->DestroyNetwork(allocation, made.isolation));
    MOUNTD_TRY(agent.client->ReleaseAllocation(allocation));
    return Ok();
  }));
  Settle();
  return Ok();
}

Result<void> NetworksOfADriver(SamplesByName& samples) {
  MOUNTD_ASSIGN(TaskAgent agent, TaskAgent::Connect());
  Samples first;
  MOUNTD_TRY(OneNetwork(agent, first, first));
  for (int i = 0; i < kNetworksOfADriver; ++i) {
    MOUNTD_TRY(OneNetwork(agent, samples["up"], samples["down"]));
  }
  return Ok();
}

Result<void> OneChain(NetworkWay& chain, Samples& up, Samples& down) {
  MOUNTD_TRY(chain.Prepare(Ports(kFirstPort, kPorts)));
  MOUNTD_TRY(Time(up, [&] { return chain.SetUp(); }));
  Settle();
  MOUNTD_TRY(Time(down, [&] { return chain.TearDown(); }));
  MOUNTD_TRY(chain.CleanUp());
  Settle();
  return Ok();
}

void Add(const Samples& from, Samples& to) {
  for (const double value : from.values()) {
    to.Add(value);
  }
}

Result<void> Networks(Report& report, int drivers) {
  MakeCniDirectory();
  const auto chain = ByCniChain();
  report.Note("CNI chain: " + (chain ? CniVersion() : chain.error().Message()));
  Samples up;
  Samples down;
  Samples chain_up;
  Samples chain_down;
  for (int i = 0; i < drivers; ++i) {
    MOUNTD_ASSIGN(SamplesByName taken, AsTaskUser(NetworksOfADriver));
    Add(taken["up"], up);
    Add(taken["down"], down);
    if (chain) {
      MOUNTD_TRY(OneChain(**chain, chain_up, chain_down));
    }
  }
  report.Row("bridge network", "mountd", {{"up", up}, {"down", down}});
  report.Row("bridge network", "CNI chain as root",
             {{"up", chain_up}, {"down", chain_down}});
  if (chain) {
    report.Ratio("nomad.network_speedup_vs_cni",
                 chain_up.Median() / up.Median(), 20, true);
    report.Ratio("nomad.network_down_speedup_vs_cni",
                 chain_down.Median() / down.Median(), 0, true);
  }
  return Ok();
}

// One plugin twice, behind the proxy and by itself, with a volume of each.
struct Twice {
  std::string plugin;
  DirectPlugin& proxied;
  std::string proxied_volume;
  DirectPlugin& direct;
  std::string direct_volume;
};

struct VolumeTimes {
  Samples up;
  Samples down;
  Samples direct_up;
  Samples direct_down;
};

Result<void> OneVolume(const Twice& twice, VolumeTimes& times) {
  MOUNTD_TRY(Time(times.up,
                  [&] { return twice.proxied.Publish(twice.proxied_volume); }));
  MOUNTD_TRY(Time(times.down, [&] {
    return twice.proxied.Unpublish(twice.proxied_volume);
  }));
  MOUNTD_TRY(Time(times.direct_up,
                  [&] { return twice.direct.Publish(twice.direct_volume); }));
  return Time(times.direct_down,
              [&] { return twice.direct.Unpublish(twice.direct_volume); });
}

Result<void> InTurn(const Twice& twice, int rounds, double goal,
                    Report& report) {
  VolumeTimes first;
  MOUNTD_TRY(OneVolume(twice, first));
  VolumeTimes times;
  for (int i = 0; i < rounds; ++i) {
    MOUNTD_TRY(OneVolume(twice, times));
  }
  const std::string point = "volume of " + twice.plugin;
  report.Row(point, "proxy",
             {{"publish", times.up}, {"unpublish", times.down}});
  report.Row(point, "the RPCs",
             {{"publish", times.direct_up}, {"unpublish", times.direct_down}});
  report.Ratio("nomad.csi_publish_vs_direct_" + twice.plugin,
               times.up.Median() / times.direct_up.Median(), goal, false);
  report.Ratio("nomad.csi_unpublish_vs_direct_" + twice.plugin,
               times.down.Median() / times.direct_down.Median(), 0, false);
  return Ok();
}

std::string ProxiedSocket(const std::string& plugin) {
  return std::string(kProxied) + "/" + plugin + ".sock";
}

// Starts a proxy as the ordinary user, in a directory of that user.
Result<testing::Process> StartProxy() {
  fs::create_directories(kProxied);
  const auto uid = static_cast<uid_t>(testing::kAgentUid);
  if (::chown(kProxied, uid, uid) != 0) {
    return ErrnoError(errno, "chown", kProxied);
  }
  const std::string id = std::to_string(uid);
  return testing::Process(
      {"/usr/bin/setpriv", "--reuid", id, "--regid", id, "--clear-groups",
       MOUNTD_CSI_PROXY, "--plugin",
       std::string(kLocal) + "=" + ProxiedSocket(kLocal), "--plugin",
       std::string(kHostPath) + "=" + ProxiedSocket(kHostPath)});
}

// csi-local only serves its socket and makes directories, so its RPCs are the
// fastest that a plugin can have.
Result<void> OfCsiLocal(agent::Client& client, Report& report, int rounds) {
  const std::string directory = std::string(kDirect) + "/local";
  fs::create_directories(directory);
  const std::string socket = directory + "/csi.sock";
  MOUNTD_ASSIGN(const testing::Process plugin, HavePlugin(client));
  const testing::Process other = StartCsiLocal(socket, directory + "/data");
  DirectPlugin proxied(ProxiedSocket(kLocal), kProxied,
                       DirectPlugin::Stages::kNo);
  DirectPlugin direct(socket, directory);
  return InTurn({kLocal, proxied, "volume", direct, "volume"}, rounds, 0,
                report);
}

Result<void> OfHostPath(agent::Client& client, Report& report, int rounds) {
  const std::string program = testing::HostPathProgram();
  if (program.empty()) {
    report.Note(
        "csi-driver-host-path: left out, as neither HOSTPATHPLUGIN nor PATH "
        "has its program");
    return Ok();
  }
  MOUNTD_ASSIGN(
      const HostPathPair pair,
      StartHostPathPair(client, program, std::string(kDirect) + "/hostpath"));
  DirectPlugin proxied(ProxiedSocket(kHostPath), kProxied,
                       DirectPlugin::Stages::kNo);
  return InTurn(
      {kHostPath, proxied, pair.volume, *pair.direct, pair.direct_volume},
      rounds, 1.3, report);
}

Result<void> Volumes(agent::Client& client, Report& report,
                     const Counts& counts) {
  MOUNTD_ASSIGN(const testing::Process proxy, StartProxy());
  MOUNTD_TRY(OfCsiLocal(client, report, counts.local_volumes));
  return OfHostPath(client, report, counts.host_path_volumes);
}

Result<void> MeasureNomad(agent::Client& client, Report& report,
                          const Counts& counts) {
  const auto host = TaskHost::Make();
  if (host) {
    MOUNTD_TRY(Networks(report, counts.drivers));
  } else {
    report.Note("networks: left out, " + host.error().Message());
  }
  return Volumes(client, report, counts);
}

}  // namespace
}  // namespace mountd::bench

int main(int argc, char** argv) {
  return mountd::bench::RunBench(
      argc, argv, [](auto& /*world*/, auto& client, auto& report, bool quick) {
        return mountd::bench::MeasureNomad(
            client, report,
            quick ? mountd::bench::kQuick : mountd::bench::kFull);
      });
}
