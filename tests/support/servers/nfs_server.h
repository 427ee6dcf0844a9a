// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// Owns the kernel's NFS server (version 4) in mount and network namespaces of
// its own. The network namespace that this is made in must be the test's own,
// and reaches the server at kNfsAddress. The server exports a tmpfs as "/",
// with a directory `dir` and a file `mark`.
class NfsServer {
 public:
  // Returns the modules or programs that this machine lacks for it, or "".
  static std::string Missing();

  NfsServer();
  // Makes the server reachable first, because clients that are still mounted
  // would hang.
  ~NfsServer();
  NfsServer(const NfsServer&) = delete;
  NfsServer& operator=(const NfsServer&) = delete;
  bool valid() const { return valid_; }

  // Drops every packet silently.
  bool Cut() { return Do("cut"); }
  bool Restore() { return Do("restore"); }

 private:
  // Runs the command in the server's process. False if it failed.
  bool Do(const std::string& command);

  pid_t pid_ = -1;
  UniqueFd commands_;  // carries the answers, too
  bool valid_ = false;
};

inline constexpr char kNfsAddress[] = "192.0.2.2";

}  // namespace mountd::testing
