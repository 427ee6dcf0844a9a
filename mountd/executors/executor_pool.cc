// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/executors/executor_pool.h"

#include <linux/sockios.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "mountd/base/current_user.h"
#include "mountd/base/fd_message.h"
#include "mountd/base/operation_trace.h"
#include "mountd/base/unix_socket.h"
#include "mountd/plan/plan_error.h"
#include "mountd/plan/plan_kinds.h"
#include "mountd/plan/request_size.h"

namespace mountd::exec {
namespace {

using Clock = std::chrono::steady_clock;

std::string TextOf(const WireName& name) { return std::string(name.view()); }

std::string VolumeOf(const WireName& plugin,
                     const std::array<char, VolumeKey::kHexDigits>& volume) {
  return "volume " + TextOf(plugin) + "/" +
         std::string(volume.data(), volume.size());
}

std::string TargetOf(const TargetPlan& target) {
  return "target " + TextOf(target.allocation) + "/" + TextOf(target.task) +
         "/" + TextOf(target.name);
}

std::string SourceOf(const SourcePlan& source) {
  switch (source.kind) {
    case SourceKind::kHostVolume:
      return "host volume " + TextOf(source.host_volume);
    case SourceKind::kPublishedVolume:
      return VolumeOf(source.plugin, source.volume);
    case SourceKind::kFilesystem:
      return "file system " + TextOf(source.filesystem);
    case SourceKind::kTmpfs:
    case SourceKind::kDirectory:  // known by its fd alone
      break;
  }
  return "";
}

// Names the object on which the plan may hang. The next plan on the same object
// would hang too. "" if nothing distinguishes the object from others.
std::string ObjectOf(const Request& request) {
  const PlanBody& body = request.body;
  switch (request.kind) {
    case PlanKind::kAttach:
      return SourceOf(body.attach.source);
    case PlanKind::kOpenTree:
      return SourceOf(body.open_tree.source);
    case PlanKind::kReleaseAnchor:
      return (body.anchor.kind == SourceKind::kFilesystem ? "file system "
                                                          : "host volume ") +
             TextOf(body.anchor.source);
    case PlanKind::kDetach:
      return TargetOf(body.detach.target);
    case PlanKind::kInspectTarget:
      return TargetOf(body.target);
    case PlanKind::kRemoveAllocation:
      return "allocation " + TextOf(body.allocation.allocation);
    case PlanKind::kPreparePlugin:
    case PlanKind::kRemovePlugin:
    case PlanKind::kStartPlugin:
    case PlanKind::kStopPlugin:
      return "plugin " + TextOf(body.plugin.plugin);
    case PlanKind::kConnectPlugin:
    case PlanKind::kInspectPluginSocket:
    case PlanKind::kRemovePluginSocket:
      return "plugin " + TextOf(body.plugin_socket.plugin);
    case PlanKind::kPrepareVolumeDir:
    case PlanKind::kInspectVolumeDir:
    case PlanKind::kRemoveVolumeDir:
      return VolumeOf(body.volume_dir.plugin, body.volume_dir.volume);
    case PlanKind::kRunCni:
      return "CNI network " + TextOf(body.cni.network);
    case PlanKind::kStopTasks:
      return "the tasks of cgroup " + std::to_string(body.stop_tasks.cgroup);
    case PlanKind::kFindHolders:
    case PlanKind::kFindProcesses:
    case PlanKind::kFindCopies:
      // Each search of a user looks at the same processes, so the next search
      // would hang on the same process. Searches of other users do not, because
      // only a user's own processes can keep the search waiting.
      return "the search of user " + std::to_string(CurrentUser::Get());
    default:
      return "";
  }
}

// Waits until `fd` can be read. DeadlineExceeded if that takes too long.
Result<void> AwaitReadable(int fd, Clock::time_point deadline) {
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd entry{fd, POLLIN, 0};
    const int ready = poll(
        &entry, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) {
      return Ok();
    }
    if (ready == 0) {
      return MakeError(
          Code::kDeadlineExceeded, "plan", "executor",
          "did not answer in time, so mountd abandoned it; call again");
    }
    if (errno != EINTR) {
      return ErrnoError(errno, "poll", "executor");
    }
  }
}

Result<void> SendRequest(int socket, const Request& request,
                         std::span<const int> fds) {
  // MSG_DONTWAIT, because an executor that reads nothing must not block mountd.
  const std::size_t size = BytesOf(request.kind);
  const auto sent =
      SendWithFds(socket, std::as_bytes(std::span(&request, 1)).first(size),
                  fds, MSG_DONTWAIT);
  return sent && *sent == size
             ? Ok()
             : Result<void>(
                   WithAway(Away::kRestarting,
                            MakeError(Code::kUnavailable, "plan", "executor",
                                      "closed the connection; call again")));
}

}  // namespace

ExecutorPool::ExecutorPool(Connector connect, Options options, Ahead ahead)
    : connect_(std::move(connect)),
      options_(options),
      // One user's plans on one object take at most this number of executors.
      // If the object hangs, the first of these plans is abandoned at its
      // deadline, and mountd then refuses more plans on the object.
      mounts_(WithSpare(options.mount_lanes, options.mount_lanes)),
      // One plan at a time, because rtnetlink is one queue in the kernel
      // anyway.
      networks_({.width = 1}),
      // No bound for one object, because a runner of CNI's plugins ends by
      // itself.
      cni_(WithSpare(options.cni_lanes, ExecutorLane::kUnlimited)),
      cni_ends_(WithSpare(options.cni_lanes, ExecutorLane::kUnlimited)),
      searches_({.width = 2, .of_user = 1}),
      trees_({.width = 4, .of_user = 2}),
      probes_({.width = 1}) {
  mounts_.Add(std::move(ahead.mounts));
  networks_.Add(std::move(ahead.networks));
}

// Returns options of a lane that does not count its slow plans.
ExecutorLane::Options ExecutorPool::WithSpare(std::uint32_t width,
                                              std::uint32_t on_object) const {
  return {.width = width,
          .slow = options_.slow,
          .spare = options_.max_stuck_in_all,
          .on_object = on_object,
          .slow_of_user = options_.max_stuck,
          .stuck_of = [this](std::uint32_t user) {
            return static_cast<std::uint32_t>(StuckOf(user));
          }};
}

ExecutorPool::Ahead ExecutorPool::StartAhead(const Connector& connect) {
  const auto start = [&] {
    Result<UniqueFd> connection = connect();
    return connection ? *std::move(connection) : UniqueFd();
  };
  Ahead ahead;
  ahead.mounts = start();
  ahead.networks = start();
  return ahead;
}

ExecutorPool::~ExecutorPool() = default;

ExecutorPool::Connector ExecutorPool::ConnectTo(std::string path) {
  return [path = std::move(path)]() -> Result<UniqueFd> {
    // Non-blocking, because otherwise connect(2) would wait while the backlog
    // is full. Now it fails with EAGAIN.
    UniqueFd connection(
        socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!connection.valid()) {
      return ErrnoError(errno, "socket", path);
    }
    if (const int err = ConnectUnix(connection.get(), path); err != 0) {
      return ErrnoError(err, "connect", path);
    }
    return connection;
  };
}

std::uint32_t ExecutorPool::stuck() const {
  const std::lock_guard lock(mutex_);
  std::erase_if(abandoned_, [](const Abandoned& one) {
    // POLLHUP, the only event that poll(2) reports here, means that the process
    // ended.
    pollfd entry{one.connection.get(), 0, 0};
    return poll(&entry, 1, 0) != 0;
  });
  return static_cast<std::uint32_t>(abandoned_.size());
}

// Also counts executors that have ended since the last call of stuck().
std::size_t ExecutorPool::StuckOf(std::uint32_t user) const {
  const std::lock_guard lock(mutex_);
  return static_cast<std::size_t>(std::count_if(
      abandoned_.begin(), abandoned_.end(),
      [&](const Abandoned& one) { return one.key.user == user; }));
}

Result<void> ExecutorPool::CheckStuck(const ExecutorLane::Key& key) const {
  // Count first, because stuck() forgets the executors that have ended.
  const std::uint32_t count = stuck();
  if (count >= options_.max_stuck_in_all) {
    return MakeError(Code::kUnavailable, "plan", "executor",
                     std::to_string(count) +
                         " executors hang in the kernel, which is the limit; "
                         "see mountctl doctor");
  }
  const std::size_t of_user = StuckOf(key.user);
  if (of_user >= options_.max_stuck) {
    return MakeError(Code::kUnavailable, "plan", "executor",
                     std::to_string(of_user) +
                         " executors hang in the kernel for this user, which "
                         "is the limit; see mountctl doctor");
  }
  const std::lock_guard lock(mutex_);
  const bool held =
      !key.object.empty() && std::any_of(abandoned_.begin(), abandoned_.end(),
                                         [&](const Abandoned& one) {
                                           return one.key.object == key.object;
                                         });
  return held ? MakeError(Code::kUnavailable, "plan", key.object,
                          "an earlier plan for this object still hangs in the "
                          "kernel; see mountctl doctor")
              : Ok();
}

// Makes the kernel refuse the executor's answer from now on, so that no plan
// counts as done for the executor and as abandoned for mountd. An executor that
// has not read the request yet sees the extra byte and does not begin. In that
// case nothing hangs on the plan's object, so the record of the plan gets no
// object. Keeps the sending direction open, because otherwise it would look as
// if the process had ended (stuck()).
void ExecutorPool::Abandon(UniqueFd connection, ExecutorLane::Key key) {
  shutdown(connection.get(), SHUT_RD);
  IgnoreBecauseBestEffort(SendWithFds(
      connection.get(), std::array<std::byte, 1>{}, {}, MSG_DONTWAIT));
  int unread = 0;
  const bool begun = ioctl(connection.get(), SIOCOUTQ, &unread) != 0 ||
                     unread < static_cast<int>(kUsualRequestBytes);
  if (!begun) {
    key.object.clear();
  }
  const std::lock_guard lock(mutex_);
  abandoned_.push_back({std::move(connection), std::move(key)});
}

void ExecutorPool::CloseIdle() {
  mounts_.CloseIdle();
  networks_.CloseIdle();
  cni_.CloseIdle(0);
  cni_ends_.CloseIdle(0);
  searches_.CloseIdle();
  trees_.CloseIdle();
  probes_.CloseIdle(0);  // no caller waits for a probe
}

void ExecutorPool::Renew() {
  for (ExecutorLane* lane : {&mounts_, &networks_, &cni_, &cni_ends_,
                             &searches_, &trees_, &probes_}) {
    lane->Renew();
  }
}

std::chrono::milliseconds ExecutorPool::DeadlineOf(PlanKind kind) const {
  return kind == PlanKind::kRunCni ? options_.cni_deadline : options_.deadline;
}

Result<ExecutorPool::Answer> ExecutorPool::Run(ExecutorLane& lane,
                                               const Request& request,
                                               std::span<const int> fds) {
  StepSpan step(PlanName(request.kind), Span::Kind::kClient);
  const std::optional<TraceParent> parent = step.parent();
  if (!parent) {
    return RunInTurn(lane, request, fds);
  }
  Request traced = request;
  traced.trace = {parent->trace_id, parent->span_id};
  Result<Answer> answer = RunInTurn(lane, traced, fds);
  if (!answer) {
    step.Failed(answer.error().code);
  }
  return answer;
}

Result<ExecutorPool::Answer> ExecutorPool::Exchange(
    UniqueFd& connection, const Request& request, std::span<const int> fds,
    Clock::time_point deadline) const {
  // Replaces an idle executor that was killed in the meantime, before it sends
  // anything. So the plan does not fail because of that death.
  pollfd entry{connection.get(), POLLIN, 0};
  if (connection.valid() && poll(&entry, 1, 0) != 0) {
    connection.reset();
  }
  if (!connection.valid()) {
    MOUNTD_ASSIGN(connection, connect_());
  }
  MOUNTD_TRY(SendRequest(connection.get(), request, fds));
  MOUNTD_TRY(AwaitReadable(connection.get(), deadline));
  Answer answer;
  Result<Received, int> received = ReceiveWithFds(
      connection.get(), std::as_writable_bytes(std::span(&answer.reply, 1)), 1);
  if (!received || received->size != sizeof(Reply) ||
      answer.reply.version != kProtocolVersion) {
    return WithAway(Away::kRestarting,
                    MakeError(Code::kUnavailable, "plan", "executor",
                              "ended or is of another version; call again"));
  }
  if (!received->fds.empty()) {
    answer.fd = std::move(received->fds.front());
  }
  return answer;
}

Result<ExecutorPool::Answer> ExecutorPool::RunInTurn(ExecutorLane& lane,
                                                     const Request& request,
                                                     std::span<const int> fds) {
  const ExecutorLane::Key key = {CurrentUser::Get(), ObjectOf(request)};
  MOUNTD_TRY(CheckStuck(key));
  MOUNTD_ASSIGN(ExecutorLane::Turn turn,
                lane.Take(key, Clock::now() + DeadlineOf(request.kind)));
  // While this plan waited for its turn, another plan on the same object may
  // have hung.
  if (Result<void> stuck = CheckStuck(key); !stuck) {
    lane.Give(std::move(turn));
    return std::move(stuck).error();
  }
  UniqueFd& connection = turn.connection;
  // The deadline begins now, so that it does not include the wait for a turn.
  Result<Answer> answer = Exchange(connection, request, fds,
                                   Clock::now() + DeadlineOf(request.kind));
  if (!answer) {
    // Never reuse this connection, because a late answer would look like the
    // answer to the next plan.
    UniqueFd lost = std::exchange(connection, UniqueFd());
    if (answer.error().code == Code::kDeadlineExceeded && lost.valid()) {
      Abandon(std::move(lost), key);
    }
  }
  lane.Give(std::move(turn));
  if (answer && answer->reply.code != 0) {
    return ToError(answer->reply);
  }
  return answer;
}

}  // namespace mountd::exec
