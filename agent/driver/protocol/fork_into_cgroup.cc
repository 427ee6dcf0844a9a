// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/protocol/fork_into_cgroup.h"

#include <fcntl.h>
#include <linux/sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <csignal>

namespace mountd::shim {

ForkedInto ForkIntoCgroup(int cgroup) {
  if (cgroup < 0) {
    return {::fork(), true};
  }
  clone_args arguments{};
  arguments.flags = CLONE_INTO_CGROUP;
  arguments.exit_signal = SIGCHLD;
  arguments.cgroup = static_cast<__u64>(cgroup);
  const auto pid =
      static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof(arguments)));
  if (pid >= 0) {
    return {pid, true};
  }
  // clone3(2) fails on a kernel before 5.7 and with some seccomp filters, and
  // if the cgroup's pids.max is reached. pids.max stops a new process only, and
  // not a process that moves, so a child of fork(2) may still join. JoinCgroup
  // has an error of its own.
  return {::fork(), false};
}

bool JoinCgroup(int cgroup) {
  const int procs = ::openat(cgroup, "cgroup.procs", O_WRONLY | O_CLOEXEC);
  if (procs < 0 || ::write(procs, "0", 1) != 1) {
    return false;
  }
  ::close(procs);
  return true;
}

}  // namespace mountd::shim
