// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/polkit_agent.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::agent {
namespace {

constexpr char kProgram[] = "/usr/bin/pkttyagent";
constexpr int kMostMsToRegister = 5000;

// Runs in the child.
[[noreturn]] void Become(const std::string& notify_fd, pid_t parent) {
  // The parent may have ended before prctl, and then no signal comes.
  if (prctl(PR_SET_PDEATHSIG, SIGTERM) == 0 && getppid() == parent) {
    execl(kProgram, kProgram, "--fallback", "--notify-fd", notify_fd.c_str(),
          static_cast<char*>(nullptr));
  }
  _exit(1);
}

}  // namespace

PolkitAgent::PolkitAgent() {
  // Without a terminal pkttyagent has nowhere to ask.
  if (isatty(STDIN_FILENO) == 0 || access(kProgram, X_OK) != 0) {
    return;
  }
  // pkttyagent closes its end of the pipe once it is registered.
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) {
    return;
  }
  const UniqueFd mine(ends[0]);
  UniqueFd its(ends[1]);
  const std::string notify_fd = std::to_string(its.get());
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    // Clears close-on-exec, so that pkttyagent gets its end of the pipe.
    fcntl(its.get(), F_SETFD, 0);
    Become(notify_fd, parent);
  }
  // Closes this copy of pkttyagent's end, because poll reports the end of the
  // pipe only once all copies are closed.
  its.reset();
  pollfd entry{mine.get(), POLLIN, 0};
  // After this time mountctl no longer waits for pkttyagent.
  poll(&entry, 1, kMostMsToRegister);
}

PolkitAgent::~PolkitAgent() {
  if (pid_ > 0) {
    kill(pid_, SIGTERM);
    // SIGCONT, because a stopped process would not act on SIGTERM.
    kill(pid_, SIGCONT);
    waitpid(pid_, nullptr, 0);
  }
}

}  // namespace mountd::agent
