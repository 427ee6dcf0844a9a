// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// Owns a child process; kills it and waits for it in the destructor.
class Process {
 public:
  Process() = default;
  // Runs argv[0]; `fd3`, if valid, becomes its fd 3.
  explicit Process(const std::vector<std::string>& argv,
                   const UniqueFd& fd3 = UniqueFd());
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Waits for the end. Returns the exit status, or -1 after a signal.
  int Wait();
  void KillAndWait();

 private:
  pid_t pid_ = -1;
};

// Returns the open fds of a process, by what they are ("socket",
// "anon_inode:…", a path).
std::vector<std::string> OpenFds(pid_t pid);

// Listen returns a socket that listens at `path`. ConnectWithin connects to it,
// with retries for `seconds`; ConnectNow tries once.
UniqueFd Listen(const std::string& path);
UniqueFd ConnectWithin(const std::string& path, int seconds);
UniqueFd ConnectNow(const std::string& path);

}  // namespace mountd::testing
