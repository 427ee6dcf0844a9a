// SPDX-License-Identifier: LGPL-2.1-or-later
//
// Processes that callers add to the container.
#include <dirent.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/driver/shim/shim.h"
#include "mountd/base/fd_message.h"
#include "mountd/base/number.h"

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

struct Lineage {
  pid_t parent = 0;
  pid_t session = 0;
};

// Returns the parent and the session of a process (proc(5), "stat"); nothing if
// it has ended.
std::optional<Lineage> LineageOf(const std::string& pid) {
  const UniqueFd file(
      ::open(("/proc/" + pid + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 512> text{};
  const ssize_t got =
      file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  std::string_view rest(text.data(),
                        static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  // The name may have blanks and parentheses. State, parent, group and session
  // follow, each after a blank.
  const std::size_t name_end = rest.rfind(')');
  rest.remove_prefix(name_end == std::string_view::npos ? rest.size()
                                                        : name_end + 1);
  std::array<std::optional<pid_t>, 4> numbers;
  for (std::optional<pid_t>& number : numbers) {
    if (rest.empty()) {
      return std::nullopt;
    }
    rest.remove_prefix(1);
    const std::size_t end = std::min(rest.find(' '), rest.size());
    number = ParseNumber<pid_t>(rest.substr(0, end));
    rest.remove_prefix(end);
  }
  if (!numbers[1] || !numbers[3]) {
    return std::nullopt;
  }
  return Lineage{*numbers[1], *numbers[3]};
}

// The processes that a process of exec has begun. Each of them is stopped once
// it is found, so that it neither forks nor ends before the kill: a parent's
// end would take the last trace from a child that has made a session of its
// own. A child whose parent had ended before, and that has left its session, is
// not found.
class ExecFamily {
 public:
  ExecFamily(pid_t first, int pidfd) : pids_({first}) { Send(pidfd, SIGSTOP); }

  void AddSession(pid_t session) { sessions_.insert(session); }

  // Finds and stops members until a look finds no other one.
  void Gather() {
    // A process may fork during a look.
    constexpr int kMostLooks = 16;
    for (int i = 0; i < kMostLooks && Look(); ++i) {
    }
  }

  // Children go before their parents, because a child is known by its parent.
  void Kill() const {
    for (auto pid = members_.rbegin(); pid != members_.rend(); ++pid) {
      SendToMember(*pid, SIGKILL);
    }
  }

 private:
  static void Send(int pidfd, int signal) {
    ::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0);
  }

  bool IsMember(const std::string& pid) const {
    const auto lineage = LineageOf(pid);
    return lineage && (pids_.contains(lineage->parent) ||
                       sessions_.contains(lineage->session));
  }

  bool Look() {
    bool has_found = false;
    const std::unique_ptr<DIR, int (*)(DIR*)> all(::opendir("/proc"),
                                                  ::closedir);
    while (const dirent* entry = all ? ::readdir(all.get()) : nullptr) {
      const std::string name = &entry->d_name[0];
      const auto pid = ParseNumber<pid_t>(name);
      if (!pid || pids_.contains(*pid) || !IsMember(name)) {
        continue;
      }
      if (SendToMember(*pid, SIGSTOP)) {
        Add(*pid, LineageOf(name));
        has_found = true;
      }
    }
    return has_found;
  }

  // False if the process has ended. The pidfd is of the process that the look
  // after its opening finds, not of an earlier one with that pid. One fd is
  // open at a time, because a task may have more processes than the shim fds.
  bool SendToMember(pid_t pid, int signal) const {
    const UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    if (!pidfd.valid() || !IsMember(std::to_string(pid))) {
      return false;
    }
    Send(pidfd.get(), signal);
    return true;
  }

  // A session that a member leads has members alone.
  void Add(pid_t pid, const std::optional<Lineage>& lineage) {
    pids_.insert(pid);
    members_.push_back(pid);
    if (lineage && pids_.contains(lineage->session)) {
      sessions_.insert(lineage->session);
    }
  }

  std::set<pid_t> pids_;
  std::set<pid_t> sessions_;
  std::vector<pid_t> members_;  // a parent before its children
};

// Kills a process of exec and what it has begun. The runtime gives it a session
// that neither the shim nor the task's first process has. The process stays a
// zombie meanwhile, so the numbers of process and session stay its own.
void KillExec(pid_t pid, int pidfd, pid_t init) {
  const auto lineage = LineageOf(std::to_string(pid));
  const auto of_init = LineageOf(std::to_string(init));
  ExecFamily family(pid, pidfd);
  if (lineage && lineage->session > 0 && lineage->session != ::getsid(0) &&
      (!of_init || lineage->session != of_init->session)) {
    family.AddSession(lineage->session);
  }
  family.Gather();
  family.Kill();
  ::syscall(SYS_pidfd_send_signal, pidfd, SIGKILL, nullptr, 0);
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
    // The name alone, because a socket's path has 107 bytes at most. The
    // runtime has the task's directory as its working directory.
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

// The runtime has ended: it has made the process, or has failed.
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
    KillExec(exec.pid, exec.pidfd.get(), init_);
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
        KillExec(exec.pid, exec.pidfd.get(), init_);
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
