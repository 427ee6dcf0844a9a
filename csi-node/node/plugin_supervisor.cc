// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/plugin_supervisor.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "csi-node/node/plugin_events.h"
#include "mountd/base/wall_clock.h"
#include "mountd/plan/wire.h"

namespace mountd::csi {
namespace {

constexpr std::chrono::milliseconds kLookPause{200};
// The least pause between two questions for the NodeInfo. Without it a caller
// could cause a question by each call that fails.
constexpr std::chrono::milliseconds kNodeInfoPause{1000};
// So many pauses between probes of a healthy plugin are one pause between two
// questions for the NodeInfo: five minutes by default.
constexpr int kProbesPerNodeInfo = 10;

// Makes the plugin's text one printable line, because operators see it.
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

std::string TextOf(std::chrono::milliseconds time) {
  return time.count() % 1000 == 0 ? std::to_string(time.count() / 1000) + " s"
                                  : std::to_string(time.count()) + " ms";
}

}  // namespace

PluginSupervisor::PluginSupervisor(Parts parts, PluginRecord record,
                                   const Fingerprint& known,
                                   std::vector<std::string> former_node_ids)
    : parts_(std::move(parts)),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      awaited_since_(Clock::now()),
      started_(awaited_since_) {
  static_cast<Fingerprint&>(status_) = known;
  status_.record = std::move(record);
  status_.former_node_ids = std::move(former_node_ids);
  status_.reason = "mountd waits for its socket";
  status_.updated_us = NowMicroseconds();
  told_ = status_;
  try {
    thread_ = std::jthread([this] { Run(); });
  } catch (const std::system_error&) {
    // A missing thread does not end mountd, because a caller could otherwise
    // end mountd by registering too many plugins.
    status_.state = PluginState::kUnhealthy;
    status_.reason =
        "mountd can have no thread for it; raise TasksMax= or pids.max, then "
        "unregister the plugin and register it again";
    attempted_ = true;
  }
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
  // Closes the channel after the thread has ended, because the thread may open
  // another one.
  parts_.client.Close(channel());
}

PluginInstance PluginSupervisor::status() const {
  const std::lock_guard lock(mutex_);
  return status_;
}

void PluginSupervisor::AwaitFirstAttempt(Clock::time_point deadline) const {
  std::unique_lock lock(mutex_);
  first_attempt_.wait_until(lock, deadline, [this] { return attempted_; });
}

ChannelRef PluginSupervisor::channel() const {
  const std::lock_guard lock(mutex_);
  return {status_.record.id, status_.generation};
}

std::chrono::milliseconds PluginSupervisor::health_timeout() const {
  const std::lock_guard lock(mutex_);
  return status_.record.health_timeout_ms == 0
             ? parts_.timeouts.plugin_health
             : std::chrono::milliseconds(status_.record.health_timeout_ms);
}

void PluginSupervisor::SetObstacle(const std::string& why) {
  {
    const std::lock_guard lock(mutex_);
    if (obstacle_ == why) {
      return;
    }
    obstacle_ = why;
  }
  // Does not disturb a healthy connection.
  if (status().state != PluginState::kHealthy) {
    Reconnect();
  }
}

void PluginSupervisor::Reconnect() {
  {
    const std::lock_guard lock(mutex_);
    reconnect_ = true;
  }
  eventfd_write(wake_.get(), 1);
}

void PluginSupervisor::DoubtNodeInfo() {
  {
    const std::lock_guard lock(mutex_);
    doubts_node_info_ = true;
  }
  eventfd_write(wake_.get(), 1);
}

void PluginSupervisor::SetRemoving(bool removing) {
  const std::lock_guard lock(directory_mutex_);
  removing_ = removing;
}

// Reports a change of the state, and a new fingerprint even if the state is as
// before.
void PluginSupervisor::SetState(PluginState state, const std::string& reason) {
  PluginInstance before;
  PluginInstance changed;
  {
    const std::lock_guard lock(mutex_);
    const bool has_learned = std::exchange(learned_, false);
    const bool told = status_.state != state || has_learned;
    status_.state = state;
    status_.reason = reason;
    if (!told) {
      return;
    }
    status_.updated_us = NowMicroseconds();
    changed = status_;
    before = std::exchange(told_, changed);
  }
  parts_.on_change(before, changed);
}

Clock::time_point PluginSupervisor::ProbeDeadline() const {
  return Clock::now() + parts_.timeouts.probe_timeout;
}

exec::PluginSocketPlan PluginSupervisor::SocketPlan() const {
  const std::lock_guard lock(mutex_);
  exec::PluginSocketPlan plan;
  plan.plugin = exec::ToWire(status_.record.id);
  plan.instance = status_.key().hex();
  return plan;
}

PluginSupervisor::Wake PluginSupervisor::Wait(std::chrono::milliseconds timeout,
                                              int hang_up_fd) {
  const auto deadline = Clock::now() + timeout;
  for (;;) {
    // Rounds up, so that poll does not end before the deadline.
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    // POLLRDHUP and not POLLIN, because mountd-csi reads what the plugin sends
    // on this connection.
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
      // Without a connection there is nothing to ask. The next connection
      // brings the NodeInfo.
      if (std::exchange(doubts_node_info_, false) && hang_up_fd >= 0) {
        return Wake::kNodeInfo;
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

void PluginSupervisor::SetAttempted() {
  {
    const std::lock_guard lock(mutex_);
    if (std::exchange(attempted_, true)) {
      return;
    }
  }
  first_attempt_.notify_all();
}

void PluginSupervisor::Run() {
  for (;;) {
    const Attempt attempt = ConnectAndFingerprint();
    SetAttempted();
    std::chrono::milliseconds pause = PauseAfter(attempt);
    if (attempt == Attempt::kReady) {
      awaited_since_ = Clock::now();
      const Wake ended = Watch();
      if (ended == Wake::kStop) {
        return;
      }
      const auto lasted = Clock::now() - awaited_since_;
      awaited_since_ = Clock::now();
      // The plugin may have made its directory unusable meanwhile.
      prepared_ = false;
      if (ended == Wake::kReconnect) {
        continue;
      }
      // Waits longer if the connection did not last, so that a plugin that
      // hangs up at once is not polled fast.
      pause = lasted > parts_.timeouts.probe_starting
                  ? std::min(kLookPause, parts_.timeouts.probe_starting)
                  : parts_.timeouts.probe_starting;
    }
    if (Wait(pause, -1) == Wake::kStop) {
      return;
    }
  }
}

std::chrono::milliseconds PluginSupervisor::PauseAfter(Attempt attempt) const {
  const Clock::time_point now = Clock::now();
  const bool awaited = now - awaited_since_ < health_timeout();
  const std::chrono::milliseconds pause =
      attempt == Attempt::kAbsent && awaited
          ? std::min(kLookPause, parts_.timeouts.probe_starting)
          : parts_.timeouts.probe_starting;
  // Wakes at the end of the health timeout, because the state changes there.
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(
      started_ + health_timeout() - now);
  return !was_ready_ && left.count() > 0 ? std::min(pause, left) : pause;
}

PluginSupervisor::Attempt PluginSupervisor::Failed(Attempt attempt,
                                                   const std::string& reason) {
  const bool starting = status().state == PluginState::kStarting;
  if (was_ready_) {
    SetState(PluginState::kUnhealthy, reason);
  } else if (starting && Clock::now() - started_ < health_timeout()) {
    SetState(PluginState::kStarting, reason);
  } else {
    SetState(PluginState::kUnhealthy, "did not become healthy within " +
                                          TextOf(health_timeout()) + ": " +
                                          reason);
  }
  return attempt;
}

Result<exec::PluginExecutor::PluginConnection> PluginSupervisor::Connect() {
  exec::PluginSocketPlan plan = SocketPlan();
  MOUNTD_ASSIGN(plan.cgroup, parts_.cgroup());
  const std::lock_guard lock(directory_mutex_);
  if (removing_) {
    return MakeError(Code::kUnavailable, "connect",
                     "plugin " + channel().plugin, "is being unregistered");
  }
  // Prepares the directory again after a restart of mountd, because no Register
  // does so then, and after a failure, because the plugin may have made the
  // directory unusable.
  if (!prepared_) {
    MOUNTD_TRY(parts_.executor.PreparePlugin({plan.plugin}));
    prepared_ = true;
  }
  Result<exec::PluginExecutor::PluginConnection> connected =
      parts_.executor.ConnectPlugin(plan);
  // Unavailable only means that nobody listens. After any other error the next
  // attempt prepares the directory again.
  prepared_ = connected || connected.error().code == Code::kUnavailable;
  return connected;
}

PluginSupervisor::Attempt PluginSupervisor::ConnectAndFingerprint() {
  ChannelRef ref;
  {
    const std::lock_guard lock(mutex_);
    reconnect_ = false;
    ref = {status_.record.id, status_.generation};
  }
  connection_.reset();
  if (ref.generation != 0) {
    parts_.client.Close(ref);
  }
  Result<exec::PluginExecutor::PluginConnection> connected = Connect();
  if (!connected) {
    const bool absent = connected.error().code == Code::kUnavailable;
    std::string why;
    {
      const std::lock_guard lock(mutex_);
      why = obstacle_;
    }
    return Failed(absent ? Attempt::kAbsent : Attempt::kFailed,
                  absent && !why.empty() ? why : connected.error().Message());
  }
  // Watches a duplicate for a hang-up, because mountd-csi gets the socket.
  connection_.reset(fcntl(connected->socket.get(), F_DUPFD_CLOEXEC, 3));
  socket_inode_ = connected->peer.socket_inode;
  ref.generation = parts_.generations->fetch_add(1) + 1;
  {
    const std::lock_guard lock(mutex_);
    status_.generation = ref.generation;
  }
  if (const RpcResult<void> opened =
          parts_.client.Open(ref, std::move(connected->socket));
      !opened) {
    return Failed(Attempt::kFailed, Reason(opened.error()));
  }
  return LearnReady(ref);
}

PluginSupervisor::Attempt PluginSupervisor::LearnReady(const ChannelRef& ref) {
  const RpcResult<bool> ready = parts_.client.Probe(ref, ProbeDeadline());
  if (!ready) {
    return Failed(Attempt::kFailed, Reason(ready.error()));
  }
  if (!*ready) {
    return Failed(Attempt::kFailed, "reports that it is not ready");
  }
  if (const RpcResult<void> known = ReadFingerprint(ref); !known) {
    return Failed(Attempt::kFailed, Reason(known.error()));
  }
  const PluginInstance now = status();
  if (now.serves_node() && now.node.node_id.empty()) {
    // The instance is unhealthy at once and not "starting", because waiting
    // would not give the plugin a node id.
    SetState(PluginState::kUnhealthy, "it has no node id");
    return Attempt::kFailed;
  }
  was_ready_ = true;
  SetState(PluginState::kHealthy, concern_);
  return Attempt::kReady;
}

RpcResult<void> PluginSupervisor::ReadFingerprint(const ChannelRef& ref) {
  Fingerprint now;
  RpcResult<PluginInfo> info =
      parts_.client.GetPluginInfo(ref, ProbeDeadline());
  if (!info) {
    return std::move(info).error();
  }
  now.info = *std::move(info);
  RpcResult<PluginCapabilities> capabilities =
      parts_.client.GetCapabilities(ref, ProbeDeadline());
  if (!capabilities) {
    return std::move(capabilities).error();
  }
  now.capabilities = *std::move(capabilities);
  if (status().serves_node()) {
    RpcResult<NodeInfo> node = parts_.client.NodeGetInfo(ref, ProbeDeadline());
    if (!node) {
      return std::move(node).error();
    }
    now.node = *std::move(node);
    node_info_asked_ = Clock::now();
    node_info_due_ = NextNodeInfo();
  }
  Learn(std::move(now));
  return {};
}

Clock::time_point PluginSupervisor::NextNodeInfo() const {
  return Clock::now() + kProbesPerNodeInfo * parts_.timeouts.probe_ready;
}

// Keeps the known NodeInfo after a failure, because the probes find out whether
// the plugin has gone. An answer without a node id is a failure, too.
void PluginSupervisor::AskNodeInfo() {
  node_info_asked_ = Clock::now();
  RpcResult<NodeInfo> node =
      parts_.client.NodeGetInfo(channel(), ProbeDeadline());
  node_info_due_ = NextNodeInfo();
  const PluginInstance known = status();
  if (!node || node->node_id.empty() || known.state != PluginState::kHealthy) {
    return;
  }
  Fingerprint now = known;
  now.node = *std::move(node);
  Learn(std::move(now));
  SetState(PluginState::kHealthy, concern_);
}

PluginSupervisor::Wake PluginSupervisor::AwaitProbe() {
  const PluginInstance known = status();
  const bool healthy = known.state == PluginState::kHealthy;
  const bool asks = healthy && known.serves_node();
  const Clock::time_point probe =
      Clock::now() +
      (healthy ? parts_.timeouts.probe_ready : parts_.timeouts.probe_starting);
  for (;;) {
    if (asks && node_info_due_ <= Clock::now()) {
      AskNodeInfo();
    }
    const Clock::time_point next =
        asks ? std::min(probe, node_info_due_) : probe;
    const Wake wake =
        Wait(std::chrono::ceil<std::chrono::milliseconds>(next - Clock::now()),
             connection_.get());
    if (wake == Wake::kNodeInfo) {
      node_info_due_ =
          std::min(node_info_due_, node_info_asked_ + kNodeInfoPause);
    } else if (wake != Wake::kTimeout || Clock::now() >= probe) {
      return wake;
    }
  }
}

void PluginSupervisor::Learn(Fingerprint fingerprint) {
  std::uint64_t serial = 0;
  std::vector<std::string> former_node_ids;
  {
    const std::lock_guard lock(mutex_);
    if (static_cast<const Fingerprint&>(status_) == fingerprint) {
      return;
    }
    if (HasOtherNodeId(status_.node, fingerprint.node)) {
      concern_ = ConcernOf(status_.node, fingerprint.node);
      auto& former = status_.former_node_ids;
      // Keeps each id once, because an id that comes and goes must not push out
      // the other ids.
      std::erase(former, status_.node.node_id);
      std::erase(former, fingerprint.node.node_id);
      former.insert(former.begin(), status_.node.node_id);
      former.resize(
          std::min(former.size(), PluginInstance::kMostFormerNodeIds));
    }
    static_cast<Fingerprint&>(status_) = fingerprint;
    learned_ = true;
    serial = status_.record.serial;
    former_node_ids = status_.former_node_ids;
  }
  // The next start of mountd reads the fingerprint again if this fails, and
  // then finds again that the node id is another one.
  IgnoreBecauseBestEffort(parts_.store.plugins.SetFingerprint(
      serial, fingerprint, former_node_ids));
}

// True if somebody else listens at the socket's path now. The old connection
// may well live on, and nothing else would connect to the new listener.
bool PluginSupervisor::WasReplaced() {
  const std::lock_guard lock(directory_mutex_);
  if (removing_) {
    return false;
  }
  const Result<exec::PluginReply> now =
      parts_.executor.InspectPluginSocket(SocketPlan());
  return now && now->socket_inode != 0 && now->socket_inode != socket_inode_;
}

PluginSupervisor::Wake PluginSupervisor::Watch() {
  for (;;) {
    const Wake wake = AwaitProbe();
    if (wake == Wake::kHangUp) {
      SetState(PluginState::kUnhealthy, "closed its connection");
    }
    if (wake != Wake::kTimeout) {
      return wake;
    }
    if (WasReplaced()) {
      return Wake::kReconnect;
    }
    const RpcResult<bool> ready =
        parts_.client.Probe(channel(), ProbeDeadline());
    if (ready && *ready) {
      SetState(PluginState::kHealthy, concern_);
    } else {
      SetState(PluginState::kUnhealthy,
               ready ? "reports that it is not ready" : Reason(ready.error()));
      if (!ready && ready.error().code == RpcCode::kUnavailable) {
        return Wake::kHangUp;  // such a channel never recovers
      }
    }
  }
}

}  // namespace mountd::csi
