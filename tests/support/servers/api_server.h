// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "dbus/receive/event_loop.h"
#include "dbus/receive/foreign_fds.h"
#include "dbus/transport/peer_server.h"
#include "dbus/transport/system_bus.h"
#include "mountd/watch/fence_teller.h"
#include "mountd/watch/lease_watch.h"
#include "mountd/watch/mount_prober.h"
#include "mountd/watch/mount_watch.h"
#include "mountd/watch/owed_retrier.h"
#include "mountd/watch/volume_prober.h"
#include "mountd/watch/volume_restorer.h"
#include "tests/support/fakes/fake_csi_client.h"
#include "tests/support/fakes/fake_executor.h"

namespace mountd::test {

struct ApiServerOptions {
  Config config;
  dbus::PeerServerOptions peers;
  // Serves $DBUS_SYSTEM_BUS_ADDRESS, too.
  bool system_bus = false;
  std::chrono::milliseconds reconnect{20};
  // Runs when a client calls Reload.
  std::function<Result<std::vector<std::string>>(LiveConfig&)> reload =
      [](LiveConfig&) { return std::vector<std::string>{}; };
  // Runs on the loop's thread when a fence is done, and says by `tell` when the
  // FenceTeller learns of it. `tell` runs on that thread, too.
  std::function<void(std::function<void()> tell)> on_fence =
      [](const std::function<void()>& tell) { tell(); };
};

// Owns a whole mountd in this process, put together as the daemon does it
// (mountd/daemon/daemon.cc). Runs on a thread of its own, with models in place
// of the executors and of mountd-csi. Keeps everything that is on disk in
// `directory`, which must exist.
class ApiServer {
 public:
  ApiServer(const std::string& directory, ApiServerOptions options);
  // Releases every call that the models hold back, and waits for all work.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // Returns "unix:path=…" of the peer-to-peer socket.
  std::string address() const { return "unix:path=" + socket_; }
  const std::string& socket() const { return socket_; }

  // Runs `closure` on the loop's thread, and waits for its end.
  void OnLoop(const std::function<void()>& closure);
  // Runs `closure` on the loop's thread, after all that was posted before.
  void Post(const std::function<void()>& closure) { loop_->Post(closure); }

  // Starts the watch of mounts and the prober of their file systems. The
  // constructor does not start them, because both make plans of their own.
  void WatchMounts();
  // Starts the prober of volumes' conditions, which makes calls of its own.
  void WatchConditions();

  // Sends events to their subscribers on both transports. Runs on the loop's
  // thread.
  csi::VolumeEvents EventsOfVolumes();
  FenceTeller::Ways WaysToTellFences();
  void Send(const dbus::Event& event);
  void SendAll(const std::vector<dbus::Event>& events);
  // Returns which events callers may see.
  const CallerAccess& access() const { return services_.access; }

  exec::FakeExecutor& executor() { return executor_; }
  csi::FakeCsiClient& csi() { return csi_; }
  // Returns the audit's records since the last call, as
  // "<method> <object> <uid> somebody <error>".
  std::vector<std::string> TakeAudited();
  // Returns the operations since the last call that an administrator made with
  // others' objects, as "<method> <uid> others=<uids>".
  std::vector<std::string> TakeUsesOfOthers();
  std::size_t peer_count();
  std::size_t running();

  // Returns all rows of the stores as text. Two texts are equal if no row
  // changed.
  std::string Records();

 private:
  void Recover();
  void Finished(const OperationSummary& summary);
  void MountLost(const MountRecord& record, const std::string& reason);
  void MountHealthChanged(const MountRecord& record, exec::MountHealth health,
                          const std::string& reason);

  const ApiServerOptions options_;
  const std::string socket_;
  exec::FakeExecutor executor_;
  csi::FakeCsiClient csi_{executor_};
  const std::unique_ptr<dbus::EventLoop> loop_;
  // Outlives the parts that keep fds of callers, such as the leases.
  const std::unique_ptr<dbus::ForeignFds> foreign_;
  const std::unique_ptr<store::StateStore> state_;
  const std::unique_ptr<store::BootStore> boot_;
  // The destructor ends the pool and the plugins first, so that no job uses a
  // part that is already destroyed.
  std::unique_ptr<WorkerPool> pool_;
  Strands strands_;
  std::unique_ptr<csi::Plugins> plugins_;
  csi::Volumes volumes_;
  csi::Controller controller_;
  Mounts mounts_;
  Networks networks_;
  MountRoom room_;
  MountHealths healths_;
  MountWatch watch_;
  MountProber prober_;
  LiveConfig live_config_;
  Services services_;
  Operations operations_;
  OwedWatch owed_watch_;
  OwedRetrier owed_;
  VolumeSettler settler_;
  VolumeRestorer restorer_;
  VolumeProber volume_prober_;
  FenceTeller fence_teller_;
  LeaseWatch leases_;
  dbus::PeerDrops drops_;
  std::vector<std::string> audited_;  // the loop's thread only
  std::vector<std::string> reads_;    // the loop's thread only
  const dbus::ApiParts api_;
  std::unique_ptr<dbus::PeerServer> peers_;
  std::unique_ptr<dbus::SystemBus> bus_;
  std::thread thread_;
};

}  // namespace mountd::test
