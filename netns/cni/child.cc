// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <string_view>
#include <utility>

#include "mountd/base/pipe.h"
#include "mountd/base/unique_fd.h"
#include "netns/cni/descendants.h"
#include "netns/cni/documents/limits.h"

namespace mountd::cni {
namespace {

using End = ChildOutcome::End;

// The time that killed processes may take to be gone.
constexpr std::chrono::milliseconds kKillGrace(2000);

struct Pipes {
  Pipe in;
  Pipe out;
  Pipe err;
};

Result<Pipes> MakePipes() {
  Pipes pipes;
  MOUNTD_ASSIGN(pipes.in, MakePipe(""));
  MOUNTD_ASSIGN(pipes.out, MakePipe(""));
  MOUNTD_ASSIGN(pipes.err, MakePipe(""));
  // This process's ends must not block, because one loop serves all three.
  for (const UniqueFd* ours :
       {&pipes.in.write, &pipes.out.read, &pipes.err.read}) {
    if (::fcntl(ours->get(), F_SETFL, O_NONBLOCK) != 0) {
      return ErrnoError(errno, "fcntl", "");
    }
  }
  return pipes;
}

// Returns pointers to the words, ended by a null, as execve(2) takes them.
std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  return pointers;
}

void ResetSignals() {
  // An ignored signal stays ignored over execve(2), so reset all of them.
  for (int number = 1; number < NSIG; ++number) {
    ::signal(number, SIG_DFL);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Makes the pipes the standard fds. Moves the pipes' ends up first, because a
// standard fd may be missing and a pipe may have its number.
bool TakeStandardFds(const Pipes& pipes) {
  constexpr int kAboveStandard = 3;
  const std::array<int, 3> ends = {pipes.in.read.get(), pipes.out.write.get(),
                                   pipes.err.write.get()};
  std::array<int, 3> high{};
  for (std::size_t i = 0; i < ends.size(); ++i) {
    high[i] = ::fcntl(ends[i], F_DUPFD_CLOEXEC, kAboveStandard);
  }
  for (std::size_t i = 0; i < high.size(); ++i) {
    if (high[i] < 0 || ::dup2(high[i], static_cast<int>(i)) < 0) {
      return false;
    }
  }
  // Close everything else, so that the plugin inherits nothing.
  return ::close_range(kAboveStandard, ~0U, 0) == 0;
}

[[noreturn]] void Execute(const char* program, const Pipes& pipes,
                          char* const* environment, const PluginCgroup& cgroup,
                          pid_t parent) {
  // A session of its own, so that Finish can kill the whole group.
  ::setsid();
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // The parent died before PR_SET_PDEATHSIG was set, so no signal will come.
  if (::getppid() != parent) {
    ::_exit(kNotExecuted);
  }
  // Entering the cgroup here is as good as CLONE_INTO_CGROUP, because only this
  // code runs before. A filter of system calls may refuse clone3(2), which has
  // that flag.
  cgroup.Enter();
  ResetSignals();
  ::umask(S_IWGRP | S_IWOTH);
  if (!TakeStandardFds(pipes) || ::chdir("/") != 0) {
    ::_exit(kNotExecuted);
  }
  std::string name = program;
  std::array<char*, 2> arguments = {name.data(), nullptr};
  ::execve(program, arguments.data(), environment);
  ::_exit(kNotExecuted);
}

// One running child and this process's ends of its pipes.
class Running {
 public:
  Running(pid_t pid, Pipes pipes, const ChildSpec& spec,
          const PluginCgroup& cgroup)
      : pid_(pid),
        // Not glibc 2.36's function, because its header lacks extern "C".
        process_(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))),
        in_(std::move(pipes.in.write)),
        out_(std::move(pipes.out.read)),
        err_(std::move(pipes.err.read)),
        input_(spec.input),
        max_output_(spec.max_output),
        cgroup_(cgroup) {}

  ChildOutcome ToItsEnd(const Deadline& deadline, int stop) {
    ChildOutcome outcome;
    outcome.end = Serve(deadline, stop, outcome);
    Finish(outcome);
    return outcome;
  }

 private:
  // Serves the pipes until the child ends or must be ended.
  End Serve(const Deadline& deadline, int stop, ChildOutcome& outcome) {
    while (!deadline.Passed() && process_.valid()) {
      std::array<pollfd, 5> fds = {{{process_.get(), POLLIN, 0},
                                    {stop, POLLIN, 0},
                                    {out_.get(), POLLIN, 0},
                                    {err_.get(), POLLIN, 0},
                                    {in_.get(), POLLOUT, 0}}};
      if (::poll(fds.data(), fds.size(),
                 static_cast<int>(deadline.Left().count())) < 0) {
        // EINTR: wait again, until the deadline.
        continue;
      }
      if (fds[1].revents != 0) {
        return End::kStopped;
      }
      if (!MoveBytes(fds[2].revents != 0, fds[3].revents != 0,
                     fds[4].revents != 0, outcome)) {
        return End::kTooMuchOutput;
      }
      if (fds[0].revents != 0) {
        return End::kExited;
      }
    }
    return End::kDeadline;
  }

  // Returns false if the child has written too much.
  bool MoveBytes(bool out, bool err, bool in, ChildOutcome& outcome) {
    if (out) {
      ReadSome(out_, max_output_ + 1, outcome.out);
    }
    if (err) {
      ReadSome(err_, kMaxStderrBytes, outcome.err);
    }
    if (in) {
      WriteSome();
    }
    return outcome.out.size() <= max_output_;
  }

  // Reads and drops output beyond `limit`, so that the child never waits for
  // this process.
  static bool ReadSome(UniqueFd& fd, std::size_t limit, std::string& text) {
    std::array<char, 16384> buffer{};
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
      return false;
    }
    if (got <= 0) {
      fd.reset();
      return false;
    }
    const auto bytes = static_cast<std::size_t>(got);
    const std::size_t room = limit - std::min(limit, text.size());
    text.append(buffer.data(), std::min(bytes, room));
    return true;
  }

  void WriteSome() {
    const ssize_t put = ::write(in_.get(), input_.data(), input_.size());
    if (put > 0) {
      input_.remove_prefix(static_cast<std::size_t>(put));
    }
    // If the child does not read its input, it has ended, or its answer will
    // say why.
    if ((put < 0 && errno != EAGAIN && errno != EINTR) || input_.empty()) {
      in_.reset();
    }
  }

  // Kills the child and every process that it started, and reads its last
  // output. Kills the cgroup first, because the kernel kills the whole cgroup
  // at once, even if the child forks fast. Kills the session's group before it
  // reaps the child, because until then no other process can have the group's
  // number.
  void Finish(ChildOutcome& outcome) {
    cgroup_.Kill();
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    pollfd ended = {process_.get(), POLLIN, 0};
    const Deadline grace = Deadline::After(kKillGrace);
    while (process_.valid() && !grace.Passed() &&
           ::poll(&ended, 1, static_cast<int>(grace.Left().count())) < 0) {
    }
    int status = 0;
    const bool reaped = ::waitpid(pid_, &status, WNOHANG) == pid_;
    outcome.stuck = !KillDescendants(kKillGrace) || !reaped;
    while (out_.valid() && outcome.out.size() <= max_output_ &&
           ReadSome(out_, max_output_ + 1, outcome.out)) {
    }
    while (err_.valid() && ReadSome(err_, kMaxStderrBytes, outcome.err)) {
    }
    if (outcome.end != End::kExited) {
      return;
    }
    if (outcome.out.size() > max_output_) {
      outcome.end = End::kTooMuchOutput;
    } else if (WIFSIGNALED(status)) {
      outcome.end = End::kKilled;
      outcome.status = WTERMSIG(status);
    } else {
      outcome.status = WEXITSTATUS(status);
    }
  }

  pid_t pid_;
  UniqueFd process_;
  UniqueFd in_;
  UniqueFd out_;
  UniqueFd err_;
  std::string_view input_;
  std::size_t max_output_;
  const PluginCgroup& cgroup_;
};

}  // namespace

Result<ChildOutcome> RunChild(const ChildSpec& spec, const PluginCgroup& cgroup,
                              const Deadline& deadline, int stop) {
  MOUNTD_ASSIGN(Pipes pipes, MakePipes());
  std::vector<std::string> environment = spec.environment;
  const std::vector<char*> pointers = Pointers(environment);
  const pid_t parent = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) {
    return ForkError(errno, "fork", "");
  }
  if (child == 0) {
    Execute(spec.program.c_str(), pipes, pointers.data(), cgroup, parent);
  }
  // These ends are the child's.
  pipes.in.read.reset();
  pipes.out.write.reset();
  pipes.err.write.reset();
  return Running(child, std::move(pipes), spec, cgroup)
      .ToItsEnd(deadline, stop);
}

}  // namespace mountd::cni
