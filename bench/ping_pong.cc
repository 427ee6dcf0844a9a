// SPDX-License-Identifier: LGPL-2.1-or-later
#include "bench/ping_pong.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace mountd::bench {
namespace {

// As many bytes as a call of Get for Version and its answer.
using Question = std::array<char, 140>;
using Answer = std::array<char, 46>;

template <typename Message>
bool Send(int socket, const Message& message) {
  return ::send(socket, message.data(), message.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(message.size());
}

template <typename Message>
bool Receive(int socket, Message& message) {
  return ::recv(socket, message.data(), message.size(), MSG_WAITALL) ==
         static_cast<ssize_t>(message.size());
}

// Answers until the other end is closed.
[[noreturn]] void Serve(int socket) {
  Question question{};
  const Answer answer{};
  while (Receive(socket, question) && Send(socket, answer)) {
  }
  ::_exit(0);
}

}  // namespace

PingPong::PingPong(UniqueFd socket, pid_t child)
    : socket_(std::move(socket)), child_(child) {}

PingPong::PingPong(PingPong&& other) noexcept
    : socket_(std::move(other.socket_)),
      child_(std::exchange(other.child_, -1)) {}

PingPong::~PingPong() {
  socket_.reset();
  if (child_ > 0) {
    ::waitpid(child_, nullptr, 0);
  }
}

Result<PingPong> PingPong::Start() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0) {
    return ErrnoError(errno, "socketpair", "");
  }
  UniqueFd own(ends[0]);
  const UniqueFd other(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    return ErrnoError(errno, "fork", "");
  }
  if (child == 0) {
    own.reset();
    Serve(other.get());
  }
  return PingPong(std::move(own), child);
}

Result<void> PingPong::Call() {
  Answer answer{};
  if (!Send(socket_.get(), Question{}) || !Receive(socket_.get(), answer)) {
    return ErrnoError(errno, "call", "ping-pong");
  }
  return Ok();
}

}  // namespace mountd::bench
