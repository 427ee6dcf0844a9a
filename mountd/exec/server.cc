// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <ctime>
#include <optional>
#include <span>
#include <utility>

#include "mountd/base/fd_message.h"
#include "mountd/exec/invariants.h"
#include "mountd/exec/trace_log.h"

namespace mountd::exec {
namespace {

static_assert(kMaxPlanFds <= kMaxMessageFds);

Result<void> SendAnswer(int socket, const Dispatcher::Answer& answer) {
  const int fd = answer.fd.get();
  const auto sent =
      SendWithFds(socket, std::as_bytes(std::span(&answer.reply, 1)),
                  std::span(&fd, answer.fd.valid() ? 1U : 0U));
  return sent ? Ok()
              : Result<void>(ErrnoError(sent.error(), "sendmsg", "reply"));
}

// Ends the process by SIGKILL when its time is over, unless Set changes the
// time. The kernel sends the signal, so neither a signal handler nor a stopped
// process (SIGSTOP) delays the end.
class LastResort {
 public:
  static Result<LastResort> Make() {
    sigevent event = {};
    event.sigev_notify = SIGEV_SIGNAL;
    event.sigev_signo = SIGKILL;
    LastResort made;
    // CLOCK_MONOTONIC, because the wall clock jumps.
    if (::timer_create(CLOCK_MONOTONIC, &event, &made.timer_.emplace()) != 0) {
      made.timer_.reset();
      return ErrnoError(errno, "timer_create", "executor");
    }
    return made;
  }
  ~LastResort() {
    if (timer_) {
      ::timer_delete(*timer_);
    }
  }
  LastResort(LastResort&& other) noexcept
      : timer_(std::exchange(other.timer_, std::nullopt)) {}
  LastResort& operator=(LastResort&&) = delete;
  LastResort(const LastResort&) = delete;
  LastResort& operator=(const LastResort&) = delete;

  // Sets the time from now; 0: never.
  void Set(std::chrono::seconds after) const {
    itimerspec when = {};
    when.it_value.tv_sec = after.count();
    ::timer_settime(*timer_, 0, &when, nullptr);
  }

 private:
  LastResort() = default;
  std::optional<timer_t> timer_;
};

// Sets one limit for the work during its lifetime, and then another for the
// time until the next work.
class Within {
 public:
  Within(const LastResort& end, std::chrono::seconds limit,
         std::chrono::seconds idle)
      : end_(end), idle_(idle) {
    end_.Set(limit);
  }
  ~Within() { end_.Set(idle_); }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  const LastResort& end_;
  const std::chrono::seconds idle_;
};

}  // namespace

Result<void> CheckPeer(int socket, uid_t allowed) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  // SO_PEERCRED names the user who called connect(2), even if another process
  // has the socket now (unix(7)).
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
    return ErrnoError(errno, "getsockopt", "peer");
  }
  if (peer.uid != allowed) {
    return MakeError(Code::kPermissionDenied, "check peer",
                     "uid " + std::to_string(peer.uid),
                     "is not the user whose plans mountd-exec takes");
  }
  return Ok();
}

namespace {

std::chrono::seconds LimitOf(std::span<const std::byte> message,
                             const Longest& longest) {
  return KindOf(message) == PlanKind::kRunCni ? longest.cni : longest.plan;
}

// Waits for a request, and meanwhile makes objects in advance. Begins that
// after a pause, because the next request often follows soon after an answer.
void AwaitRequest(int socket, Dispatcher* dispatcher, const LastResort& end,
                  const Longest& longest) {
  constexpr int kQuietMs = 4;
  constexpr int kRestMs = std::chrono::milliseconds(kRest).count();
  pollfd entry = {socket, POLLIN, 0};
  for (bool more = true;;) {
    const int ready = ::poll(&entry, 1, more ? kQuietMs : kRestMs);
    if (ready > 0) {
      return;
    }
    if (ready == 0 && !more) {
      dispatcher->RestForAWhile();
    }
    const Within limit(end, longest.plan, longest.idle);
    more = more && dispatcher->MakeAhead();
  }
}

}  // namespace

Result<void> Serve(int socket, Dispatcher* dispatcher, const Longest& longest) {
  // The buffer has one byte more than a request, so that a message that is too
  // long does not look like a request.
  std::array<std::byte, sizeof(Request) + 1> buffer{};
  MOUNTD_ASSIGN(const LastResort end, LastResort::Make());
  TraceLog log(STDERR_FILENO);
  end.Set(longest.idle);
  for (;;) {
    AwaitRequest(socket, dispatcher, end, longest);
    const Result<Received, int> received =
        ReceiveWithFds(socket, buffer, kMaxPlanFds);
    if (!received && received.error() != ECONNRESET) {
      return ErrnoError(received.error(), "recvmsg", "request");
    }
    // mountd has closed the connection, was killed before it read an answer
    // (ECONNRESET), or has given up this request.
    if (!received || received->size == 0 || HasGivenUp(socket)) {
      return Ok();
    }
    const auto message =
        std::span<const std::byte>(buffer).first(received->size);
    const Within limit(end, LimitOf(message, longest), longest.idle);
    std::uint32_t code = 0;
    MOUNTD_TRY(
        dispatcher->Handle(message, received->fds,
                           [socket, &code](const Dispatcher::Answer& answer) {
                             code = answer.reply.code;
                             return SendAnswer(socket, answer);
                           }));
    // Write the log after the answer, because no plan may wait for a log.
    log.Write(KindOf(message), TraceOf(message), code);
  }
}

}  // namespace mountd::exec
