// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/shim/runtime.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "agent/driver/protocol/fork_into_cgroup.h"
#include "agent/driver/shim/root_file_system.h"
#include "mountd/base/one_line.h"

namespace mountd::shim {
namespace {

// An error quotes only the end of a longer log, because runtimes write the
// cause last.
constexpr off_t kMostLog = 2048;
constexpr int kNotStarted = 126;

// The child ends, because it cannot become the runtime.
[[noreturn]] void FailChild(const char* what, int log) {
  const std::string text =
      std::string("cannot ") + what + ": " + std::strerror(errno);
  if (::write(log, text.data(), text.size()) < 0) {
    ::_exit(kNotStarted);
  }
  ::_exit(kNotStarted);
}

// The cgroup in which the program begins; -1: the shim's own.
int CgroupOf(const Setup& setup, Place place) {
  // runc refuses a cgroup that already has a process.
  const bool stays = place == Place::kShim ||
                     (place == Place::kContainer && setup.runtime_joins);
  return stays ? -1 : setup.cgroup.get();
}

// Gives the child 0, 1 and 2. `stdio` may have these numbers in another order,
// so each fd is copied above them first.
void SetStdio(std::array<int, 3> stdio, int log) {
  for (int& fd : stdio) {
    fd = ::fcntl(fd, F_DUPFD_CLOEXEC, 3);
  }
  for (int number = 0; number < 3; ++number) {
    if (::dup2(stdio.at(static_cast<std::size_t>(number)), number) < 0) {
      FailChild("set standard input and output", log);
    }
  }
}

// All signals are blocked in the shim.
void UnblockSignals() {
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

// Makes the kernel end the runtime with the shim, because a runtime without its
// shim would make a container that nobody knows. The kernel clears this setting
// when the process changes its ids, so BecomeRuntime calls this function twice.
void EndWith(pid_t shim, int log) {
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || ::getppid() != shim) {
    FailChild("end with the shim", log);
  }
}

[[noreturn]] void BecomeRuntime(const Setup& setup, Place place,
                                const std::vector<char*>& words,
                                const std::array<int, 3>& stdio, int log,
                                int inherited, pid_t shim) {
  UnblockSignals();
  EndWith(shim, log);
  if (place != Place::kShim) {
    if (const char* failed = JoinNamespaces(setup)) {
      FailChild(failed, log);
    }
  }
  if (place == Place::kContainer) {
    if (const char* failed = MountRoot(setup)) {
      FailChild(failed, log);
    }
  }
  EndWith(shim, log);
  SetStdio(stdio, log);
  ::fcntl(log, F_SETFD, 0);
  if (inherited >= 0) {
    ::fcntl(inherited, F_SETFD, 0);
  }
  ::execvp(words[0], words.data());
  FailChild("run the runtime", log);
}

// Returns the end of what the runtime has written to its log.
std::string EndOfLog(int log) {
  struct stat file = {};
  if (::fstat(log, &file) != 0 || file.st_size <= 0) {
    return "";
  }
  const off_t size = std::min(file.st_size, kMostLog);
  std::string text(static_cast<std::size_t>(size), '\0');
  const ssize_t got =
      ::pread(log, text.data(), text.size(), file.st_size - size);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  while (!text.empty() && text.back() == '\n') {
    text.pop_back();
  }
  return OnOneLine(text);
}

}  // namespace

Result<RuntimeRun> StartRuntime(const Setup& setup, Place place,
                                const std::vector<std::string>& arguments,
                                const std::array<int, 3>& stdio,
                                int inherited) {
  RuntimeRun run;
  run.log.reset(::memfd_create("runtime.log", MFD_CLOEXEC));
  if (!run.log.valid()) {
    return ErrnoError(errno, "memfd_create", setup.container);
  }
  std::vector<std::string> words = {
      setup.runtime.front(), "--root=" + setup.runtime_root,
      "--log=/proc/self/fd/" + std::to_string(run.log.get())};
  words.insert(words.end(), setup.runtime.begin() + 1, setup.runtime.end());
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& word : words) {
    pointers.push_back(word.data());
  }
  pointers.push_back(nullptr);
  const pid_t shim = ::getpid();
  const int cgroup = CgroupOf(setup, place);
  const ForkedInto forked = ForkIntoCgroup(cgroup);
  run.pid = forked.pid;
  if (run.pid < 0) {
    return ForkError(errno, "fork", setup.container);
  }
  if (run.pid == 0) {
    if (!forked.joined && !JoinCgroup(cgroup)) {
      FailChild("join the cgroup", run.log.get());
    }
    BecomeRuntime(setup, place, pointers, stdio, run.log.get(), inherited,
                  shim);
  }
  return run;
}

Error RunError(const RuntimeRun& run, int status, const std::string& verb) {
  if (WIFSIGNALED(status)) {
    return MakeError(Code::kAborted, verb, "the OCI runtime",
                     "was killed by signal " +
                         std::to_string(WTERMSIG(status)) + "; call again");
  }
  const std::string text = EndOfLog(run.log.get());
  return MakeError(Code::kFailedPrecondition, verb, "the OCI runtime",
                   "exit status " + std::to_string(WEXITSTATUS(status)) +
                       (text.empty() ? "" : ": " + text));
}

}  // namespace mountd::shim
