// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Processes that callers add to the container.
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>
#include <utility>
#include <vector>

#include "agent/driver/shim/family.h"
#include "agent/driver/shim/shim.h"
#include "mountd/base/fd_message.h"

namespace mountd::shim {
namespace {

constexpr std::size_t kMostExecs = 128;
constexpr std::size_t kFdsWithPipes = 4;    // process.json, 0, 1 and 2
constexpr std::size_t kFdsWithConsole = 1;  // process.json

// Receives the master of the pty, which the runtime has sent before its end.
Result<UniqueFd> ReceivePty(int console) {
  const UniqueFd socket(
      ::accept4(console, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  std::array<std::byte, 64> name{};
  Result<Received, int> received = socket.valid()
                                       ? ReceiveWithFds(socket.get(), name, 1)
                                       : Result<Received, int>(errno);
  if (!received) {
    return ErrnoError(received.error(), "recvmsg", "console socket");
  }
  if (received->fds.size() != 1 || received->more_fds ||
      ::isatty(received->fds[0].get()) != 1) {
    return MakeError(Code::kInternal, "exec", "the OCI runtime",
                     "sent something other than one terminal");
  }
  return std::move(received->fds[0]);
}

}  // namespace

Result<void> Shim::HandleExec(const Connection& connection,
                              const Incoming& incoming) {
  if (state_ != State::kRunning) {
    return MakeError(Code::kFailedPrecondition, "exec", "the task",
                     "is not running");
  }
  if (execs_.size() >= kMostExecs) {
    return MakeError(Code::kResourceExhausted, "exec", "the task",
                     "has 128 processes of exec already; end one");
  }
  const bool has_console = incoming.message->Number(Tag::kConsole) != 0;
  const auto& fds = incoming.fds;
  if (fds.size() != (has_console ? kFdsWithConsole : kFdsWithPipes)) {
    return MakeError(Code::kInvalidArgument, "exec", "the request",
                     "has another number of fds");
  }
  Exec exec;
  exec.id = ++last_id_;
  exec.connection = connection.id;
  std::vector<std::string> arguments = {
      "exec",
      "--process",
      "/proc/self/fd/" + std::to_string(fds[0].get()),
      "--detach",
      "--pid-file",
      setup_.directory + "/" + ExecFile(exec, ".pid")};
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  std::array<int, 3> stdio = {null.get(), null.get(), null.get()};
  if (has_console) {
    MOUNTD_TRY(OpenConsole(exec));
    // Passes the file's name and no path, because a socket's path has at most
    // 107 bytes. The runtime has the task's directory as its working directory.
    arguments.insert(arguments.end(),
                     {"--console-socket", ExecFile(exec, ".sock")});
  } else {
    stdio = {fds[1].get(), fds[2].get(), fds[3].get()};
  }
  arguments.push_back(setup_.container);
  auto run =
      StartRuntime(setup_, Place::kNamespaces, arguments, stdio, fds[0].get());
  if (!run) {
    ::unlinkat(setup_.task_directory.get(), ExecFile(exec, ".sock").c_str(), 0);
    return run.error();
  }
  programs_.push_back({Purpose::kExec, *std::move(run), exec.id});
  execs_.push_back(std::move(exec));
  return Ok();
}

Result<void> Shim::OpenConsole(Exec& exec) {
  exec.console.reset(
      ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  ExecFile(exec, ".sock")
      .copy(&address.sun_path[0], sizeof(address.sun_path) - 1);
  const auto* generic =
      static_cast<const sockaddr*>(static_cast<const void*>(&address));
  if (!exec.console.valid() ||
      ::bind(exec.console.get(), generic, sizeof(address)) != 0 ||
      ::listen(exec.console.get(), 1) != 0) {
    return ErrnoError(errno, "bind", "console socket");
  }
  return Ok();
}

// Called when the runtime has ended. The runtime has made the process, or has
// failed.
void Shim::OnExecMade(Exec& exec, const RuntimeRun& run, int status) {
  const auto told = status == 0 ? TellExec(exec)
                                : Result<void>(RunError(run, status, "exec"));
  for (const char* suffix : {".pid", ".sock"}) {
    ::unlinkat(setup_.task_directory.get(), ExecFile(exec, suffix).c_str(), 0);
  }
  exec.console.reset();
  if (!told) {
    AnswerTo(exec.connection, Message::Failed(told.error()));
  }
  if (exec.pid < 0) {
    exec.pid = 0;
  } else if (!told || exec.connection == 0) {
    KillFamily(exec.pid, init_);
  }
}

Result<void> Shim::TellExec(Exec& exec) {
  MOUNTD_ASSIGN(Child child, Adopt(ExecFile(exec, ".pid")));
  exec.pid = child.pid;
  exec.pidfd = std::move(child.pidfd);
  std::vector<int> fds = {exec.pidfd.get()};
  UniqueFd pty;
  if (exec.console.valid()) {
    MOUNTD_ASSIGN(pty, ReceivePty(exec.console.get()));
    fds.push_back(pty.get());
  }
  Message started(Kind::kExecStarted);
  started.Add(Tag::kPid, static_cast<std::uint64_t>(exec.pid));
  AnswerTo(exec.connection, started, fds);
  return Ok();
}

void Shim::OnExecEnded(Exec& exec, int status) {
  AnswerTo(exec.connection, ExitedMessage(status));
  exec.pid = 0;
  exec.pidfd.reset();
}

void Shim::KillExecsOf(std::uint64_t connection) {
  for (Exec& exec : execs_) {
    if (exec.connection == connection) {
      exec.connection = 0;
      if (exec.pid > 0) {
        KillFamily(exec.pid, init_);
        continue;
      }
      // The container can stop a process that enters it, and the runtime then
      // waits for ever. Reap kills what the runtime leaves.
      for (const Program& program : programs_) {
        if (program.purpose == Purpose::kExec && program.exec == exec.id) {
          ::kill(program.run.pid, SIGKILL);
        }
      }
    }
  }
}

std::string Shim::ExecFile(const Exec& exec, const char* suffix) {
  return "exec-" + std::to_string(exec.id) + suffix;
}

}  // namespace mountd::shim
