// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/exec/server.h"

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <span>

#include "mountd/base/fd_message.h"
#include "mountd/exec/invariants.h"

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

class Alarm {
 public:
  explicit Alarm(std::chrono::seconds after) {
    ::alarm(static_cast<unsigned>(after.count()));
  }
  ~Alarm() { ::alarm(0); }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
};

bool HasHungUp(int socket) {
  pollfd peer = {socket, POLLRDHUP, 0};
  return ::poll(&peer, 1, 0) > 0;
}

}  // namespace

Result<void> CheckPeer(int socket, uid_t allowed) {
  ucred peer = {};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) < 0) {
    return ErrnoError(errno, "getsockopt", "peer");
  }
  if (peer.uid != allowed) {
    return MakeError(Code::kPermissionDenied, "check peer",
                     "uid " + std::to_string(peer.uid));
  }
  return Ok();
}

namespace {

std::chrono::seconds LimitOf(std::span<const std::byte> message,
                             const Longest& longest) {
  const Result<Request> request = DecodeRequest(message);
  return request && request->kind == PlanKind::kRunCni ? longest.cni
                                                       : longest.plan;
}

// What there is to do ahead is done while nothing is asked; and not at once, as
// whoever got the answer is still busy with it, and may have more to ask.
void AwaitRequest(int socket, Dispatcher* dispatcher, const Longest& longest) {
  constexpr int kQuietMs = 4;
  constexpr int kRestMs = 30'000;
  pollfd entry = {socket, POLLIN, 0};
  for (bool more = true;;) {
    const int ready = ::poll(&entry, 1, more ? kQuietMs : kRestMs);
    if (ready > 0) {
      return;
    }
    if (ready == 0 && !more) {
      dispatcher->RestForAWhile();
    }
    const Alarm alarm(longest.plan);
    more = more && dispatcher->MakeAhead();
  }
}

}  // namespace

Result<void> Serve(int socket, Dispatcher* dispatcher, const Longest& longest) {
  // One byte more than a request, so that a longer one is seen to be one.
  std::array<std::byte, sizeof(Request) + 1> buffer{};
  for (;;) {
    AwaitRequest(socket, dispatcher, longest);
    const Result<Received, int> received =
        ReceiveWithFds(socket, buffer, kMaxPlanFds);
    if (!received) {
      return ErrnoError(received.error(), "recvmsg", "request");
    }
    if (received->size == 0 || HasHungUp(socket)) {
      return Ok();
    }
    const auto message =
        std::span<const std::byte>(buffer).first(received->size);
    const Alarm alarm(LimitOf(message, longest));
    MOUNTD_TRY(dispatcher->Handle(message, received->fds,
                                  [socket](const Dispatcher::Answer& answer) {
                                    return SendAnswer(socket, answer);
                                  }));
  }
}

}  // namespace mountd::exec
