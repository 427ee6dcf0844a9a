// SPDX-License-Identifier: LGPL-2.1-or-later
//
// The requests of drivers.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <utility>

#include "agent/driver/protocol/task_files.h"
#include "agent/driver/shim/shim.h"
#include "mountd/base/write_all.h"

namespace mountd::shim {
namespace {

constexpr std::size_t kMostConnections = 256;
constexpr std::uint64_t kLastSignal = 64;
constexpr std::uint64_t kLongestStopMs = std::uint64_t{24} * 3600 * 1000;

Error NotRunning(const char* op) {
  return MakeError(Code::kFailedPrecondition, op, "the task", "is not running");
}

Result<int> SignalOf(const Message& request) {
  const std::uint64_t number = request.Number(Tag::kSignalNumber);
  if (number < 1 || number > kLastSignal) {
    return MakeError(Code::kInvalidArgument, "signal", std::to_string(number),
                     "is no signal; give 1 to 64");
  }
  return static_cast<int>(number);
}

}  // namespace

void Shim::Accept() {
  UniqueFd socket(::accept4(listener_.get(), nullptr, nullptr,
                            SOCK_CLOEXEC | SOCK_NONBLOCK));
  ucred peer{};
  socklen_t size = sizeof(peer);
  // The directory's mode keeps other users away already, except root.
  if (!socket.valid() ||
      ::getsockopt(socket.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
      (peer.uid != ::geteuid() && peer.uid != 0)) {
    return;
  }
  if (connections_.size() >= kMostConnections) {
    // Sends an error first, because a connection that closes without a message
    // looks like a killed shim.
    IgnoreBecauseBestEffort(
        Send(socket.get(),
             Message::Failed(MakeError(
                 Code::kResourceExhausted, "connect", "mountd-task-shim",
                 "has 256 connections already; call again when "
                 "a wait or an exec of the task has ended"))));
    return;
  }
  connections_.emplace_back().id = ++last_id_;
  connections_.back().socket = std::move(socket);
}

void Shim::Serve(Connection& connection) {
  const auto incoming = Receive(connection.socket.get());
  if (!incoming) {
    if (incoming.error().sys_errno != EAGAIN) {
      Answer(connection, Message::Failed(incoming.error()));
      connection.socket.reset();
    }
    return;
  }
  if (!incoming->message) {
    connection.socket.reset();
    return;
  }
  Handle(connection, *incoming);
}

void Shim::Handle(Connection& connection, const Incoming& incoming) {
  const Message& request = *incoming.message;
  Result<void> done = Ok();
  switch (request.kind()) {
    case Kind::kAwaitCreated:
      if (state_ != State::kCreating) {
        return AnswerStatus(connection);
      }
      connection.awaits_created = true;
      return;
    case Kind::kGetStatus:
      return AnswerStatus(connection);
    case Kind::kStart:
      return HandleStart(connection);
    case Kind::kWait:
      if (exit_) {
        return Answer(connection, *exit_);
      }
      connection.awaits_exit = true;
      return;
    case Kind::kStop:
      return HandleStop(connection, request);
    case Kind::kDelete:
      return HandleDelete(connection, request);
    case Kind::kSignal:
      done = HandleSignal(request);
      break;
    case Kind::kExec:
      done = HandleExec(connection, incoming);
      if (done) {
        return;  // OnExecMade answers
      }
      break;
    default:
      done = MakeError(Code::kNotSupported, "request",
                       std::to_string(static_cast<int>(request.kind())),
                       "this release of mountd-task-shim does not know it");
  }
  Answer(connection,
         done ? Message(Kind::kDone) : Message::Failed(done.error()));
}

void Shim::AnswerStatus(Connection& connection) {
  Message status(Kind::kStatus);
  status.Add(Tag::kState, static_cast<std::uint64_t>(state_))
      .Add(Tag::kPid, static_cast<std::uint64_t>(std::max(init_, 0)))
      .Add(Tag::kStdoutDropped, output_.dropped())
      .Add(Tag::kStderrDropped, error_.dropped());
  const int pidfd = init_pidfd_.get();
  if (pidfd < 0) {
    return Answer(connection, status);
  }
  const auto sent = Send(connection.socket.get(), status, std::span(&pidfd, 1));
  if (!sent) {
    // A status without the pidfd is better than none.
    Answer(connection, status);
  }
}

// A driver may repeat kStart at any time, because an earlier driver may have
// been killed before the answer.
void Shim::HandleStart(Connection& connection) {
  if (state_ == State::kRunning) {
    return Answer(connection, Message(Kind::kDone));
  }
  if (state_ != State::kCreated) {
    return Answer(
        connection,
        Message::Failed(MakeError(
            Code::kFailedPrecondition, "start", "the task",
            state_ == State::kExited ? "has ended" : "is not created yet")));
  }
  if (is_starting_) {
    connection.awaits_started = true;
    return;
  }
  // crun's first process of the task reads from this FIFO, so this open
  // succeeds. runc's first process writes to the FIFO, and nobody reads yet, so
  // the open fails.
  const UniqueFd fifo(::open(ExecFifoPath().c_str(),
                             O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW));
  if (fifo.valid()) {
    const auto let_go = LetGo(fifo.get());
    return Answer(connection, let_go ? Message(Kind::kDone)
                                     : Message::Failed(let_go.error()));
  }
  if (errno != ENXIO && errno != ENOENT) {
    return Answer(connection, Message::Failed(ErrnoError(
                                  errno, "open", "exec.fifo", "call again")));
  }
  StartByRuntime(connection, /*writer_waits=*/errno == ENXIO);
}

// Does all that `crun start` does for a container without hooks, and saves the
// time of a program's start. Renames the FIFO before it writes the byte,
// because a driver takes a task with exec.fifo for a task that has not begun.
// If somebody kills the shim in between, the driver kills the task.
Result<void> Shim::LetGo(int fifo) {
  const std::string path = ExecFifoPath();
  const std::string let_go = path + kLetGoSuffix;
  if (::rename(path.c_str(), let_go.c_str()) != 0) {
    return ErrnoError(errno, "rename", "exec.fifo");
  }
  MOUNTD_TRY(WriteAll(fifo, "0", "exec.fifo"));
  ::unlink(let_go.c_str());
  state_ = State::kRunning;
  return Ok();
}

void Shim::StartByRuntime(Connection& connection, bool writer_waits) {
  connection.awaits_started = true;
  is_starting_ = true;
  writer_waits_ = writer_waits;
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto run = StartRuntime(setup_, Place::kShim, {"start", setup_.container},
                          {null.get(), null.get(), null.get()});
  if (!run) {
    is_starting_ = false;
    return AnswerAll(&Connection::awaits_started, Message::Failed(run.error()));
  }
  programs_.push_back({Purpose::kStart, *std::move(run)});
}

Result<void> Shim::HandleSignal(const Message& request) {
  MOUNTD_ASSIGN(const int number, SignalOf(request));
  if (state_ != State::kRunning) {
    return NotRunning("signal");
  }
  if (::syscall(SYS_pidfd_send_signal, init_pidfd_.get(), number, nullptr, 0) !=
      0) {
    return ErrnoError(errno, "pidfd_send_signal", "the task");
  }
  return Ok();
}

void Shim::HandleStop(Connection& connection, const Message& request) {
  if (exit_) {
    return Answer(connection, *exit_);
  }
  if (state_ == State::kCreating) {
    return Answer(connection, Message::Failed(NotRunning("stop")));
  }
  const auto number = SignalOf(request);
  if (!number) {
    return Answer(connection, Message::Failed(number.error()));
  }
  connection.awaits_exit = true;
  if (state_ == State::kCreated) {
    // The task's first process still runs the runtime's program, so it needs no
    // signal to clean up.
    return KillTask();
  }
  ::syscall(SYS_pidfd_send_signal, init_pidfd_.get(), *number, nullptr, 0);
  const Milliseconds at =
      MonotonicNow() + static_cast<Milliseconds>(std::min(
                           request.Number(Tag::kTimeoutMs), kLongestStopMs));
  kill_at_ = std::min(kill_at_.value_or(at), at);
}

void Shim::HandleDelete(Connection& connection, const Message& request) {
  if (!exit_ && request.Number(Tag::kForce) == 0) {
    return Answer(connection, Message::Failed(MakeError(
                                  Code::kFailedPrecondition, "delete",
                                  "the task", "is still there; stop it")));
  }
  connection.awaits_deleted = true;
  if (!exit_) {
    deletes_after_exit_ = true;
    // Kills the runtime's programs, too, because such a program may hang, and
    // the task must end.
    for (const Program& program : programs_) {
      ::kill(program.run.pid, SIGKILL);
    }
    return KillTask();
  }
  StartDelete();
}

void Shim::StartDelete() {
  const bool is_deleting = std::any_of(
      programs_.begin(), programs_.end(), [](const Program& program) {
        return program.purpose == Purpose::kDelete;
      });
  if (is_deleting) {
    return;
  }
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  auto run = StartRuntime(setup_, Place::kShim,
                          {"delete", "--force", setup_.container},
                          {null.get(), null.get(), null.get()});
  if (!run) {
    return AnswerAll(&Connection::awaits_deleted, Message::Failed(run.error()));
  }
  programs_.push_back({Purpose::kDelete, *std::move(run)});
  delete_until_ = MonotonicNow() + kDeletePatienceMs;
}

void Shim::Answer(Connection& connection, const Message& message,
                  std::span<const int> fds) {
  if (!connection.socket.valid()) {
    return;
  }
  auto sent = Send(connection.socket.get(), message, fds);
  if (!sent && !fds.empty()) {
    // The caller learns why the fds do not come.
    sent = Send(connection.socket.get(), Message::Failed(sent.error()));
  }
  if (!sent) {
    // A caller that does not read its answers gets no more of them.
    connection.socket.reset();
  }
}

void Shim::AnswerAll(bool Connection::*awaits, const Message& message) {
  for (Connection& connection : connections_) {
    if (std::exchange(connection.*awaits, false)) {
      Answer(connection, message);
    }
  }
}

void Shim::AnswerTo(std::uint64_t connection, const Message& message,
                    std::span<const int> fds) {
  for (Connection& other : connections_) {
    if (other.id == connection) {
      Answer(other, message, fds);
    }
  }
}

void Shim::DropClosed() {
  for (const Connection& connection : connections_) {
    if (!connection.socket.valid()) {
      KillExecsOf(connection.id);
    }
  }
  connections_.remove_if(
      [](const Connection& connection) { return !connection.socket.valid(); });
}

}  // namespace mountd::shim
