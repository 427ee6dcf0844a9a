// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/protocol/shim_connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <cerrno>

#include "agent/driver/protocol/message_socket.h"
#include "agent/driver/protocol/task_files.h"
#include "mountd/base/memory_file.h"
#include "mountd/base/unix_socket.h"

namespace mountd::shim {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostExitBytes = 16384;
// A stopped shim accepts no connection. connect(2) then waits once the socket's
// queue is full.
constexpr timeval kConnectPatience{10, 0};

Error ShimEnded() {
  return MakeError(Code::kUnavailable, "recvmsg", "mountd-task-shim",
                   "has ended; look for the task by its cgroup");
}

// Waits until the socket can be read.
Result<void> Await(int socket, std::optional<Clock::time_point> deadline) {
  for (;;) {
    int left = -1;
    if (deadline) {
      const auto rest = std::chrono::ceil<std::chrono::milliseconds>(
          *deadline - Clock::now());
      left =
          static_cast<int>(std::clamp<std::int64_t>(rest.count(), 0, 1 << 30));
    }
    pollfd waiting = {socket, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, left);
    if (ready > 0) {
      return Ok();
    }
    if (ready == 0) {
      return MakeError(Code::kDeadlineExceeded, "poll", "mountd-task-shim",
                       "gave no answer in time");
    }
    if (errno != EINTR) {
      return ErrnoError(errno, "poll", "mountd-task-shim");
    }
  }
}

}  // namespace

Result<ShimConnection> ShimConnection::Open(int task_directory) {
  UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket.valid() ||
      ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &kConnectPatience,
                   sizeof(kConnectPatience)) != 0) {
    return ErrnoError(errno, "socket", "mountd-task-shim");
  }
  // The path through /proc is short. The directory's own path may be too long
  // for a socket.
  const std::string path =
      "/proc/self/fd/" + std::to_string(task_directory) + "/" + kSocketFile;
  const auto end = Clock::now() + std::chrono::seconds(kConnectPatience.tv_sec);
  int error = EINTR;
  while (error == EINTR && Clock::now() < end) {
    error = ConnectUnix(socket.get(), path);
  }
  if (error == ENOENT) {
    return ErrnoError(error, "connect", "mountd-task-shim",
                      "the task's directory has no socket of a shim");
  }
  if (error == EAGAIN || error == EINTR) {
    return MakeError(Code::kDeadlineExceeded, "connect", "mountd-task-shim",
                     "accepts no connection; it may be stopped");
  }
  if (error != 0) {
    return ErrnoError(error, "connect", "mountd-task-shim");
  }
  return ShimConnection(std::move(socket));
}

Result<Answer> ShimConnection::Call(
    const Message& request, std::span<const int> fds,
    std::optional<std::chrono::milliseconds> timeout) {
  MOUNTD_TRY(Post(request, fds));
  return Next(timeout);
}

Result<void> ShimConnection::Post(const Message& request,
                                  std::span<const int> fds) {
  const auto sent = Send(socket_.get(), request, fds);
  if (sent) {
    return Ok();
  }
  // A shim that could not make the container has sent the reason before it
  // ended.
  const auto reason = Next(std::chrono::milliseconds(0));
  return reason ? sent.error() : reason.error();
}

Result<Answer> ShimConnection::Next(
    std::optional<std::chrono::milliseconds> timeout) {
  std::optional<Clock::time_point> deadline;
  if (timeout) {
    deadline = Clock::now() + *timeout;
  }
  MOUNTD_TRY(Await(socket_.get(), deadline));
  MOUNTD_ASSIGN(Incoming incoming, Receive(socket_.get()));
  if (!incoming.message) {
    return ShimEnded();
  }
  if (incoming.message->kind() == Kind::kFailed) {
    return incoming.message->ToError();
  }
  return Answer{*std::move(incoming.message), std::move(incoming.fds)};
}

Result<Message> ReadExit(int task_directory) {
  const UniqueFd file(::openat(task_directory, kExitFile,
                               O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!file.valid()) {
    return ErrnoError(errno, "open", "exit record of the task");
  }
  MOUNTD_ASSIGN(const std::string bytes,
                ReadMemory(file.get(), kMostExitBytes));
  return Message::Parse(bytes);
}

}  // namespace mountd::shim
