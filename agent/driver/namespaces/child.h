// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <vector>

#include "agent/driver/namespaces/deadline.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// A child's message: the step that the child has done (`error` is 0), or the
// step that failed, with its errno.
struct ChildReport {
  int step = 0;
  int error = 0;
};

// Owns a forked child that works in other namespaces, and a socket to the
// child. Kills the child in the destructor. Any thread; the process may have
// other threads. The child ends when the caller's thread ends
// (PR_SET_PDEATHSIG) or closes the socket. Somebody else may reap the child
// first: the kernel does so in a process that ignores SIGCHLD.
class Child {
 public:
  // Runs in the child, and may call only async-signal-safe functions
  // (signal-safety(7)), because another thread of the parent may hold any lock.
  // `socket` is the child's end. `data` is the child's copy of the parent's.
  using Body = void (*)(int socket, const void* data);

  // The child has no fds but its socket and `kept`, and all signals blocked.
  static Result<Child> Fork(Body body, const void* data,
                            std::vector<int> kept = {});
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  Child(Child&& other) noexcept = default;
  Child& operator=(Child&&) = delete;

  pid_t pid() const { return pid_; }
  // Waits for the next report. DeadlineExceeded at the deadline. Unavailable if
  // the child ends without a report, because somebody killed it.
  Result<ChildReport> Receive(const Deadline& deadline) const;
  // Says whether the child has ended.
  bool HasEnded() const;
  // Ends the child's wait in AwaitParent.
  Result<void> Send() const;

 private:
  Child(pid_t pid, UniqueFd process, UniqueFd socket);

  pid_t pid_ = -1;
  UniqueFd process_;
  UniqueFd socket_;
};

// The child's side of the socket. Both functions are async-signal-safe. Each
// ends the child if the parent has closed its end.
void ReportStep(int socket, int step, int error);
void AwaitParent(int socket);

// Returns a pidfd of a child. An error with ECHILD if somebody else has waited
// for the child. Kills the child and waits for it after any other error, such
// as EMFILE.
Result<UniqueFd> PidfdOfChild(pid_t child, const char* what);

// Waits until the process of this pidfd ends, and kills it at the deadline.
// Returns its status as waitid(2) gives it: si_code and si_status; -1 as code
// if somebody else has waited for it; DeadlineExceeded if it was killed here.
struct EndOfProcess {
  int code = -1;
  int status = 0;
};
Result<EndOfProcess> AwaitEnd(int process, const Deadline& deadline,
                              const char* what);

}  // namespace mountd::driver
