// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

#include "mountd/base/unique_fd.h"

namespace mountd::testing {

// The kernel's NFS server (version 4) in mount and network namespaces of its
// own, reached at kNfsAddress from the network namespace this was made in,
// which must be its own. Exports a tmpfs as "/", with a directory `dir` and a
// file `mark` in it.
class NfsServer {
 public:
  // Empty, or what this machine lacks for it: modules or programs.
  static std::string Missing();

  NfsServer();
  // First reachable again: clients of it that are still mounted would hang.
  ~NfsServer();
  NfsServer(const NfsServer&) = delete;
  NfsServer& operator=(const NfsServer&) = delete;
  bool valid() const { return valid_; }

  // Every packet is dropped without a word.
  bool Cut() { return Do("cut"); }
  bool Restore() { return Do("restore"); }

 private:
  // Has the server's process do it; false if that failed.
  bool Do(const std::string& command);

  pid_t pid_ = -1;
  UniqueFd commands_;  // and its answers
  bool valid_ = false;
};

inline constexpr char kNfsAddress[] = "192.0.2.2";

}  // namespace mountd::testing
