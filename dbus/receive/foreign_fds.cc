// SPDX-License-Identifier: LGPL-2.1-or-later
#include "dbus/receive/foreign_fds.h"

#include <fcntl.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "mountd/base/fd_message.h"
#include "mountd/base/paths.h"
#include "mountd/base/unix_socket.h"

namespace mountd::dbus {
namespace {

using closer::Kind;
using closer::Reply;
using closer::Request;

constexpr int kPassRights = 83;  // SO_PASSRIGHTS, Linux 6.16
constexpr std::chrono::milliseconds kRetryPause{100};

template <typename T>
std::span<const std::byte> ConstBytesOf(const T& value) {
  return std::as_bytes(std::span(&value, 1));
}

int SendRequest(int connection, const Request& request,
                std::span<const int> fds = {}) {
  return closer::Send(connection, ConstBytesOf(request), {}, fds);
}

Request RequestFor(Kind kind, std::uint64_t id) {
  Request request;
  request.kind = kind;
  request.id = id;
  return request;
}

bool SetPassRights(int socket, int value) {
  return ::setsockopt(socket, SOL_SOCKET, kPassRights, &value, sizeof(value)) ==
         0;
}

void SetPatience(int socket, std::chrono::milliseconds patience) {
  timeval time{};
  time.tv_sec = patience.count() / 1000;
  time.tv_usec = patience.count() % 1000 * 1000;
  for (const int option : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    ::setsockopt(socket, SOL_SOCKET, option, &time, sizeof(time));
  }
}

std::uint64_t UserOf(int socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  return ::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0
             ? peer.uid
             : UINT64_MAX;
}

}  // namespace

ForeignFds::Connector ForeignFds::ConnectToCloser() {
  return []() -> Result<UniqueFd> {
    // SOCK_SEQPACKET keeps each message whole, with its own fds (unix(7)).
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (!socket.valid()) {
      return ErrnoError(errno, "socket", paths::kCloserSocket);
    }
    // A connect to a full backlog must block no longer than an answer may take.
    SetPatience(socket.get(), Bounds().patience);
    if (const int error = ConnectUnix(socket.get(), paths::kCloserSocket);
        error != 0) {
      return ErrnoError(error, "connect", paths::kCloserSocket);
    }
    return socket;
  };
}

ForeignFds::ForeignFds(EventLoop& loop, Connector connect, Bounds bounds)
    : loop_(loop),
      connect_(std::move(connect)),
      bounds_(bounds),
      self_(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0))),
      bytes_(closer::kMostBytes) {}

ForeignFds::~ForeignFds() {
  const std::lock_guard lock(mutex_);
  watch_.reset();
  if (connection_.valid()) {
    SendRequest(connection_.get(), RequestFor(Kind::kRetire, 0));
  }
}

void ForeignFds::Listen(int listening) {
  listening_ = listening;
  // Fails before Linux 6.16, and then a peer may send fds before Admit.
  SetPassRights(listening, 0);
  const std::lock_guard lock(mutex_);
  Connect();
}

void ForeignFds::Admit(int socket) { SetPassRights(socket, 1); }

bool ForeignFds::IsConnected() const {
  return connection_.valid() && !HasGivenUp(connection_.get());
}

// Runs on the loop's thread only. sd-bus has the sockets and closes them on
// that thread; from any other thread, a number sent here could by then be
// another file's.
bool ForeignFds::Connect() {
  if (IsConnected()) {
    return true;
  }
  Disconnect();
  Result<UniqueFd> connection = connect_();
  if (!connection) {
    spdlog::warn("cannot reach mountd-closer: {}",
                 connection.error().Message());
  } else {
    SetPatience(connection->get(), bounds_.patience);
    // Uses a mountd-closer only if it has a reference to every fd here, because
    // otherwise mountd's close(2) could be the last one.
    if (Begin(connection->get()) && HoldAll(connection->get())) {
      connection_ = *std::move(connection);
      Watch();
      CloseLeft();
      return true;
    }
    spdlog::warn("mountd-closer does not accept more descriptors");
  }
  TryAgainLater();
  return false;
}

void ForeignFds::TryAgainLater() {
  // One retry is enough, however many callers find no mountd-closer.
  if (std::exchange(tries_again_, true)) {
    return;
  }
  loop_.After(kRetryPause, [this, alive = std::weak_ptr(alive_)] {
    if (!alive.expired()) {
      const std::lock_guard lock(mutex_);
      tries_again_ = false;
      Connect();
    }
  });
}

bool ForeignFds::Begin(int connection) {
  const std::array<int, 2> fds = {self_.get(), listening_};
  return SendRequest(connection, RequestFor(Kind::kBegin, 0), fds) == 0;
}

bool ForeignFds::HoldAll(int connection) {
  return std::all_of(held_.begin(), held_.end(), [&](const auto& one) {
    Request request = RequestFor(Kind::kHold, one.first);
    request.owner = one.second.owner;
    return SendRequest(connection, request, std::span(&one.second.fd, 1)) == 0;
  });
}

void ForeignFds::CloseLeft() {
  for (auto one = held_.begin(); one != held_.end();) {
    if (one->second.is_left) {
      ::close(one->second.fd);
      SendDrop(one->first);
      one = held_.erase(one);
    } else {
      ++one;
    }
  }
}

void ForeignFds::Watch() {
  // mountd-closer sends nothing but answers, and Ask reads each answer at once.
  // So an event here means that mountd-closer has ended.
  watch_ = loop_.WatchFd(connection_.get(), EPOLLIN | EPOLLRDHUP,
                         [this](std::uint32_t) { LookAtCloser(); });
}

void ForeignFds::Disconnect() {
  if (connection_.valid()) {
    ++replaced_;
    spdlog::warn("mountd-closer has ended, so mountd uses a new one");
  }
  watch_.reset();
  connection_.reset();
}

void ForeignFds::LookAtCloser() {
  const std::lock_guard lock(mutex_);
  Connect();
}

// Replaces a mountd-closer that works but has no thread left. The old
// mountd-closer keeps the fds that are stuck in close(2).
void ForeignFds::Replace() {
  UniqueFd old = std::move(connection_);
  watch_.reset();
  ++replaced_;
  spdlog::warn("mountd-closer has no thread left, so mountd uses a new one");
  // Connects first, because the old mountd-closer must not retire until the
  // next mountd-closer has a reference to every fd.
  if (Connect()) {
    SendRequest(old.get(), RequestFor(Kind::kRetire, 0));
  } else {
    connection_ = std::move(old);
    Watch();
  }
}

Result<closer::Incoming, int> ForeignFds::Ask(const Request& request,
                                              Reply* reply,
                                              std::span<std::byte> bytes) {
  if (!Connect()) {
    return ENOTCONN;
  }
  if (SendRequest(connection_.get(), request) != 0) {
    return ECONNRESET;
  }
  Result<closer::Incoming, int> incoming = closer::Receive(
      connection_.get(), std::as_writable_bytes(std::span(reply, 1)), bytes, 0);
  // EAGAIN: the receive took longer than SO_RCVTIMEO allows (SetPatience).
  if (!incoming && incoming.error() == EAGAIN) {
    spdlog::warn("mountd-closer does not answer, so mountd uses a new one");
    ++replaced_;
    watch_.reset();
    const std::uint64_t serial = ++last_id_;
    const int fd = connection_.get();
    late_[serial] = Late{
        std::move(connection_),
        loop_.WatchFd(fd, EPOLLIN | EPOLLRDHUP,
                      [this, serial](std::uint32_t) { AwaitLate(serial); })};
    Connect();
    return ECONNRESET;
  }
  if (!incoming || incoming->size < sizeof(*reply) ||
      reply->version != closer::kVersion) {
    return ECONNRESET;  // the next IsConnected notices its end
  }
  incoming->size -= sizeof(*reply);
  return incoming;
}

// Closes the fds of an answer that nobody waits for any more. False if the
// answer has not come yet.
bool ForeignFds::TakeLate(int connection) {
  Reply reply;
  const Result<closer::Incoming, int> answer =
      closer::Receive(connection, std::as_writable_bytes(std::span(&reply, 1)),
                      bytes_, MSG_DONTWAIT);
  return answer || answer.error() != EAGAIN;
}

void ForeignFds::AwaitLate(std::uint64_t serial) {
  const std::lock_guard lock(mutex_);
  const auto late = late_.find(serial);
  // Retires the late mountd-closer only now, because it must not close the fds
  // of its answer before this process has closed them.
  if (TakeLate(late->second.connection.get())) {
    SendRequest(late->second.connection.get(), RequestFor(Kind::kRetire, 0));
    late_.erase(late);
  }
}

Result<ForeignFds::Accepted, int> ForeignFds::Accept() {
  const std::lock_guard lock(mutex_);
  Accepted accepted;
  accepted.id = ++last_id_;
  Reply reply;
  Result<closer::Incoming, int> incoming =
      Ask(RequestFor(Kind::kAccept, accepted.id), &reply, {});
  if (!incoming) {
    // PeerServer pauses after each ENOTCONN.
    return ENOTCONN;
  }
  if (reply.error != 0 || incoming->fds.size() != 1) {
    // No error and no fd: this process had no room for the fd.
    return reply.error != 0 ? reply.error : EMFILE;
  }
  accepted.socket = std::move(incoming->fds.front());
  accepted.pending = reply.pending;
  held_[accepted.id] =
      Held{accepted.socket.get(), UserOf(accepted.socket.get()), false};
  if (reply.is_full != 0) {
    Replace();
  }
  return accepted;
}

std::uint64_t ForeignFds::Hold(int socket, std::uint64_t owner) {
  const std::lock_guard lock(mutex_);
  const std::uint64_t id = ++last_id_;
  held_[id] = Held{socket, owner, false};
  const bool was_connected = IsConnected();
  Request request = RequestFor(Kind::kHold, id);
  request.owner = owner;
  if (was_connected) {
    SendRequest(connection_.get(), request, std::span(&socket, 1));
  } else {
    Connect();  // sends all that is held, this socket included
  }
  return id;
}

void ForeignFds::Close(std::uint64_t id, UniqueFd socket) {
  const std::lock_guard lock(mutex_);
  Connect();
  CloseHeld(id, std::move(socket));
}

void ForeignFds::CloseHeld(std::uint64_t id, UniqueFd fd) {
  const auto held = held_.find(id);
  if (!IsConnected()) {
    // The fd stays open here until the next mountd-closer holds it.
    held->second.fd = fd.release();
    held->second.is_left = true;
    return;
  }
  // mountd closes first, so that mountd-closer's close(2) is the last one.
  fd.reset();
  held_.erase(held);
  SendDrop(id);
}

void ForeignFds::SendDrop(std::uint64_t id) {
  if (connection_.valid()) {
    SendRequest(connection_.get(), RequestFor(Kind::kDrop, id));
  }
}

// Closes the fd with the lock held, because HoldAll sends the fds in held_ to
// the next mountd-closer by these numbers.
void ForeignFds::LetGo(std::uint64_t id, UniqueFd fd) {
  const std::lock_guard lock(mutex_);
  const auto of_owner = fds_of_.find(held_.at(id).owner);
  if (of_owner != fds_of_.end() && --of_owner->second == 0) {
    fds_of_.erase(of_owner);
  }
  --fds_;
  CloseHeld(id, std::move(fd));
}

bool ForeignFds::HasRoom(std::uint64_t owner) const {
  const auto of_owner = fds_of_.find(owner);
  return fds_ < bounds_.fds &&
         (of_owner == fds_of_.end() || of_owner->second < bounds_.fds_of_owner);
}

std::shared_ptr<UniqueFd> ForeignFds::Hold(std::uint64_t id,
                                           std::uint64_t owner, UniqueFd fd) {
  held_[id] = Held{fd.get(), owner, false};
  ++fds_of_[owner];
  ++fds_;
  return {new UniqueFd(std::move(fd)), [this, id](UniqueFd* one) {
            LetGo(id, std::move(*one));
            delete one;
          }};
}

Result<ForeignFds::Received, int> ForeignFds::Receive(
    std::uint64_t id, std::uint64_t owner, std::span<std::byte> into) {
  const std::lock_guard lock(mutex_);
  if (!HasRoom(owner)) {
    // EDQUOT is no errno of recvmsg(2), so the caller can tell it from those.
    return EDQUOT;
  }
  Request request = RequestFor(Kind::kReceive, id);
  request.size =
      static_cast<std::uint32_t>(std::min(into.size(), closer::kMostBytes));
  // mountd-closer gives the received fds the ids from `first` on.
  request.first = last_id_ + 1;
  // Takes as many ids as one message can have fds, because mountd learns the
  // number of fds only afterwards.
  last_id_ += closer::kMostFds;
  Reply reply;
  Result<closer::Incoming, int> incoming =
      Ask(request, &reply, into.first(request.size));
  if (!incoming) {
    return ECONNRESET;
  }
  if (reply.error != 0) {
    return reply.error;
  }
  Received received;
  received.size = incoming->size;
  std::size_t next = 0;
  for (std::size_t i = 0; i < reply.fds && i < closer::kMostFds; ++i) {
    const std::uint64_t fd_id = request.first + i;
    if (!reply.Passes(i) || next >= incoming->fds.size()) {
      received.fds.emplace_back();
      if (reply.Passes(i)) {
        SendDrop(fd_id);  // this process has no room for it
      }
      continue;
    }
    received.fds.push_back(
        Hold(fd_id, owner, std::move(incoming->fds[next++])));
  }
  if (reply.is_full != 0) {
    Replace();
  }
  return received;
}

}  // namespace mountd::dbus
