// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

namespace mountd::testing {

// Owns a task that has a copy of its own of the mount at a path, and keeps it
// when mountd unmounts its own. Never has any other mount of mountd's base in
// its mount namespace.
class CopyingTask {
 public:
  static constexpr char kPlace[] = "/run/place";  // must exist, a directory

  enum class Kind {
    kPrivate,        // a bind in a private mount namespace, as a runtime makes
    kShared,         // the same, shared with other namespaces of the task's
    kUserNamespace,  // in a user namespace of the task's own
    kOpenFile,       // an open directory alone; its bind is detached
    kHandedOn,       // in a namespace that another task made and has left
    kThread,         // in a thread's namespace, not in its process's
    kThreadAlone,    // the same, and the process's first thread has ended
    kChrooted,       // outside the root directory of the task
    kNamespace,      // in a namespace that only a descriptor keeps
  };

  CopyingTask(const std::string& source, Kind kind);
  ~CopyingTask() { End(); }
  CopyingTask(const CopyingTask&) = delete;
  CopyingTask& operator=(const CopyingTask&) = delete;

  pid_t pid() const { return pid_; }  // -1: the task could not be made
  // Makes a file of that name in the task's copy. Returns 0 or the errno.
  int Write(const std::string& name) const;
  // Sends SIGKILL, and returns when the task has ended.
  void End();

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

// Releases `volume`, a directory, in a naive way: it unmounts, and reports the
// volume as detached. True if a task that had a copy then still writes to the
// volume. Mounts on /run/naive, a directory that must exist.
bool NaiveReleaseLosesData(const std::string& volume, CopyingTask::Kind kind);

}  // namespace mountd::testing
