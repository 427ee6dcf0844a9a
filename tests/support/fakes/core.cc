// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/fakes/core.h"

#include <algorithm>

#include "tests/fault/stepped_csi_client.h"
#include "tests/fault/stepped_executor.h"

namespace mountd {
namespace {

std::string NameOfInstance(const csi::PluginInstance& instance) {
  return instance.record.id + " " + instance.record.type + " " +
         instance.record.allocation;
}

}  // namespace

void PluginEvents::Add(const csi::PluginChange& change) {
  using Kind = csi::PluginChange::Kind;
  const csi::PluginInstance& now = change.now;
  const std::string state(csi::PluginStateName(now.state));
  const std::lock_guard lock(mutex_);
  switch (change.kind) {
    case Kind::kPlugin:
      events_.push_back(now.record.id + " " + state + " " +
                        std::to_string(now.generation));
      reasons_.push_back(now.reason);
      break;
    case Kind::kAdded:
      instances_.push_back("added " + NameOfInstance(now));
      break;
    case Kind::kRemoved:
      instances_.push_back("removed " + NameOfInstance(now));
      break;
    case Kind::kChanged:
      instances_.push_back(state + " " + NameOfInstance(now));
      break;
  }
  came_.notify_all();
}

std::vector<std::string> PluginEvents::OfInstances() const {
  const std::lock_guard lock(mutex_);
  return instances_;
}

std::string PluginEvents::LastReason() const {
  const std::lock_guard lock(mutex_);
  return reasons_.empty() ? "" : reasons_.back();
}

std::vector<std::string> PluginEvents::All() const {
  const std::lock_guard lock(mutex_);
  return events_;
}

bool PluginEvents::Await(const std::string& event) {
  std::unique_lock lock(mutex_);
  return came_.wait_for(lock, kTestPatience, [&] {
    const auto in = [&](const std::vector<std::string>& all) {
      return std::find(all.begin(), all.end(), event) != all.end();
    };
    return in(events_) || in(instances_);
  });
}

void PluginEvents::Forget() {
  const std::lock_guard lock(mutex_);
  events_.clear();
  instances_.clear();
  reasons_.clear();
}

Config Core::DefaultConfig() {
  constexpr std::string_view kText = R"(
[host_volume.data]
path = "/srv/data"
propagation = ["private", "host-to-task", "bidirectional"]
[host_volume.logs]
path = "/srv/logs"
read_only = true
[filesystem.homes]
type = "nfs4"
source = "server:/homes"
propagation = ["private", "host-to-task"]
[cni]
[network.default]
ipv4 = "10.0.0.0/29"
ipv6 = "fd00::/64"
[timeouts]
rpc_ms = 5000
rpc_retries_ms = 300
probe_starting_ms = 5
probe_ready_ms = 20
)";
  Config config = ParseConfig(kText, "test").value();
  RuleConfig all;
  all.uids = {kAgent, kOther};
  all.host_volumes = all.filesystems = all.plugins = all.register_plugins =
      all.control_plugins = {"*"};
  all.networks = {"*", "cni/*"};
  all.host_ports = {{20000, 21000}};
  all.alloc_roots = {"/srv/alloc", "/tmp"};
  all.ids = {{100000, 165535}};
  all.bidirectional = true;
  all.detached = true;
  RuleConfig admin;
  admin.uids = {kAdmin};
  admin.administer = true;
  config.rules = {all, admin};
  return config;
}

Core::Core(Config with, Steps* steps)
    : config(std::move(with)),
      executor(std::make_unique<exec::FakeExecutor>()),
      client(std::make_unique<csi::FakeCsiClient>(*executor)),
      steps_(steps) {
  Start();
}

Core::~Core() = default;

void Core::Start() {
  exec::Executor* plans = executor.get();
  csi::CsiClient* rpcs = client.get();
  if (steps_ != nullptr) {
    stepped_executor_ =
        std::make_unique<testing::SteppedExecutor>(*executor, *steps_);
    stepped_client_ =
        std::make_unique<testing::SteppedCsiClient>(*client, *steps_);
    plans = stepped_executor_.get();
    rpcs = stepped_client_.get();
  }
  state = store::StateStore::Open(directory.File("state.db"),
                                  "boot " + std::to_string(boots_))
              .value();
  boot =
      store::BootStore::Open(directory.File("boot." + std::to_string(boots_)))
          .value();
  mounts = std::make_unique<Mounts>(config, *plans, *boot);
  Networks::Events network_events;
  network_events.check_again = [this] { ++checks; };
  network_events.scarce = [this](const std::string& network,
                                 const Networks::Usage& usage) {
    scarce.push_back(network + " " + std::to_string(usage.free));
  };
  network_events.gone = [this](const NetworkRecord& record) { gone(record); };
  network_events.link_grace = link_grace;
  network_events.owner_of = [this](const std::string& allocation) {
    const auto owner = state->allocations.GetAllocation(allocation);
    return owner && *owner ? (*owner)->uid : 0U;
  };
  network_events.grants_ports = [this](const NetworkRecord& record) {
    return services->networks.GrantsPorts(record);
  };
  networks = std::make_unique<Networks>(config, *plans, *boot,
                                        std::move(network_events));
  plugins = std::make_unique<csi::Plugins>(
      config.timeouts, *plans, *rpcs, *state,
      [this](const csi::PluginChange& change) { events.Add(change); });
  csi::VolumeEvents volume_events;
  volume_events.on_condition = [this](const VolumeRecord& volume,
                                      const csi::VolumeCondition& condition) {
    const std::lock_guard lock(conditions_mutex_);
    conditions_.push_back(
        volume.volume_id + (condition.abnormal ? " abnormal" : " normal") +
        (condition.message.empty() ? "" : ": ") + condition.message);
  };
  volume_events.may_restore = [this](const std::string& allocation) {
    return services->leases.MayRestore(allocation);
  };
  volumes =
      std::make_unique<csi::Volumes>(config, *plans, *plans, *rpcs, *plugins,
                                     *state, std::move(volume_events));
  controller = std::make_unique<csi::Controller>(config.timeouts, *rpcs,
                                                 *plugins, *volumes);
  ServiceParts parts{live_config, *plans,    *state,   *boot,
                     *mounts,     *networks, *plugins, *volumes,
                     *controller, room,      healths};
  parts.lease_clocks = {[this] { return boot_us.load(); },
                        [this] { return wall_us.load(); }};
  parts.user_database = user_database;
  services = std::make_unique<Services>(parts);
}

void Core::Restart(bool same_boot) {
  services.reset();
  controller.reset();
  volumes.reset();
  plugins.reset();
  networks.reset();
  mounts.reset();
  boot.reset();
  state.reset();
  events.Forget();
  if (!same_boot) {
    ++boots_;
    client.reset();
    executor = std::make_unique<exec::FakeExecutor>();
    client = std::make_unique<csi::FakeCsiClient>(*executor);
  }
  Start();
}

// The order is the daemon's.
Result<void> Core::Recover() {
  MOUNTD_TRY(executor->PrepareBase());
  MOUNTD_TRY(services->leases.Recover(config.timeouts.lease_grace));
  MOUNTD_TRY(services->recovery.Recover());
  MOUNTD_TRY(plugins->Recover());
  MOUNTD_TRY(volumes->Recover());
  MOUNTD_TRY(mounts->Recover());
  MOUNTD_TRY(networks->Recover());
  return services->recovery.OweCutOff();
}

bool Core::AddPlugin(const std::string& id, const std::string& type) {
  return plugins->Register({id, type, kAgent, "", ""}).has_value() &&
         events.Await(id + " healthy 1");
}

CallContext Core::By(std::uint32_t uid) {
  CallContext call;
  call.caller.uid = uid;
  call.caller.gid = uid;
  return call;
}

Name NameOf(const std::string& text) {
  return Name::Parse("name", text).value();
}

}  // namespace mountd
