// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "csi-node/plugins.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi {

// One plugin's life, on a thread of its own: connect (through the executor),
// open a channel, probe until ready, fingerprint, then probe on. A hang-up on
// the connection, seen on a dup of its fd, or a lost channel starts over with
// the next generation; a probe that fails only makes it unhealthy.
class PluginSupervisor {
 public:
  PluginSupervisor(PluginRecord record, const TimeoutsConfig& timeouts,
                   exec::Executor& executor, CsiClient& client,
                   Plugins::OnChange on_change);
  ~PluginSupervisor();  // stops
  PluginSupervisor(const PluginSupervisor&) = delete;
  PluginSupervisor& operator=(const PluginSupervisor&) = delete;

  PluginInstance status() const;
  ChannelRef channel() const;

  // Drops the channel and connects anew.
  void Reconnect();
  // Ends the thread: at once, or when the RPC it is in ends (bounded by
  // timeouts.probe_timeout). Called by one thread.
  void Stop();
  // While set, the plugin's directory is not made again; waits for a making
  // under way.
  void SetRemoving(bool removing);

 private:
  enum class Wake { kTimeout, kHangUp, kReconnect, kStop };

  void Run();
  bool ConnectAndFingerprint();
  Result<void> PrepareDirectory();
  RpcResult<void> Fingerprint(const ChannelRef& ref);
  // Probes until the connection is lost; answers whether to go on at all.
  bool Watch();
  Wake Wait(std::chrono::milliseconds timeout, int hang_up_fd);
  void SetState(PluginState state, const std::string& reason);
  Clock::time_point ProbeDeadline() const;
  bool stopping() const;

  const TimeoutsConfig& timeouts_;
  exec::Executor& executor_;
  CsiClient& client_;
  const Plugins::OnChange on_change_;
  mutable std::mutex mutex_;
  PluginInstance status_;
  bool stopping_ = false;
  bool reconnect_ = false;
  std::mutex directory_mutex_;  // held while the directory is made
  bool removing_ = false;       // directory_mutex_
  UniqueFd wake_;               // eventfd: stop or reconnect
  UniqueFd connection_;  // dup of the plugin's socket; this thread's only
  std::jthread thread_;
};

}  // namespace mountd::csi
