// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/plugin_supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "mountd/exec/wire.h"

namespace mountd::csi {
namespace {

// Between attempts, doubling from timeouts.probe_starting. A connection that
// lasted longer than the longest pause was a good one: from the start again.
constexpr std::chrono::milliseconds kLongestPause{5'000};

// The plugin's text is shown to operators: one line of it, printable.
std::string OneLine(std::string text) {
  std::replace_if(
      text.begin(), text.end(),
      [](unsigned char c) { return c < 0x20 || c == 0x7f; }, ' ');
  return text;
}

std::string Reason(const RpcError& error) {
  const Error mapped = ToError(error, "", "");
  return OneLine(mapped.Message());
}

}  // namespace

PluginSupervisor::PluginSupervisor(PluginRecord record,
                                   const TimeoutsConfig& timeouts,
                                   exec::Executor& executor, CsiClient& client,
                                   Plugins::OnChange on_change)
    : timeouts_(timeouts),
      executor_(executor),
      client_(client),
      on_change_(std::move(on_change)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  status_.record = std::move(record);
  status_.reason = "waiting for its socket";
  thread_ = std::jthread([this] { Run(); });
}

PluginSupervisor::~PluginSupervisor() { Stop(); }

void PluginSupervisor::Stop() {
  if (!thread_.joinable()) {
    return;
  }
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  eventfd_write(wake_.get(), 1);
  thread_.join();
  client_.Close(channel());
}

PluginInstance PluginSupervisor::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

ChannelRef PluginSupervisor::channel() const {
  const std::lock_guard lock(mutex_);
  return {status_.record.id, status_.generation};
}

bool PluginSupervisor::stopping() const {
  const std::lock_guard lock(mutex_);
  return stopping_;
}

void PluginSupervisor::Reconnect() {
  {
    const std::lock_guard lock(mutex_);
    reconnect_ = true;
  }
  eventfd_write(wake_.get(), 1);
}

void PluginSupervisor::SetRemoving(bool removing) {
  const std::lock_guard lock(directory_mutex_);
  removing_ = removing;
}

Result<void> PluginSupervisor::PrepareDirectory() {
  const std::lock_guard lock(directory_mutex_);
  const std::string plugin = channel().plugin;
  if (removing_) {
    return MakeError(Code::kUnavailable, "prepare", "plugin " + plugin,
                     "is being unregistered");
  }
  MOUNTD_TRY(executor_.PreparePlugin({exec::ToWire(plugin)}));
  return Ok();
}

void PluginSupervisor::SetState(PluginState state, const std::string& reason) {
  PluginInstance changed;
  {
    const std::lock_guard lock(mutex_);
    const bool edge = status_.state != state;
    status_.state = state;
    status_.reason = reason;
    if (!edge) {
      return;
    }
    changed = status_;
  }
  on_change_(changed);
}

Clock::time_point PluginSupervisor::ProbeDeadline() const {
  return Clock::now() + timeouts_.probe_timeout;
}

PluginSupervisor::Wake PluginSupervisor::Wait(std::chrono::milliseconds timeout,
                                              int hang_up_fd) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    std::array<pollfd, 2> entries{
        {{wake_.get(), POLLIN, 0}, {hang_up_fd, POLLRDHUP, 0}}};
    const int ready =
        poll(entries.data(), entries.size(),
             static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    eventfd_t ignored = 0;
    eventfd_read(wake_.get(), &ignored);
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) {
        return Wake::kStop;
      }
      if (std::exchange(reconnect_, false)) {
        return Wake::kReconnect;
      }
    }
    if (ready > 0 && entries[1].revents != 0) {
      return Wake::kHangUp;
    }
    if (ready == 0) {
      return Wake::kTimeout;
    }
  }
}

void PluginSupervisor::Run() {
  std::chrono::milliseconds pause = timeouts_.probe_starting;
  for (;;) {
    const Clock::time_point begun = Clock::now();
    if (ConnectAndFingerprint() && !Watch()) {
      return;
    }
    if (Clock::now() - begun > kLongestPause) {
      pause = timeouts_.probe_starting;
    }
    if (Wait(pause, -1) == Wake::kStop) {
      return;
    }
    pause =
        std::max(std::min(pause * 2, kLongestPause), timeouts_.probe_starting);
  }
}

bool PluginSupervisor::ConnectAndFingerprint() {
  ChannelRef ref;
  bool was_ready = false;
  {
    const std::lock_guard lock(mutex_);
    reconnect_ = false;
    was_ready = status_.state != PluginState::kStarting;
    ref = {status_.record.id, status_.generation};
  }
  connection_.reset();
  if (ref.generation != 0) {
    client_.Close(ref);
  }
  const auto failed = [&](const std::string& reason) {
    SetState(was_ready ? PluginState::kUnhealthy : PluginState::kStarting,
             reason);
    return false;
  };
  // Also after a restart, when nobody else does; and its directory may have
  // been made unusable since, by the plugin itself.
  if (const Result<void> prepared = PrepareDirectory(); !prepared) {
    return failed(prepared.error().Message());
  }
  Result<exec::Executor::PluginConnection> connected =
      executor_.ConnectPlugin({exec::ToWire(ref.plugin)});
  if (!connected) {
    return failed(connected.error().Message());
  }
  connection_.reset(fcntl(connected->socket.get(), F_DUPFD_CLOEXEC, 3));
  {
    const std::lock_guard lock(mutex_);
    ref.generation = ++status_.generation;
  }
  if (const RpcResult<void> opened =
          client_.Open(ref, std::move(connected->socket));
      !opened) {
    return failed(Reason(opened.error()));
  }
  const RpcResult<bool> ready = client_.Probe(ref, ProbeDeadline());
  if (!ready) {
    return failed(Reason(ready.error()));
  }
  if (!*ready) {
    return failed("says that it is not ready");
  }
  if (const RpcResult<void> known = Fingerprint(ref); !known) {
    return failed(Reason(known.error()));
  }
  SetState(PluginState::kHealthy, "");
  return true;
}

RpcResult<void> PluginSupervisor::Fingerprint(const ChannelRef& ref) {
  RpcResult<PluginInfo> info = client_.GetPluginInfo(ref, ProbeDeadline());
  if (!info) {
    return std::move(info).error();
  }
  RpcResult<PluginCapabilities> capabilities =
      client_.GetCapabilities(ref, ProbeDeadline());
  if (!capabilities) {
    return std::move(capabilities).error();
  }
  NodeInfo node;
  if (status().record.type != "controller") {
    RpcResult<NodeInfo> answered = client_.NodeGetInfo(ref, ProbeDeadline());
    if (!answered) {
      return std::move(answered).error();
    }
    if (answered->node_id.empty()) {
      return RpcError{RpcCode::kInternal, "the plugin has no node id"};
    }
    node = std::move(*answered);
  }
  const std::lock_guard lock(mutex_);
  status_.info = std::move(*info);
  status_.capabilities = std::move(*capabilities);
  status_.node = std::move(node);
  return {};
}

bool PluginSupervisor::Watch() {
  for (;;) {
    switch (Wait(status().state == PluginState::kHealthy
                     ? timeouts_.probe_ready
                     : timeouts_.probe_starting,
                 connection_.get())) {
      case Wake::kStop:
        return false;
      case Wake::kHangUp:
        SetState(PluginState::kUnhealthy, "closed its connection");
        return true;
      case Wake::kReconnect:
        return true;
      case Wake::kTimeout:
        break;
    }
    const RpcResult<bool> ready = client_.Probe(channel(), ProbeDeadline());
    if (ready && *ready) {
      SetState(PluginState::kHealthy, "");
    } else {
      SetState(PluginState::kUnhealthy,
               ready ? "says that it is not ready" : Reason(ready.error()));
      if (!ready && ready.error().code == RpcCode::kUnavailable) {
        return true;  // a channel that says so never comes back
      }
    }
  }
}

}  // namespace mountd::csi
