// SPDX-License-Identifier: LGPL-2.1-or-later
#include "netns/cni/guard.h"

#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>

#include "mountd/base/unique_fd.h"
#include "netns/cni/descendants.h"

namespace mountd::cni {
namespace {

constexpr std::chrono::milliseconds kOrphanGrace(2000);

sigset_t StopSignals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  for (const int signal : {SIGTERM, SIGINT, SIGHUP}) {
    ::sigaddset(&signals, signal);
  }
  return signals;
}

// Ends every process. Kills the cgroup first, because no process can fork
// faster than that; afterwards nothing delays the cgroup's removal.
void EndAll(const PluginCgroup& cgroup) {
  cgroup.Kill();
  KillDescendants(kOrphanGrace);
  cgroup.End();
}

// Runs `body` in the child. The signals have been blocked since before the
// fork, so none is missed.
int RunWorker(const PluginCgroup& cgroup, const std::function<int(int)>& body,
              pid_t parent, const sigset_t& signals) {
  // A session of its own, so that a kill of the guard's process group does not
  // reach the worker, which has to end the plugins.
  ::setsid();
  // The guard's death comes as SIGTERM, which makes `stop` readable.
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  const UniqueFd stop(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  // The guard may have died before the prctl(2); then no signal comes.
  if (::getppid() != parent || !AdoptOrphans() || !stop.valid()) {
    return EXIT_FAILURE;
  }
  // A plugin that closes its stdin must not end the worker.
  ::signal(SIGPIPE, SIG_IGN);
  const int status = body(stop.get());
  EndAll(cgroup);
  return status;
}

int WaitForWorker(pid_t worker) {
  int status = 0;
  for (;;) {
    const pid_t ended = ::waitpid(worker, &status, 0);
    if (ended == worker) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_FAILURE;
    }
    if (ended < 0 && errno != EINTR) {
      return EXIT_FAILURE;
    }
  }
}

}  // namespace

int RunGuarded(const PluginCgroup& cgroup,
               const std::function<int(int)>& body) {
  if (!AdoptOrphans()) {
    return EXIT_FAILURE;
  }
  const sigset_t signals = StopSignals();
  sigset_t before;
  ::sigprocmask(SIG_BLOCK, &signals, &before);
  const pid_t parent = ::getpid();
  const pid_t worker = ::fork();
  if (worker < 0) {
    return EXIT_FAILURE;
  }
  if (worker == 0) {
    ::_exit(RunWorker(cgroup, body, parent, signals));
  }
  // If one of the signals ends this process, PR_SET_PDEATHSIG tells the worker.
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  const int status = WaitForWorker(worker);
  EndAll(cgroup);
  return status;
}

}  // namespace mountd::cni
