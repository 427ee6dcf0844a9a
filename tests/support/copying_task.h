// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <string>

namespace mountd::testing {

// A task that has a copy of its own of what is mounted at a path: what mountd
// unmounts, it keeps. Its mount namespace has nothing else of mountd's base.
class CopyingTask {
 public:
  static constexpr char kPlace[] = "/run/place";  // a directory by then

  enum class Kind {
    kPrivate,        // a bind in a private mount namespace, as a runtime's
    kShared,         // the same, and shared with others of its own
    kUserNamespace,  // of a user namespace of its own
    kOpenFile,       // an open directory alone: its bind is detached
    kHandedOn,       // came into another task's namespace, which has ended
    kThread,         // a thread has it, its process has not
    kThreadAlone,    // the same, and the process's first thread has ended
    kChrooted,       // has it outside its root directory
    kNamespace,      // no process is where it is, a descriptor leads there
  };

  CopyingTask(const std::string& source, Kind kind);
  ~CopyingTask() { End(); }
  CopyingTask(const CopyingTask&) = delete;
  CopyingTask& operator=(const CopyingTask&) = delete;

  pid_t pid() const { return pid_; }  // -1: it could not be made
  // Makes a file of that name in its copy. 0, or the errno.
  int Write(const std::string& name) const;
  // SIGKILL; returns when it is gone.
  void End();

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

// A naive release unmounts, and says that the volume is detached. Whether a
// task that had a copy of `volume`, a directory, then writes to it. Mounts on
// /run/naive, a directory by then.
bool NaiveReleaseLosesData(const std::string& volume, CopyingTask::Kind kind);

}  // namespace mountd::testing
