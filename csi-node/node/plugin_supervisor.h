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

#include "csi-node/node/plugin_status.h"
#include "csi-node/types/csi_client.h"
#include "mountd/base/unique_fd.h"
#include "mountd/config/config.h"
#include "mountd/plan/plugin_executor.h"
#include "mountd/store/state_store.h"

namespace mountd::csi {

// Owns one instance's life, on a thread of its own: connects (through the
// executor), opens a channel, probes until the plugin is ready, reads the
// fingerprint, then keeps probing. Starts over with the next generation after a
// hang-up, which it sees on a dup of the connection's fd, after a lost channel,
// or if another socket is in the place of its own. A failed probe only makes
// the instance unhealthy.
//
// Looks for an absent socket several times a second, as long as the health
// timeout lasts, because looking costs the plugin nothing. After that, and
// between probes of a plugin that is there and not ready, waits
// timeouts.probe_starting.
class PluginSupervisor {
 public:
  struct Parts {
    const TimeoutsConfig& timeouts;
    exec::PluginExecutor& executor;
    CsiClient& client;
    store::StateStore& store;
    std::shared_ptr<std::atomic<std::uint64_t>> generations;
    // Returns the cgroup of the plugin's tasks; 0: they have none. An error
    // means that nobody may listen on the socket.
    std::function<Result<std::uint64_t>()> cgroup;
    // Called when the state or the fingerprint has changed since the last call.
    std::function<void(const PluginInstance& before, const PluginInstance& now)>
        on_change;
  };

  // `known` is the fingerprint from the last connection.
  PluginSupervisor(Parts parts, PluginRecord record, const Fingerprint& known,
                   std::vector<std::string> former_node_ids);
  ~PluginSupervisor();  // stops
  PluginSupervisor(const PluginSupervisor&) = delete;
  PluginSupervisor& operator=(const PluginSupervisor&) = delete;

  PluginInstance status() const;
  // Waits until the first attempt to connect and to read the fingerprint is
  // over, with any outcome, or until `deadline`. Before that mountd knows
  // nothing about the plugin.
  void AwaitFirstAttempt(Clock::time_point deadline) const;

  // Sets why the plugin does not run, for its reason; then looks again.
  void SetObstacle(const std::string& why);
  // Closes the channel and connects again.
  void Reconnect();
  // Asks the plugin for its NodeInfo soon, because an answer of the plugin
  // suggests that mountd's NodeInfo is old. Asks at most once a second.
  void DoubtNodeInfo();
  // Ends the thread: at once, or when its current RPC ends (bounded by
  // timeouts.probe_timeout). Only one thread may call this.
  void Stop();
  // While set, this object does nothing in the plugin's directory, because that
  // would keep the directory from being unmounted, or make it again. Waits for
  // a plan under way.
  void SetRemoving(bool removing);

 private:
  enum class Wake { kTimeout, kHangUp, kReconnect, kNodeInfo, kStop };
  enum class Attempt { kReady, kAbsent, kFailed };

  void Run();
  void SetAttempted();
  Attempt ConnectAndFingerprint();
  // Probes the connected plugin, and reads its fingerprint.
  Attempt LearnReady(const ChannelRef& ref);
  Result<exec::PluginExecutor::PluginConnection> Connect();
  // Returns the time until the next attempt.
  std::chrono::milliseconds PauseAfter(Attempt attempt) const;
  Attempt Failed(Attempt attempt, const std::string& reason);
  RpcResult<void> ReadFingerprint(const ChannelRef& ref);
  void Learn(Fingerprint fingerprint);
  // Asks for the NodeInfo again, and reports a change.
  void AskNodeInfo();
  Clock::time_point NextNodeInfo() const;
  // Probes until Stop, Reconnect, or the loss of the connection.
  Wake Watch();
  // Waits for the next probe; asks for the NodeInfo in between when it is due.
  Wake AwaitProbe();
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
  bool doubts_node_info_ = false;
  bool attempted_ = false;
  PluginInstance told_;  // as of the last on_change
  mutable std::condition_variable first_attempt_;
  std::mutex directory_mutex_;  // held during each plan in the directory
  bool removing_ = false;       // directory_mutex_
  UniqueFd wake_;               // eventfd: stop or reconnect
  // Only the thread uses the members below.
  UniqueFd connection_;             // dup of the plugin's socket
  std::uint64_t socket_inode_ = 0;  // the inode of that socket
  bool prepared_ = false;
  bool was_ready_ = false;
  bool learned_ = false;  // the fingerprint has changed
  // Why a healthy instance needs an operator; "": it does not.
  std::string concern_;
  Clock::time_point node_info_asked_;
  Clock::time_point node_info_due_;
  Clock::time_point awaited_since_;
  Clock::time_point started_;
  std::jthread thread_;
};

}  // namespace mountd::csi
