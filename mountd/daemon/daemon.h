// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "csi-node/client/csi_channel_client.h"
#include "csi-node/node/controller.h"
#include "csi-node/node/declared_plugins.h"
#include "csi-node/node/plugins.h"
#include "csi-node/node/volumes.h"
#include "dbus/receive/event_loop.h"
#include "dbus/receive/foreign_fds.h"
#include "dbus/transport/peer_server.h"
#include "dbus/transport/system_bus.h"
#include "mountd/base/worker_pool.h"
#include "mountd/config/config.h"
#include "mountd/config/live_config.h"
#include "mountd/daemon/operation_log.h"
#include "mountd/daemon/plugin_log.h"
#include "mountd/executors/executor_pool.h"
#include "mountd/mounts/mount_room.h"
#include "mountd/mounts/mounts.h"
#include "mountd/networks/networks.h"
#include "mountd/operations/operations.h"
#include "mountd/service/services.h"
#include "mountd/watch/fence_teller.h"
#include "mountd/watch/lease_watch.h"
#include "mountd/watch/mount_prober.h"
#include "mountd/watch/mount_watch.h"
#include "mountd/watch/network_watch.h"
#include "mountd/watch/owed_retrier.h"
#include "mountd/watch/owed_watch.h"
#include "mountd/watch/volume_prober.h"
#include "mountd/watch/volume_restorer.h"

namespace mountd {

struct DaemonOptions {
  std::string config_path;
  bool system_bus = true;
  // mountd ends after this time without a connection or an object to look
  // after. The process that holds mountd's sockets, such as systemd, starts
  // mountd again at the next call. 0: never.
  std::chrono::seconds exit_when_idle{0};
};

// Tests replace the executor and the client of the plugins here. Each function
// gets the real object and returns the object to use. The owner of the function
// keeps that object alive.
struct Seams {
  std::function<exec::Executor&(exec::Executor&)> executor;
  std::function<csi::CsiClient&(csi::CsiClient&)> csi;
  // Connects to mountd-closer.
  dbus::ForeignFds::Connector closer = dbus::ForeignFds::ConnectToCloser();
  // Time between two rounds of background work (TidyUpLater).
  std::chrono::milliseconds tidy_up_pause{2000};
};

// Owns every part of mountd; the composition root. Only this class knows the
// concrete parts and their order. Makes all parts, recovers them, and only then
// lets clients connect.
//
// main() ends the process by _Exit once the loop has ended and the sockets are
// closed. It destroys no parts, because the state on disk is right at every
// moment.
class Daemon {
 public:
  // Opens the stores, reaches the executors, recovers, and then listens on
  // `listening` (the activated peer-to-peer socket).
  static Result<std::unique_ptr<Daemon>> Start(const DaemonOptions& options,
                                               UniqueFd listening,
                                               const Seams& seams = {});
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  // Runs until SIGTERM or SIGINT, until mountd is idle for long enough, or
  // until mountd has to restart. Closes all connections before it returns.
  Result<void> Run();
  // After Run: true if mountd must be started again.
  bool restart() const { return restart_; }

 private:
  Daemon(const DaemonOptions& options, Config config,
         std::unique_ptr<dbus::EventLoop> loop,
         std::unique_ptr<store::StateStore> state,
         std::unique_ptr<store::BootStore> boot,
         exec::ExecutorPool::Ahead executors, const Seams& seams);

  Result<void> Recover();
  void Finished(const OperationSummary& summary);
  void PluginChanged(const csi::PluginChange& change);
  // Called by workers.
  void MountLost(const MountRecord& record, const std::string& reason);
  void MountHealthChanged(const MountRecord& record, exec::MountHealth health,
                          const std::string& reason);
  OwedWatch::Events EventsOfOwed();
  FenceTeller::Ways WaysToTellFences();
  LeaseWatch::Events EventsOfLeases();
  void RestoreVolumesOf(const std::vector<std::string>& allocations);
  Networks::Events EventsOfNetworks();
  NetworkWatch::Events EventsOfNetworkWatch();
  csi::VolumeEvents EventsOfVolumes();
  void LookAtVolumeOf(const MountRecord& record, exec::MountHealth health);
  void Send(const dbus::Event& event);
  void SendAll(const std::vector<dbus::Event>& events);
  void CollectCniGarbage();
  void TellIfStuck();
  void TidyUpLater();
  Result<std::vector<std::string>> Reload();
  void RestartSoon();
  void QuitIfQuiet();
  bool IsBusy() const;
  void EndIfIdle();
  void EndIdle(std::chrono::steady_clock::time_point since);
  void ReleaseLeftAnchors();
  void SettleDeclaredPlugins();
  void SettlePlugin(const std::string& name);

  const DaemonOptions options_;
  const Config config_;  // the configuration at the start
  LiveConfig live_config_{config_};
  const std::unique_ptr<dbus::EventLoop> loop_;
  // Outlives the parts that keep fds of callers, such as the leases.
  dbus::ForeignFds foreign_;
  const std::unique_ptr<store::StateStore> state_;
  const std::unique_ptr<store::BootStore> boot_;
  WorkerPool pool_;
  WorkerPool quick_pool_;
  Strands strands_;
  const std::chrono::milliseconds tidy_up_pause_;
  exec::ExecutorPool executors_;
  exec::Executor& executor_;
  csi::CsiChannelClient csi_channels_;
  csi::CsiClient& csi_;
  csi::Plugins plugins_;
  csi::DeclaredPlugins declared_;
  csi::Volumes volumes_;
  csi::Controller controller_;
  Mounts mounts_;
  // True while a look at the quarantine is planned, so that a second request
  // does not plan another.
  std::atomic<bool> quarantine_is_due_ = false;
  Networks networks_;
  MountRoom room_;
  MountHealths healths_;
  MountWatch watch_;
  NetworkWatch network_watch_;
  MountProber prober_;
  Services services_;
  OperationLog operation_log_;
  PluginLog plugin_log_;
  Operations operations_;
  OwedWatch owed_watch_;
  OwedRetrier owed_;
  VolumeSettler settler_;
  VolumeRestorer restorer_;
  VolumeProber volume_prober_;
  FenceTeller fence_teller_;
  LeaseWatch leases_;
  dbus::PeerDrops drops_;
  const dbus::ApiParts api_;
  dbus::PeerServer peers_;
  std::unique_ptr<dbus::SystemBus> bus_;
  std::uint32_t stuck_told_ = 0;
  std::chrono::steady_clock::time_point busy_at_ =
      std::chrono::steady_clock::now();
  bool cni_garbage_ = false;  // garbage is still to be collected
  bool quit_when_quiet_ = false;
  bool restart_ = false;
  // The number of tidy-ups until mountd tries again to release left anchors,
  // and the number that follows after that try.
  int anchors_in_ = 0;
  int next_anchors_in_ = 1;
};

}  // namespace mountd
