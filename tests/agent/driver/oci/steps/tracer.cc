// SPDX-License-Identifier: LGPL-2.1-or-later
#include "tests/agent/driver/oci/steps/tracer.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <system_error>

namespace mountd::driver::testing {
namespace {

constexpr std::size_t kMostText = 64U << 10U;
constexpr char kChild[] = "-child";

const std::map<std::uint64_t, const char*>& Calls() {
  static const std::map<std::uint64_t, const char*> calls = {
      {SYS_write, "write"},
      {SYS_pwrite64, "pwrite"},
      {SYS_writev, "writev"},
      {SYS_mkdir, "mkdir"},
      {SYS_mkdirat, "mkdir"},
      {SYS_rmdir, "rmdir"},
      {SYS_unlink, "unlink"},
      {SYS_unlinkat, "unlink"},
      {SYS_rename, "rename"},
      {SYS_renameat, "rename"},
      {SYS_renameat2, "rename"},
      {SYS_link, "link"},
      {SYS_linkat, "link"},
      {SYS_symlink, "symlink"},
      {SYS_symlinkat, "symlink"},
      {SYS_mknod, "mknod"},
      {SYS_mknodat, "mknod"},
      {SYS_chmod, "chmod"},
      {SYS_fchmod, "chmod"},
      {SYS_fchmodat, "chmod"},
      {SYS_chown, "chown"},
      {SYS_fchown, "chown"},
      {SYS_lchown, "chown"},
      {SYS_fchownat, "chown"},
      {SYS_utimensat, "utimensat"},
      {SYS_ftruncate, "ftruncate"},
      {SYS_fsync, "fsync"},
      {SYS_fallocate, "fallocate"},
      {SYS_copy_file_range, "copy_file_range"},
      {SYS_sendfile, "sendfile"},
      {SYS_mount, "mount"},
      {SYS_umount2, "umount"},
      {SYS_mount_setattr, "mount_setattr"},
      {SYS_move_mount, "move_mount"},
      {SYS_fsmount, "fsmount"},
      {SYS_pivot_root, "pivot_root"},
      {SYS_sethostname, "sethostname"},
      {SYS_setns, "setns"},
      {SYS_unshare, "unshare"},
      {SYS_fork, "fork"},
      {SYS_vfork, "fork"},
      {SYS_clone, "fork"},
      {SYS_clone3, "fork"},
      {SYS_execve, "execve"},
      {SYS_kill, "kill"},
      {SYS_pidfd_send_signal, "kill"},
      {SYS_bind, "bind"},
      {SYS_connect, "connect"},
      {SYS_sendmsg, "sendmsg"},
      {SYS_sendto, "sendmsg"},
      {SYS_exit_group, "exit"},
  };
  return calls;
}

// A stream would throw if the process has ended.
std::string TextOf(const std::string& path) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  std::string text(4096, '\0');
  const ssize_t got =
      file.valid() ? ::read(file.get(), text.data(), text.size()) : 0;
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// The process that a thread belongs to; 0 if it has ended.
pid_t ProcessOf(pid_t thread) {
  std::istringstream status(
      TextOf("/proc/" + std::to_string(thread) + "/status"));
  for (std::string word; status >> word;) {
    if (word == "Tgid:") {
      pid_t process = 0;
      status >> process;
      return process;
    }
  }
  return 0;
}

std::string NameByArguments(pid_t process) {
  std::istringstream line(
      TextOf("/proc/" + std::to_string(process) + "/cmdline"));
  std::string name;
  std::string first;
  std::getline(line, name, '\0');
  std::getline(line, first, '\0');
  name = name.substr(name.rfind('/') + 1);
  return name == "runc" && first == "init" ? "runc-init" : name;
}

std::string NameOfChild(const std::string& parent) {
  // All processes that runc's second program forks have its name.
  return parent == "runc-init" || parent.ends_with(kChild) ? parent
                                                           : parent + kChild;
}

// Traces one process and all that come from it, until it ends. Has one thread.
class Trace {
 public:
  Trace(pid_t top, TracedStep step) : top_(top), step_(std::move(step)) {}

  bool Seize(pid_t process) {
    constexpr long kOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACEFORK |
                              PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
                              PTRACE_O_TRACEEXEC;
    names_[process] =
        process == top_ ? kTracedDriver : NameByArguments(process);
    return ::ptrace(PTRACE_SEIZE, process, nullptr, kOptions) == 0;
  }

  void Run() {
    for (;;) {
      int status = 0;
      const pid_t thread = ::waitpid(-1, &status, __WALL);
      if (thread < 0 && errno == EINTR) {
        continue;
      }
      if (thread < 0 || (thread == top_ && !WIFSTOPPED(status))) {
        return;
      }
      if (WIFSTOPPED(status)) {
        Stopped(thread, status);
      }
    }
  }

  std::string Text() const {
    std::string text = killed_ ? "1\n" : "0\n";
    for (const auto& [name, count] : counts_) {
      text += name + " " + std::to_string(count) + "\n";
    }
    return text;
  }

 private:
  void Stopped(pid_t thread, int status) {
    const int signal = WSTOPSIG(status);
    const int event = static_cast<int>(static_cast<unsigned>(status) >> 16U);
    switch (event) {
      case PTRACE_EVENT_FORK:
      case PTRACE_EVENT_VFORK:
      case PTRACE_EVENT_CLONE:
        HasForked(thread);
        break;
      case PTRACE_EVENT_EXEC:
        names_[thread] = NameByArguments(thread);
        break;
      case PTRACE_EVENT_STOP:
        if (signal != SIGTRAP) {
          // Stopped by SIGSTOP or the like, and goes on by SIGCONT.
          ::ptrace(PTRACE_LISTEN, thread, nullptr, 0);
          return;
        }
        if (!names_.contains(ProcessOf(thread))) {
          nameless_.insert(thread);  // its parent's event comes next
          return;
        }
        break;
      default:
        if (signal == (SIGTRAP | 0x80)) {
          AtCall(thread);
          break;
        }
        Resume(thread, signal);
        return;
    }
    Resume(thread, 0);
  }

  void HasForked(pid_t parent) {
    unsigned long made = 0;
    ::ptrace(PTRACE_GETEVENTMSG, parent, nullptr, &made);
    const auto child = static_cast<pid_t>(made);
    const pid_t process = ProcessOf(child);
    // A thread has its process's name.
    if (process == 0 || process == child) {
      names_[child] = NameOfChild(names_[ProcessOf(parent)]);
    }
    if (nameless_.erase(child) != 0) {
      Resume(child, 0);
    }
  }

  void Resume(pid_t thread, int signal) {
    const auto name = names_.find(ProcessOf(thread));
    const bool counts = name != names_.end() && name->second == step_.program;
    ::ptrace(counts ? PTRACE_SYSCALL : PTRACE_CONT, thread, nullptr, signal);
  }

  void AtCall(pid_t thread) {
    __ptrace_syscall_info info{};
    if (::ptrace(PTRACE_GET_SYSCALL_INFO, thread, sizeof(info), &info) <= 0 ||
        info.op != PTRACE_SYSCALL_INFO_ENTRY) {
      return;
    }
    const auto found = Calls().find(info.entry.nr);
    if (found == Calls().end() || MakesThread(thread, info)) {
      return;
    }
    const std::string name = found->second;
    if (++counts_[name] == step_.nth && name == step_.call && !killed_) {
      killed_ = true;
      Kill(thread);
    }
  }

  // A parent can wait for a child only once the child has no tracer. So a
  // thread that is alone dies without one, before its system call.
  static void Kill(pid_t thread) {
    const pid_t process = ProcessOf(thread);
    std::error_code ended;
    const std::filesystem::directory_iterator threads(
        "/proc/" + std::to_string(process) + "/task", ended);
    if (std::distance(begin(threads), end(threads)) > 1 ||
        ::ptrace(PTRACE_DETACH, thread, nullptr, SIGKILL) != 0) {
      ::kill(process, SIGKILL);
    }
  }

  static bool MakesThread(pid_t thread, const __ptrace_syscall_info& info) {
    std::uint64_t flags = 0;
    if (info.entry.nr == SYS_clone) {
      flags = info.entry.args[0];
    } else if (info.entry.nr == SYS_clone3) {
      errno = 0;
      flags = static_cast<std::uint64_t>(
          ::ptrace(PTRACE_PEEKDATA, thread, info.entry.args[0], nullptr));
    }
    return (flags & CLONE_THREAD) != 0;
  }

  const pid_t top_;
  const TracedStep step_;
  std::map<pid_t, std::string> names_;  // by process
  std::set<pid_t> nameless_;            // threads that wait for a name
  std::map<std::string, int> counts_;
  bool killed_ = false;
};

void Send(int socket, const std::string& text) {
  static_cast<void>(::send(socket, text.data(), text.size(), MSG_NOSIGNAL));
}

std::string Receive(int socket) {
  std::string text(kMostText, '\0');
  const ssize_t got = ::recv(socket, text.data(), text.size(), 0);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return text;
}

// Each trace is a process of its own, because the kernel lets all processes go
// whose tracer has ended.
[[noreturn]] void Serve(int socket) noexcept {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  for (std::string text; !(text = Receive(socket)).empty();) {
    const pid_t tracer = ::fork();
    if (tracer == 0) {
      std::istringstream words(text);
      pid_t process = 0;
      TracedStep step;
      words >> process >> step.nth >> step.program >> step.call;
      Trace trace(process, step);
      bool seized = true;
      do {
        seized = trace.Seize(process) && seized;
      } while (words >> process);
      Send(socket, seized ? "seized" : "not seized");
      if (seized) {
        trace.Run();
        Send(socket, trace.Text());
      }
      ::_exit(0);
    }
    ::waitpid(tracer, nullptr, 0);
  }
  ::_exit(0);
}

}  // namespace

Tracer::Tracer() {
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) !=
      0) {
    return;
  }
  if (::fork() == 0) {
    ::close(ends[0]);
    Serve(ends[1]);
  }
  ::close(ends[1]);
  socket_.reset(ends[0]);
}

bool Tracer::Begin(pid_t process, const std::vector<pid_t>& others,
                   const TracedStep& step) const {
  std::string text = std::to_string(process) + " " + std::to_string(step.nth) +
                     " " + step.program + " " + step.call;
  for (const pid_t other : others) {
    text += " " + std::to_string(other);
  }
  Send(socket_.get(), text);
  return Receive(socket_.get()) == "seized";
}

TracedSteps Tracer::End() const {
  TracedSteps steps;
  std::istringstream words(Receive(socket_.get()));
  words >> steps.killed;
  std::string name;
  for (int count = 0; words >> name >> count;) {
    steps.calls[name] = count;
  }
  return steps;
}

}  // namespace mountd::driver::testing
