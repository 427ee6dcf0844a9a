// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

namespace mountd::testing {

// Owns a task as a runtime starts it: a process in a mount namespace of its
// own, which follows the host's, and with `inbox` bound at kInbox as rslave.
class RunningTask {
 public:
  // The place of the inbox, a directory that must exist.
  static constexpr char kInbox[] = "/run/task-inbox";

  // With `user_namespace` the task also has a user namespace of its own, where
  // root is root.
  RunningTask(const std::string& inbox, bool user_namespace);
  ~RunningTask();
  RunningTask(const RunningTask&) = delete;
  RunningTask& operator=(const RunningTask&) = delete;

  // Runs `body` in a process in the task's namespaces, as the task's root.
  // Returns its answer, 0 to 127, or 255 if it could not be run.
  int Do(const std::function<int()>& body) const;
  bool Sees(const std::string& path) const;  // a path below kInbox
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

}  // namespace mountd::testing
