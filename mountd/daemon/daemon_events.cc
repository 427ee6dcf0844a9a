// SPDX-License-Identifier: LGPL-2.1-or-later
#include <spdlog/spdlog.h>

#include <chrono>

#include "dbus/methods/event.h"
#include "mountd/daemon/daemon.h"
#include "mountd/daemon/operation_log.h"

// Handles the events of mountd's parts: logs them, sends them to the clients
// concerned, and acts on them.
namespace mountd {
namespace {

constexpr std::chrono::milliseconds kQuarantinePause{50};

}  // namespace

void Daemon::Finished(const OperationSummary& summary) {
  operation_log_.Log(summary);
  busy_at_ = std::chrono::steady_clock::now();
  // The operation may have added or removed pending tear-downs.
  if (summary.error != nullptr || owed_watch_.last().count != 0) {
    owed_.Check();
    TellIfStuck();
  }
  if (summary.announced) {
    Send(dbus::OperationDone(summary));
  }
  QuitIfQuiet();
}

void Daemon::PluginChanged(const csi::PluginChange& change) {
  Send(dbus::PluginChanged(services_.access, change));
  if (const auto event = csi::EventOf(change)) {
    Send(dbus::TaskEventOfPlugin(services_.access, change.now, *event));
  }
  const csi::PluginInstance& now = change.now;
  if (const auto node = csi::NodeInfoChangeOf(change)) {
    plugin_log_.LogNodeInfo(change, *node);
    Send(dbus::NodeInfoChanged(services_.access, now, *node));
  }
  if (change.kind == csi::PluginChange::Kind::kPlugin) {
    spdlog::info("plugin {} is {}{}{}", now.record.id,
                 csi::PluginStateName(now.state),
                 now.reason.empty() ? "" : ": ", now.reason);
  }
  // The plugin answers again, so retry the work that waited for it.
  if (csi::HasComeBack(change)) {
    owed_.Hurry();
    settler_.Hurry();
    restorer_.Look(now.record.id);
  }
}

Networks::Events Daemon::EventsOfNetworks() {
  Networks::Events events;
  events.check_again = [this] {
    // One look at the quarantine is enough for all requests until it begins.
    if (quarantine_is_due_.exchange(true)) {
      return;
    }
    loop_->Post([this] {
      loop_->After(kQuarantinePause, [this] {
        strands_.Submit("quarantine", [this] {
          quarantine_is_due_ = false;
          networks_.ReapQuarantine();
        });
      });
    });
  };
  events.scarce = [this](const std::string& network,
                         const Networks::Usage& usage) {
    spdlog::warn("network {}: {} of {} addresses are free", network, usage.free,
                 usage.capacity);
    loop_->Post([this, network, usage] {
      Send(dbus::AddressesScarce(services_.access, network, usage));
    });
  };
  events.gone = [this](const NetworkRecord& record) {
    network_watch_.Forget(record);
  };
  events.owner_of = [this](const std::string& allocation) {
    const auto owner = state_->allocations.GetAllocation(allocation);
    return owner && *owner ? (*owner)->uid : 0U;
  };
  events.grants_ports = [this](const NetworkRecord& record) {
    return services_.networks.GrantsPorts(record);
  };
  return events;
}

NetworkWatch::Events Daemon::EventsOfNetworkWatch() {
  const auto tell = [this](auto event, const NetworkRecord& record,
                           const std::string& text) {
    const auto owner = state_->allocations.GetAllocation(record.allocation);
    if (owner && *owner) {
      loop_->Post([this, event, record, text, uid = (*owner)->uid] {
        Send(event(services_.access, uid, record, text));
      });
    }
  };
  NetworkWatch::Events events;
  events.repaired = [tell](const NetworkRecord& record,
                           const std::string& what) {
    spdlog::warn(
        "another program changed network {}/{}, and mountd repaired it: {}",
        record.allocation, record.interface, what);
    tell(dbus::NetworkRepaired, record, what);
  };
  events.lost = [tell](const NetworkRecord& record, const std::string& reason) {
    spdlog::warn("network {}/{} is lost: {}", record.allocation,
                 record.interface, reason);
    tell(dbus::NetworkLost, record, reason);
  };
  events.ruleset_restored = [this] {
    spdlog::warn(
        "another program changed mountd's nftables table, and mountd restored "
        "it");
    loop_->Post([this] { Send(dbus::RulesetRestored()); });
  };
  return events;
}

csi::VolumeEvents Daemon::EventsOfVolumes() {
  csi::VolumeEvents events;
  events.on_health = [this](const VolumeRecord& volume,
                            exec::MountHealth health,
                            const std::string& reason) {
    spdlog::warn("volume {} of plugin {} is {}{}{}", volume.key.str(),
                 volume.plugin, MountHealthName(health),
                 reason.empty() ? "" : ": ", reason);
    loop_->Post([this, volume, health, reason] {
      Send(dbus::VolumeHealthChanged(services_.access, volume, health, reason));
    });
  };
  events.on_condition = [this](const VolumeRecord& volume,
                               const csi::VolumeCondition& condition) {
    loop_->Post([this, volume, condition] {
      plugin_log_.LogCondition(volume, condition);
      Send(dbus::VolumeConditionChanged(services_.access, volume, condition));
    });
  };
  events.on_secrets_needed = [this](const VolumeRecord& volume,
                                    const PublicationRecord& publication) {
    spdlog::warn(
        "volume {}/{} waits for its agent to publish it again with its secrets "
        "or mount flags",
        publication.allocation, publication.alias);
    loop_->Post([this, volume, publication] {
      Send(dbus::SecretsNeeded(services_.access, volume, publication));
    });
  };
  events.may_restore = [this](const std::string& allocation) {
    return services_.leases.MayRestore(allocation);
  };
  events.on_owed = [this] { loop_->Post([this] { owed_.Check(); }); };
  events.on_unsettled = [this] { loop_->Post([this] { settler_.Check(); }); };
  return events;
}

FenceTeller::Ways Daemon::WaysToTellFences() {
  FenceTeller::Ways ways;
  ways.tell_all = [this](const FenceRecord& fence) {
    SendAll(dbus::FenceDone(services_.access, fence));
  };
  ways.tell_user = [this](const FenceRecord& fence) {
    SendAll(dbus::FenceDoneForUser(fence));
  };
  ways.has_subscriber = [this](std::uint32_t uid) {
    return peers_.HasSubscriber(uid) ||
           (bus_ != nullptr && bus_->HasSubscriber(uid));
  };
  ways.has_reader = [this](std::uint32_t uid) {
    return peers_.HasReader(uid) || (bus_ != nullptr && bus_->HasReader(uid));
  };
  return ways;
}

LeaseWatch::Events Daemon::EventsOfLeases() {
  LeaseWatch::Events events;
  events.on_lapse = [this](const Leases::Lapsed& one) {
    SendAll(dbus::LeaseLapsed(services_.access, one.lease));
  };
  events.on_done = [this](const FenceRecord& fence) {
    fence_teller_.Done(fence);
    owed_.Check();
  };
  return events;
}

// Restores volumes that mountd did not restore while their lease was not held.
void Daemon::RestoreVolumesOf(const std::vector<std::string>& allocations) {
  for (const std::string& allocation : allocations) {
    const auto publications = volumes_.Of(allocation);
    for (const PublicationRecord& one :
         publications ? *publications : std::vector<PublicationRecord>()) {
      const auto volume = state_->volumes.GetVolume(one.key);
      if (volume && *volume) {
        restorer_.Look((*volume)->plugin);
      }
    }
  }
  loop_->Post([this] { settler_.Hurry(); });
}

OwedWatch::Events Daemon::EventsOfOwed() {
  OwedWatch::Events events;
  events.on_count = [this](const OwedSummary& owed) {
    spdlog::info("pending tear-downs: {}", owed.count);
    Send(dbus::OwedChanged(owed.count));
  };
  events.on_late = [this](const OwedSummary& owed,
                          std::chrono::microseconds age) {
    spdlog::warn(
        "pending tear-downs: {}, the oldest for {} s; mountctl owed shows why",
        owed.count, std::chrono::floor<std::chrono::seconds>(age).count());
    Send(dbus::OwedOverdue(owed));
  };
  return events;
}

void Daemon::MountLost(const MountRecord& record, const std::string& reason) {
  spdlog::warn("mount {}/{}/{} is lost: {}", record.allocation, record.task,
               record.name, reason);
  const auto owner = state_->allocations.GetAllocation(record.allocation);
  if (owner && *owner) {
    loop_->Post([this, record, reason, uid = (*owner)->uid] {
      Send(dbus::MountLost(services_.access, uid, record, reason));
    });
  }
}

void Daemon::MountHealthChanged(const MountRecord& record,
                                exec::MountHealth health,
                                const std::string& reason) {
  spdlog::warn("mount {}/{}/{} is {}{}{}", record.allocation, record.task,
               record.name, MountHealthName(health), reason.empty() ? "" : ": ",
               reason);
  LookAtVolumeOf(record, health);
  const auto owner = state_->allocations.GetAllocation(record.allocation);
  if (owner && *owner) {
    loop_->Post([this, record, health, reason, uid = (*owner)->uid] {
      Send(dbus::MountHealthChanged(services_.access, uid, record, health,
                                    reason));
    });
  }
}

// Looks at the plugin's volumes too, because the server of one volume may die
// while its plugin lives.
void Daemon::LookAtVolumeOf(const MountRecord& record,
                            exec::MountHealth health) {
  if (health != exec::MountHealth::kDead ||
      record.wish.source_kind != exec::SourceKind::kPublishedVolume) {
    return;
  }
  const auto published = volumes_.Get(record.allocation, record.wish.source);
  if (published && *published) {
    const auto volume = state_->volumes.GetVolume((*published)->record.key);
    if (volume && *volume) {
      restorer_.Look((*volume)->plugin);
    }
  }
}

void Daemon::Send(const dbus::Event& event) {
  peers_.Send(event);
  if (bus_ != nullptr) {
    bus_->Send(event);
  }
}

void Daemon::SendAll(const std::vector<dbus::Event>& events) {
  for (const dbus::Event& event : events) {
    Send(event);
  }
}

void Daemon::TellIfStuck() {
  const std::uint32_t stuck = executor_.stuck();
  if (stuck == stuck_told_) {
    return;
  }
  stuck_told_ = stuck;
  spdlog::warn(
      "{} abandoned executors hang in the kernel; mountctl doctor says what to "
      "do",
      stuck);
  Send(dbus::StuckChanged(stuck));
}

}  // namespace mountd
