// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/closer/closer.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <span>
#include <utility>

#include "mountd/closer/passable.h"

namespace mountd::closer {
namespace {

// The owner of fds that belong to no user, such as the listening socket with
// its backlog.
constexpr std::uint64_t kNobody = UINT64_MAX;

template <typename T>
std::span<std::byte> BytesOf(T& value) {
  return std::as_writable_bytes(std::span(&value, 1));
}

std::uint64_t UserOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0
             ? peer.uid
             : kNobody;
}

// Makes out-of-band bytes (MSG_OOB, Linux 5.15) arrive like all others. Such
// bytes may carry fds, no MSG_PEEK sees them, and the next ordinary read drops
// them. The kernel would then close their fds on mountd's thread.
void ReadInOrder(int socket) {
  constexpr int kYes = 1;
  ::setsockopt(socket, SOL_SOCKET, SO_OOBINLINE, &kYes, sizeof(kYes));
}

}  // namespace

Closer::Closer(UniqueFd connection)
    : connection_(std::move(connection)), bytes_(kMostBytes) {}

void Closer::Run() {
  while (!ended_ || !closes_.IsEmpty()) {
    Wait();
  }
}

// Waits for one event. mountd's pidfd is readable when the process has ended
// and all its files are closed.
void Closer::Wait() {
  std::array<pollfd, 3> fds = {{{connection_.get(), POLLIN, 0},
                                {ended_ ? -1 : mountd_.get(), POLLIN, 0},
                                {closes_.fd(), POLLIN, 0}}};
  if (::poll(fds.data(), fds.size(), -1) < 0) {
    return;
  }
  if (fds[2].revents != 0) {
    std::uint64_t ignored = 0;
    (void)!::read(closes_.fd(), &ignored, sizeof(ignored));
  }
  // Requests come before mountd's end, because mountd sent them earlier.
  if (fds[0].revents != 0) {
    Serve();
  } else if (fds[1].revents != 0) {
    DropAll();
  }
}

void Closer::Serve() {
  Request request;
  Result<Incoming, int> incoming =
      closer::Receive(connection_.get(), BytesOf(request), {}, MSG_DONTWAIT);
  if (!incoming && (incoming.error() == EAGAIN)) {
    return;
  }
  if (!incoming || incoming->size != sizeof(request) ||
      request.version != kVersion) {
    HangUp();
    return;
  }
  Handle(request, std::move(incoming->fds));
}

void Closer::Handle(const Request& request, std::vector<UniqueFd> fds) {
  switch (request.kind) {
    case Kind::kBegin:
      Begin(std::move(fds));
      return;
    case Kind::kAccept:
      Accept(request.id);
      return;
    case Kind::kHold:
      if (fds.size() == 1) {
        held_[request.id] = Held{std::move(fds.front()), request.owner};
      }
      return;
    case Kind::kReceive:
      Receive(request);
      return;
    case Kind::kDrop:
      Drop(request.id);
      return;
    case Kind::kRetire:
      DropAll();
      return;
  }
  HangUp();
}

void Closer::Begin(std::vector<UniqueFd> fds) {
  if (fds.size() != 2) {
    HangUp();
    return;
  }
  mountd_ = std::move(fds[0]);
  listening_ = std::move(fds[1]);
}

// Returns whether the table of fds might lack room for one more call.
// recvmsg(2) drops fds without room on this thread, which must not close a
// peer's fd. So the table always keeps room for all fds that one call can
// bring.
bool Closer::IsShortOfFds() const {
  constexpr std::size_t kOwn = 64;
  rlimit limit{};
  return ::getrlimit(RLIMIT_NOFILE, &limit) != 0 ||
         held_.size() + closes_.Pending() + kOwn + 2 * kMostFds >=
             limit.rlim_cur;
}

void Closer::Accept(std::uint64_t id) {
  Reply reply;
  UniqueFd socket;
  if (IsShortOfFds()) {
    reply.error = EMFILE;
  } else {
    socket.reset(::accept4(listening_.get(), nullptr, nullptr,
                           SOCK_CLOEXEC | SOCK_NONBLOCK));
    reply.error = socket.valid() ? 0 : errno;
  }
  if (reply.error != 0) {
    Answer(reply, kNobody, {}, {});
    return;
  }
  const int fd = socket.get();
  ReadInOrder(fd);
  const std::uint64_t owner = UserOf(fd);
  held_[id] = Held{std::move(socket), owner};
  Answer(reply, owner, {}, std::span(&fd, 1));
}

void Closer::Receive(const Request& request) {
  Reply reply;
  const auto held = held_.find(request.id);
  if (held == held_.end() || IsShortOfFds()) {
    reply.error = held == held_.end() ? EBADF : EMFILE;
    Answer(reply, kNobody, {}, {});
    return;
  }
  const std::uint64_t owner = held->second.owner;
  if (closes_.PendingOf(owner) > kMostPending) {
    reply.error = EDQUOT;
    Answer(reply, owner, {}, {});
    return;
  }
  const std::size_t size = std::min<std::size_t>(request.size, kMostBytes);
  Result<Incoming, int> incoming = closer::Receive(
      held->second.fd.get(), std::span(bytes_).first(size), {}, MSG_DONTWAIT);
  if (!incoming) {
    reply.error = incoming.error();
    Answer(reply, owner, {}, {});
    return;
  }
  reply.size = static_cast<std::uint32_t>(incoming->size);
  reply.fds = static_cast<std::uint32_t>(incoming->fds.size());
  std::vector<int> passed;
  std::vector<UniqueFd> others;
  for (std::size_t i = 0; i < incoming->fds.size(); ++i) {
    UniqueFd& fd = incoming->fds[i];
    if (!IsPassable(fd.get())) {
      others.push_back(std::move(fd));
      continue;
    }
    reply.Pass(i);
    passed.push_back(fd.get());
    held_[request.first + i] = Held{std::move(fd), owner};
  }
  for (UniqueFd& fd : others) {
    closes_.Add(owner, std::move(fd));
  }
  Answer(reply, owner, std::span(bytes_).first(reply.size), passed);
}

void Closer::Answer(Reply reply, std::uint64_t owner,
                    std::span<const std::byte> bytes,
                    std::span<const int> fds) {
  reply.pending = static_cast<std::uint32_t>(closes_.PendingOf(owner));
  reply.is_full = closes_.IsFull() ? 1 : 0;
  if (Send(connection_.get(), BytesOf(reply), bytes, fds) != 0) {
    HangUp();
  }
}

// Shuts the socket down first, so that the peer sees the end at once, even if
// close(2) has to wait.
void Closer::Drop(std::uint64_t id) {
  const auto held = held_.find(id);
  if (held != held_.end()) {
    ::shutdown(held->second.fd.get(), SHUT_RDWR);
    closes_.Add(held->second.owner, std::move(held->second.fd));
    held_.erase(held);
  }
}

// Prepares for mountd's end. The shutdown tells peers at once, even if their
// sockets wait for close(2) behind another fd.
void Closer::HangUp() {
  connection_.reset();
  for (const auto& [id, held] : held_) {
    ::shutdown(held.fd.get(), SHUT_RDWR);
  }
  // mountd has not sent kBegin, so this process has no fd of a peer.
  if (!mountd_.valid()) {
    DropAll();
  }
}

void Closer::DropAll() {
  connection_.reset();
  ended_ = true;
  for (auto& [id, held] : held_) {
    closes_.Add(held.owner, std::move(held.fd));
  }
  held_.clear();
  if (listening_.valid()) {
    closes_.Add(kNobody, std::move(listening_));
  }
}

}  // namespace mountd::closer
