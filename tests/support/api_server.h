// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "dbus/event_loop.h"
#include "dbus/foreign_fds.h"
#include "dbus/peer_server.h"
#include "dbus/system_bus.h"
#include "mountd/mount_prober.h"
#include "mountd/mount_watch.h"
#include "mountd/owed_retrier.h"
#include "mountd/volume_restorer.h"
#include "tests/support/fake_csi_client.h"
#include "tests/support/fake_executor.h"

namespace mountd::test {

struct ApiServerOptions {
  Config config;
  dbus::PeerServerOptions peers;
  // Also on $DBUS_SYSTEM_BUS_ADDRESS.
  bool system_bus = false;
  std::chrono::milliseconds reconnect{20};
  // What Reload does.
  std::function<Result<std::vector<std::string>>(LiveConfig&)> reload =
      [](LiveConfig&) { return std::vector<std::string>{}; };
};

// mountd as its daemon puts it together (mountd/daemon/daemon.cc), in this
// process, on a thread of its own, with models in place of the executors and of
// mountd-csi. Everything on disk is in `directory`, which exists.
class ApiServer {
 public:
  ApiServer(const std::string& directory, ApiServerOptions options);
  // Lets go whatever the models hold back, and waits for all work.
  ~ApiServer();
  ApiServer(const ApiServer&) = delete;
  ApiServer& operator=(const ApiServer&) = delete;

  // "unix:path=…" of the peer-to-peer socket.
  std::string address() const { return "unix:path=" + socket_; }
  const std::string& socket() const { return socket_; }

  // Runs it on the loop's thread, and waits for it.
  void OnLoop(const std::function<void()>& closure);

  // Notices from now on what becomes of mounts, and of their file systems. Not
  // from the start: that makes plans of its own.
  void WatchMounts();

  // To whom it may concern, on both transports. On the loop's thread.
  csi::VolumeEvents EventsOfVolumes();
  void Send(const dbus::Event& event);

  exec::FakeExecutor& executor() { return executor_; }
  csi::FakeCsiClient& csi() { return csi_; }
  std::size_t peer_count();
  std::size_t running();

  // All that the stores hold, as text; the same if nothing changed.
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
  const std::unique_ptr<store::StateStore> state_;
  const std::unique_ptr<store::BootStore> boot_;
  // Taken down first, so that no job finds anything gone.
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
  Service service_;
  Operations operations_;
  OwedWatch owed_watch_;
  OwedRetrier owed_;
  VolumeSettler settler_;
  VolumeRestorer restorer_;
  dbus::PeerDrops drops_;
  const dbus::ApiParts api_;
  std::unique_ptr<dbus::ForeignFds> foreign_;
  std::unique_ptr<dbus::PeerServer> peers_;
  std::unique_ptr<dbus::SystemBus> bus_;
  std::thread thread_;
};

}  // namespace mountd::test
