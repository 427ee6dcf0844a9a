// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/daemon/daemon.h"

#include <spdlog/spdlog.h>
#include <systemd/sd-daemon.h>
#include <systemd/sd-id128.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "dbus/methods/event.h"
#include "mountd/base/fd_limit.h"
#include "mountd/base/paths.h"

namespace mountd {
namespace {

constexpr std::size_t kQuickWorkers = 8;  // for reads of the stores
// After this pause mountd tries again to start a declared plugin.
constexpr std::chrono::milliseconds kSettlePause{5000};
constexpr std::chrono::milliseconds kCniGarbagePause{60'000};
// Added to CNI's timeout. The executor itself kills a CNI runner that takes
// longer, and mountd must wait long enough to get that report.
constexpr std::chrono::milliseconds kCniPatience{10'000};

Result<std::string> BootId() {
  sd_id128_t id = {};
  if (const int status = sd_id128_get_boot(&id); status < 0) {
    return ErrnoError(-status, "read", "boot id");
  }
  std::array<char, SD_ID128_STRING_MAX> text{};
  return std::string(sd_id128_to_string(id, text.data()));
}

// Ends the process when a store is found damaged, because earlier reads of that
// store may be wrong and later writes may be lost.
void EndAtDamage(store::Database& store) {
  store.OnDamage([](const Error& error) {
    spdlog::critical("{}; mountd starts again without this store",
                     error.Message());
    spdlog::shutdown();
    std::_Exit(EXIT_FAILURE);
  });
}

std::vector<std::string> StoresSetAside(store::StateStore& state,
                                        store::BootStore& boot) {
  std::vector<std::string> all;
  for (store::Database* store : {&state.database(), &boot.database()}) {
    if (!store->set_aside().empty()) {
      spdlog::error(
          "a store was damaged and is set aside as {}; mountd rebuilds its "
          "contents from the kernel",
          store->set_aside());
      all.push_back(store->set_aside());
    }
  }
  return all;
}

}  // namespace

Result<std::unique_ptr<Daemon>> Daemon::Start(const DaemonOptions& options,
                                              UniqueFd listening,
                                              const Seams& seams) {
  // Connect first, so that the executors start while mountd opens its stores.
  exec::ExecutorPool::Ahead executors = exec::ExecutorPool::StartAhead(
      exec::ExecutorPool::ConnectTo(paths::kExecSocket));
  MOUNTD_ASSIGN(Config config, LoadConfig(options.config_path,
                                          /*require_root_owned=*/true));
  MOUNTD_ASSIGN(const std::string boot_id, BootId());
  MOUNTD_ASSIGN(auto loop, dbus::EventLoop::Create());
  MOUNTD_ASSIGN(auto state,
                store::StateStore::Open(paths::kStateStore, boot_id));
  MOUNTD_ASSIGN(auto boot, store::BootStore::Open(paths::kBootStore));
  MOUNTD_TRY(boot->AdoptBoot(boot_id));
  EndAtDamage(state->database());
  EndAtDamage(boot->database());
  std::unique_ptr<Daemon> daemon(
      new Daemon(options, std::move(config), std::move(loop), std::move(state),
                 std::move(boot), std::move(executors), seams));
  MOUNTD_TRY(daemon->Recover());
  MOUNTD_TRY(daemon->peers_.Listen(std::move(listening)));
  if (options.system_bus) {
    daemon->bus_ = std::make_unique<dbus::SystemBus>(
        *daemon->loop_, daemon->api_, daemon->foreign_);
    daemon->bus_->Start();
  }
  daemon->owed_.Check();
  daemon->leases_.Start();
  daemon->SettleDeclaredPlugins();
  daemon->ReleaseLeftAnchors();
  daemon->watch_.Start();
  daemon->CollectCniGarbage();
  daemon->network_watch_.Start();
  daemon->prober_.Start();
  daemon->volume_prober_.Start();
  daemon->TidyUpLater();
  return daemon;
}

Daemon::Daemon(const DaemonOptions& options, Config config,
               std::unique_ptr<dbus::EventLoop> loop,
               std::unique_ptr<store::StateStore> state,
               std::unique_ptr<store::BootStore> boot,
               exec::ExecutorPool::Ahead executors, const Seams& seams)
    : options_(options),
      config_(std::move(config)),
      loop_(std::move(loop)),
      foreign_(*loop_, seams.closer),
      state_(std::move(state)),
      boot_(std::move(boot)),
      pool_(Operations::WorkersFor(config_.limits.operations_per_uid)),
      quick_pool_(kQuickWorkers),
      strands_(pool_, &quick_pool_),
      tidy_up_pause_(seams.tidy_up_pause),
      executors_(exec::ExecutorPool::ConnectTo(paths::kExecSocket),
                 {.mount_lanes = config_.limits.mount_executors,
                  .deadline = config_.timeouts.plan,
                  .cni_deadline = config_.timeouts.cni + kCniPatience},
                 std::move(executors)),
      executor_(seams.executor ? seams.executor(executors_) : executors_),
      csi_channels_(
          csi::CsiChannelClient::ConnectToCsiSocket,
          [this] { loop_->Post([this] { plugins_.ReconnectAll(); }); }),
      csi_(seams.csi ? seams.csi(csi_channels_) : csi_channels_),
      plugins_(config_.timeouts, executor_, csi_, *state_,
               [this](const csi::PluginChange& change) {
                 loop_->Post([this, change] { PluginChanged(change); });
               }),
      declared_(config_.plugins, executor_, plugins_),
      volumes_(config_, executor_, executor_, csi_, plugins_, *state_,
               EventsOfVolumes()),
      controller_(config_.timeouts, csi_, plugins_, volumes_),
      mounts_(config_, executor_, *boot_),
      networks_(config_, executor_, *boot_, EventsOfNetworks()),
      room_(config_.limits.mount_reserve, config_.limits.mounts_per_plugin),
      watch_({*loop_, strands_, executor_, *state_, *boot_, mounts_, room_},
             [this](const MountRecord& record, const std::string& reason) {
               MountLost(record, reason);
             }),
      network_watch_({*loop_, strands_, executor_, *boot_, networks_,
                      config_.firewall.forward_rules},
                     EventsOfNetworkWatch()),
      prober_({*loop_, strands_, executor_, *boot_, healths_},
              config_.timeouts.probe_mounts,
              [this](const MountRecord& record, exec::MountHealth health,
                     const std::string& reason) {
                MountHealthChanged(record, health, reason);
              }),
      services_({live_config_, executor_, *state_, *boot_, mounts_, networks_,
                 plugins_, volumes_, controller_, room_, healths_,
                 [this] { loop_->Post([this] { owed_.Check(); }); },
                 StoresSetAside(*state_, *boot_), [this] { return Reload(); },
                 [this] { loop_->Post([this] { leases_.Check(); }); },
                 [this](const std::vector<std::string>& allocations) {
                   RestoreVolumesOf(allocations);
                 }}),
      operations_(
          *loop_, strands_,
          [this](const OperationSummary& summary) { Finished(summary); },
          config_.limits.operations_per_uid,
          [this](const OperationStatus& status) {
            SendAll(dbus::OperationChanged(services_.access, status));
          }),
      owed_watch_(*loop_, config_.timeouts.owed_warning, EventsOfOwed()),
      owed_(*loop_, strands_, services_.node,
            [this](const OwedSummary& owed) { owed_watch_.Observe(owed); }),
      settler_(*loop_, strands_, volumes_),
      restorer_(*loop_, strands_, volumes_, services_.volumes),
      volume_prober_({*loop_, strands_, volumes_},
                     config_.timeouts.probe_volumes),
      fence_teller_({*loop_, strands_, state_->leases}, WaysToTellFences()),
      leases_({*loop_, strands_, services_.leases, services_.fences},
              EventsOfLeases()),
      api_{config_.timeouts,
           services_,
           operations_,
           strands_,
           owed_watch_,
           drops_,
           [this](const OperationSummary& summary) {
             operation_log_.Log(summary);
           },
           [this](std::uint32_t uid) { fence_teller_.Subscribed(uid); }},
      peers_(*loop_, api_, foreign_, config_.limits) {}

// Recovers objects before the objects that need them: directories before
// mounts, volumes before the mounts of volumes.
Result<void> Daemon::Recover() {
  MOUNTD_TRY(executor_.PrepareBase());
  if (boot_->database().is_fresh()) {
    MOUNTD_TRY(mounts_.DoubtAllAnchors());
  }
  // Recover leases first, because calls on the allocations of a lapsed lease
  // must be refused from the beginning.
  MOUNTD_TRY(services_.leases.Recover(config_.timeouts.lease_grace));
  MOUNTD_TRY(fence_teller_.Recover());
  MOUNTD_TRY(services_.recovery.Recover());
  MOUNTD_TRY(plugins_.Recover());
  MOUNTD_TRY(volumes_.Recover());
  MOUNTD_TRY(mounts_.Recover());
  MOUNTD_TRY(networks_.Recover());
  return services_.recovery.OweCutOff();
}

// Doubles the pause after each try, up to 32 tidy-ups, which is about a minute.
void Daemon::ReleaseLeftAnchors() {
  constexpr int kLongest = 32;
  if (!mounts_.HasLeftAnchors()) {
    anchors_in_ = 0;
    next_anchors_in_ = 1;
  } else if (anchors_in_-- <= 0) {
    anchors_in_ = next_anchors_in_;
    next_anchors_in_ = std::min(2 * next_anchors_in_, kLongest);
    strands_.Submit("anchors", [this] { mounts_.ReleaseLeftAnchors(); });
  }
}

void Daemon::SettleDeclaredPlugins() {
  for (const std::string& name : declared_.Names()) {
    SettlePlugin(name);
  }
}

void Daemon::SettlePlugin(const std::string& name) {
  strands_.Submit("plugin " + name, [this, name] {
    const Result<void> settled = declared_.Settle(name);
    if (settled) {
      return;
    }
    const Error& error = settled.error();
    spdlog::warn("plugin {}: {}", name, error.Message());
    // These errors may pass by themselves.
    if (error.code == Code::kUnavailable || error.code == Code::kBusy ||
        error.code == Code::kDeadlineExceeded) {
      loop_->Post([this, name] {
        loop_->After(kSettlePause, [this, name] { SettlePlugin(name); });
      });
    }
  });
}

// Runs on a strand of its own, because CNI plugins of third parties may take
// any time.
void Daemon::CollectCniGarbage() {
  if (!config_.cni.enabled()) {
    return;
  }
  cni_garbage_ = true;
  strands_.Submit("cni-gc", [this] {
    const Result<void> collected = networks_.cni().CollectGarbage();
    if (collected) {
      loop_->Post([this] { cni_garbage_ = false; });
      return;
    }
    spdlog::warn("CNI: {}", collected.error().Message());
    loop_->Post([this] {
      loop_->After(kCniGarbagePause, [this] { CollectCniGarbage(); });
    });
  });
}

}  // namespace mountd
