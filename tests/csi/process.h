// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// A child process; killed and waited for on destruction.
class Process {
 public:
  Process() = default;
  // Runs argv[0]; `fd3`, if valid, is its fd 3.
  explicit Process(const std::vector<std::string>& argv,
                   const UniqueFd& fd3 = UniqueFd());
  ~Process();
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  // Waits; the exit status, or -1 if a signal ended it.
  int Wait();
  void KillAndWait();

 private:
  pid_t pid_ = -1;
};

// Open fds of a process, by what they are ("socket", "anon_inode:…", a path).
std::vector<std::string> OpenFds(pid_t pid);

// A listening socket at `path`; a connected one to it, tried until somebody
// listens or `seconds` are over.
UniqueFd Listen(const std::string& path);
UniqueFd ConnectWithin(const std::string& path, int seconds);
UniqueFd ConnectNow(const std::string& path);

}  // namespace mountd::testing
