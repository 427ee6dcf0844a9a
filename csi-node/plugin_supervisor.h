// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "csi-node/csi_client.h"
#include "csi-node/plugin_status.h"
#include "mountd/base/unique_fd.h"
#include "mountd/config.h"
#include "mountd/exec/executor.h"
#include "mountd/store/state_store.h"

namespace mountd::csi {

// One instance's life, on a thread of its own: connect (through the executor),
// open a channel, probe until ready, fingerprint, then probe on. A hang-up on
// the connection, seen on a dup of its fd, a lost channel, or another socket in
// the place of its own starts over with the next generation; a probe that fails
// only makes it unhealthy.
//
// A socket that is awaited is looked for several times a second, as that costs
// the plugin nothing, for as long as the health timeout; then, and between
// probes of one that is there and not ready, timeouts.probe_starting passes.
class PluginSupervisor {
 public:
  struct Parts {
    const TimeoutsConfig& timeouts;
    exec::Executor& executor;
    CsiClient& client;
    store::StateStore& store;
    std::shared_ptr<std::atomic<std::uint64_t>> generations;
    // Of its tasks; 0: it has none. An error: nobody may listen.
    std::function<Result<std::uint64_t>()> cgroup;
    // Edges of the state, and other fingerprints.
    std::function<void(const PluginInstance&)> on_change;
  };

  // `known`: what it said of itself when it was last asked.
  PluginSupervisor(Parts parts, PluginRecord record, const Fingerprint& known);
  ~PluginSupervisor();  // stops
  PluginSupervisor(const PluginSupervisor&) = delete;
  PluginSupervisor& operator=(const PluginSupervisor&) = delete;

  PluginInstance status() const;
  // Until the first attempt to connect and to ask it is over, well or not, or
  // `deadline` is: before that nothing is known of it.
  void AwaitFirstAttempt(Clock::time_point deadline) const;

  // Why it does not run, for the reason; then looks again.
  void SetObstacle(const std::string& why);
  // Drops the channel and connects anew.
  void Reconnect();
  // Ends the thread: at once, or when the RPC it is in ends (bounded by
  // timeouts.probe_timeout). Called by one thread.
  void Stop();
  // While set, nothing is done in the plugin's directory, which would keep it
  // from being unmounted, or make it again; waits for a plan under way.
  void SetRemoving(bool removing);

 private:
  enum class Wake { kTimeout, kHangUp, kReconnect, kStop };
  enum class Attempt { kReady, kAbsent, kFailed };

  void Run();
  void SetAttempted();
  Attempt ConnectAndFingerprint();
  Result<exec::Executor::PluginConnection> Connect();
  // How long until the next attempt after one that ended so.
  std::chrono::milliseconds PauseAfter(Attempt attempt) const;
  Attempt Failed(Attempt attempt, const std::string& reason);
  RpcResult<void> ReadFingerprint(const ChannelRef& ref);
  void Learn(Fingerprint fingerprint);
  // Probes until it is to stop, to connect anew, or the connection is lost.
  Wake Watch();
  bool WasReplaced();
  Wake Wait(std::chrono::milliseconds timeout, int hang_up_fd);
  void SetState(PluginState state, const std::string& reason);
  exec::PluginSocketPlan SocketPlan() const;
  ChannelRef channel() const;
  std::chrono::milliseconds health_timeout() const;
  Clock::time_point ProbeDeadline() const;

  const Parts parts_;
  mutable std::mutex mutex_;
  PluginInstance status_;
  std::string obstacle_;
  bool stopping_ = false;
  bool reconnect_ = false;
  bool attempted_ = false;
  mutable std::condition_variable first_attempt_;
  std::mutex directory_mutex_;  // held during each plan in the directory
  bool removing_ = false;       // directory_mutex_
  UniqueFd wake_;               // eventfd: stop or reconnect
  // This thread's only, all below.
  UniqueFd connection_;             // dup of the plugin's socket
  std::uint64_t socket_inode_ = 0;  // that it leads to
  bool prepared_ = false;
  bool was_ready_ = false;
  bool learned_ = false;  // the fingerprint has changed
  Clock::time_point awaited_since_;
  Clock::time_point started_;
  std::jthread thread_;
};

}  // namespace mountd::csi
