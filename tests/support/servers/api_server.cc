// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/support/servers/api_server.h"

#include <cstdio>
#include <cstdlib>
#include <future>
#include <optional>
#include <sstream>
#include <utility>

#include "dbus/methods/event.h"
#include "tests/support/servers/closer_thread.h"
#include "tests/support/unix_socket.h"

namespace mountd::test {
namespace {

// The daemon's number, unless its configuration has another limit.
constexpr std::size_t kWorkers =
    Operations::WorkersFor(LimitsConfig().operations_per_uid);

// Throws if `result` is an error, because a test whose server cannot start says
// nothing about the code.
template <typename T>
T Must(Result<T> result) {
  return std::move(result).value();
}

}  // namespace

ApiServer::ApiServer(const std::string& directory, ApiServerOptions options)
    : options_(std::move(options)),
      socket_(directory + "/bus"),
      loop_(Must(dbus::EventLoop::Create())),
      foreign_(std::make_unique<dbus::ForeignFds>(*loop_, CloserInThread())),
      state_(Must(store::StateStore::Open(directory + "/state.db", "boot"))),
      boot_(Must(store::BootStore::Open(directory + "/boot.db"))),
      pool_(std::make_unique<WorkerPool>(kWorkers)),
      strands_(*pool_),
      plugins_(std::make_unique<csi::Plugins>(
          options_.config.timeouts, executor_, csi_, *state_,
          [this](const csi::PluginChange& change) {
            loop_->Post([this, change] {
              Send(dbus::PluginChanged(services_.access, change));
              if (const auto event = csi::EventOf(change)) {
                Send(dbus::TaskEventOfPlugin(services_.access, change.now,
                                             *event));
              }
              if (const auto node = csi::NodeInfoChangeOf(change)) {
                Send(
                    dbus::NodeInfoChanged(services_.access, change.now, *node));
              }
              if (change.now.state == csi::PluginState::kHealthy) {
                owed_.Check();
                restorer_.Look(change.now.record.id);
              }
            });
          })),
      volumes_(options_.config, executor_, executor_, csi_, *plugins_, *state_,
               EventsOfVolumes()),
      controller_(options_.config.timeouts, csi_, *plugins_, volumes_),
      mounts_(options_.config, executor_, *boot_),
      networks_(options_.config, executor_, *boot_, {[] {}}),
      room_(options_.config.limits.mount_reserve,
            options_.config.limits.mounts_per_plugin),
      watch_({*loop_, strands_, executor_, *state_, *boot_, mounts_, room_},
             [this](const MountRecord& record, const std::string& reason) {
               MountLost(record, reason);
             }),
      prober_({*loop_, strands_, executor_, *boot_, healths_},
              options_.config.timeouts.probe_mounts,
              [this](const MountRecord& record, exec::MountHealth health,
                     const std::string& reason) {
                MountHealthChanged(record, health, reason);
              }),
      live_config_(options_.config),
      services_({live_config_,
                 executor_,
                 *state_,
                 *boot_,
                 mounts_,
                 networks_,
                 *plugins_,
                 volumes_,
                 controller_,
                 room_,
                 healths_,
                 [this] { loop_->Post([this] { owed_.Check(); }); },
                 {},
                 [this] { return options_.reload(live_config_); },
                 [this] { loop_->Post([this] { leases_.Check(); }); }}),
      operations_(
          *loop_, strands_,
          [this](const OperationSummary& summary) { Finished(summary); },
          options_.config.limits.operations_per_uid,
          [this](const OperationStatus& status) {
            SendAll(dbus::OperationChanged(services_.access, status));
          }),
      owed_watch_(*loop_, options_.config.timeouts.owed_warning,
                  {[this](const OwedSummary& owed) {
                     Send(dbus::OwedChanged(owed.count));
                   },
                   [this](const OwedSummary& owed, OwedWatch::Micros) {
                     Send(dbus::OwedOverdue(owed));
                   }}),
      owed_(*loop_, strands_, services_.node,
            [this](const OwedSummary& owed) { owed_watch_.Observe(owed); }),
      settler_(*loop_, strands_, volumes_),
      restorer_(*loop_, strands_, volumes_, services_.volumes),
      volume_prober_({*loop_, strands_, volumes_},
                     options_.config.timeouts.probe_volumes),
      fence_teller_({*loop_, strands_, state_->leases}, WaysToTellFences()),
      leases_(
          {*loop_, strands_, services_.leases, services_.fences},
          {[this](const Leases::Lapsed& one) {
             SendAll(dbus::LeaseLapsed(services_.access, one.lease));
           },
           [this](const FenceRecord& fence) {
             options_.on_fence([this, fence] { fence_teller_.Done(fence); });
           }}),
      api_{options_.config.timeouts,
           services_,
           operations_,
           strands_,
           owed_watch_,
           drops_,
           [this](const OperationSummary& summary) {
             audited_.push_back(
                 summary.method + " " + summary.object + " " +
                 std::to_string(summary.uid) + " " +
                 (summary.pid == 0 ? "nobody" : "somebody") + " " +
                 (summary.error == nullptr ? "others=" + summary.others
                                           : summary.error->Message()));
           },
           [this](std::uint32_t uid) { fence_teller_.Subscribed(uid); }},
      peers_(std::make_unique<dbus::PeerServer>(
          *loop_, api_, *foreign_, options_.config.limits, options_.peers)) {
  Recover();
  Must(peers_->Listen(ListenAt(socket_)));
  if (options_.system_bus) {
    bus_ = std::make_unique<dbus::SystemBus>(*loop_, api_, *foreign_,
                                             options_.reconnect);
    loop_->Post([this] { bus_->Start(); });
  }
  loop_->Post([this] { leases_.Start(); });
  thread_ = std::thread([this] {
    Must(loop_->Run());
    bus_.reset();
    peers_->Close();
  });
}

ApiServer::~ApiServer() {
  loop_->Post([this] { loop_->Quit(); });
  thread_.join();
  executor_.script().UnblockAll();
  csi_.script().UnblockAll();
  // The pool first, because its jobs ask for the plugins' states.
  pool_.reset();
  plugins_.reset();
}

void ApiServer::Recover() {
  Must(executor_.PrepareBase());
  Must(services_.leases.Recover(options_.config.timeouts.lease_grace));
  Must(fence_teller_.Recover());
  Must(services_.recovery.Recover());
  Must(plugins_->Recover());
  Must(volumes_.Recover());
  Must(networks_.Recover());
}

void ApiServer::WatchMounts() {
  OnLoop([this] {
    watch_.Start();
    prober_.Start();
  });
}

void ApiServer::WatchConditions() {
  OnLoop([this] { volume_prober_.Start(); });
}

void ApiServer::Send(const dbus::Event& event) {
  peers_->Send(event);
  if (bus_ != nullptr) {
    bus_->Send(event);
  }
}

void ApiServer::SendAll(const std::vector<dbus::Event>& events) {
  for (const dbus::Event& event : events) {
    Send(event);
  }
}

FenceTeller::Ways ApiServer::WaysToTellFences() {
  FenceTeller::Ways ways;
  ways.tell_all = [this](const FenceRecord& fence) {
    SendAll(dbus::FenceDone(services_.access, fence));
  };
  ways.tell_user = [this](const FenceRecord& fence) {
    SendAll(dbus::FenceDoneForUser(fence));
  };
  ways.has_subscriber = [this](std::uint32_t uid) {
    return peers_->HasSubscriber(uid) ||
           (bus_ != nullptr && bus_->HasSubscriber(uid));
  };
  ways.has_reader = [this](std::uint32_t uid) {
    return peers_->HasReader(uid) || (bus_ != nullptr && bus_->HasReader(uid));
  };
  return ways;
}

csi::VolumeEvents ApiServer::EventsOfVolumes() {
  csi::VolumeEvents events;
  events.on_health = [this](const VolumeRecord& volume,
                            exec::MountHealth health,
                            const std::string& reason) {
    loop_->Post([this, volume, health, reason] {
      Send(dbus::VolumeHealthChanged(services_.access, volume, health, reason));
    });
  };
  events.on_condition = [this](const VolumeRecord& volume,
                               const csi::VolumeCondition& condition) {
    loop_->Post([this, volume, condition] {
      Send(dbus::VolumeConditionChanged(services_.access, volume, condition));
    });
  };
  events.on_secrets_needed = [this](const VolumeRecord& volume,
                                    const PublicationRecord& publication) {
    loop_->Post([this, volume, publication] {
      Send(dbus::SecretsNeeded(services_.access, volume, publication));
    });
  };
  events.on_owed = [this] { loop_->Post([this] { owed_.Check(); }); };
  events.on_unsettled = [this] { loop_->Post([this] { settler_.Check(); }); };
  events.may_restore = [this](const std::string& allocation) {
    return services_.leases.MayRestore(allocation);
  };
  return events;
}

void ApiServer::Finished(const OperationSummary& summary) {
  if (summary.error == nullptr && !summary.others.empty()) {
    reads_.push_back(summary.method + " " + std::to_string(summary.uid) +
                     " others=" + summary.others);
  }
  if (summary.error != nullptr || owed_watch_.last().count != 0) {
    owed_.Check();
  }
  if (summary.announced) {
    Send(dbus::OperationDone(summary));
  }
}

void ApiServer::MountLost(const MountRecord& record,
                          const std::string& reason) {
  const auto owner = state_->allocations.GetAllocation(record.allocation);
  if (owner && *owner) {
    loop_->Post([this, record, reason, uid = (*owner)->uid] {
      Send(dbus::MountLost(services_.access, uid, record, reason));
    });
  }
}

void ApiServer::MountHealthChanged(const MountRecord& record,
                                   exec::MountHealth health,
                                   const std::string& reason) {
  const auto owner = state_->allocations.GetAllocation(record.allocation);
  if (owner && *owner) {
    loop_->Post([this, record, health, reason, uid = (*owner)->uid] {
      Send(dbus::MountHealthChanged(services_.access, uid, record, health,
                                    reason));
    });
  }
}

void ApiServer::OnLoop(const std::function<void()>& closure) {
  std::promise<void> done;
  loop_->Post([&] {
    closure();
    done.set_value();
  });
  if (done.get_future().wait_for(kTestPatience) != std::future_status::ready) {
    std::fputs("the loop does not turn\n", stderr);
    std::abort();
  }
}

std::vector<std::string> ApiServer::TakeAudited() {
  std::vector<std::string> audited;
  OnLoop([&] { audited.swap(audited_); });
  return audited;
}

std::vector<std::string> ApiServer::TakeUsesOfOthers() {
  std::vector<std::string> reads;
  OnLoop([&] { reads.swap(reads_); });
  return reads;
}

std::size_t ApiServer::peer_count() {
  std::size_t count = 0;
  OnLoop([&] { count = peers_->peer_count(); });
  return count;
}

std::size_t ApiServer::running() {
  std::size_t count = 0;
  OnLoop([&] { count = operations_.running(); });
  return count;
}

std::string ApiServer::Records() {
  std::ostringstream text;
  for (const auto& one : Must(state_->allocations.ListAllocations())) {
    text << "allocation " << one.id << ' ' << one.uid << ' ' << one.scope << ' '
         << static_cast<int>(one.state) << '\n';
  }
  for (const auto& one : Must(state_->plugins.ListPlugins())) {
    text << "plugin " << one.id << ' ' << one.type << ' ' << one.uid << '\n';
  }
  for (const auto& one : Must(state_->volumes.ListPublications())) {
    text << "publication " << one.allocation << '/' << one.alias << ' '
         << static_cast<int>(one.state) << '\n';
  }
  for (const auto& one : Must(state_->volumes.ListVolumes())) {
    text << "volume " << one.plugin << ' ' << one.volume_id << ' '
         << static_cast<int>(one.state) << '\n';
  }
  for (const auto& one : Must(state_->owed.ListOwed())) {
    text << "owed " << one.object << ' ' << one.attempts << '\n';
  }
  for (const auto& one : Must(boot_->mounts.ListMounts())) {
    text << "mount " << one.allocation << '/' << one.task << '/' << one.name
         << ' ' << static_cast<int>(one.state) << '\n';
  }
  for (const auto& one : Must(boot_->networks.ListNetworks())) {
    text << "network " << one.allocation << ' ' << static_cast<int>(one.state)
         << '\n';
  }
  return text.str();
}

}  // namespace mountd::test
