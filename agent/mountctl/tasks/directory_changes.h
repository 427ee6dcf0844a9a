// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <optional>

#include "mountd/base/unique_fd.h"

namespace mountd::agent {

// Reports when a record of a job's directory is replaced or removed, by
// inotify(7). A user has few instances of inotify; without an instance each
// wait ends after a second. Used by one thread.
class DirectoryChanges {
 public:
  // Reports changes after this call. `directory` is any fd of the directory.
  static DirectoryChanges Of(int directory);

  // Waits for a change, for the end of `time`, or until `stop` can be read.
  // `stop` may be -1. Without `time` there is no limit.
  void Wait(std::optional<std::chrono::milliseconds> time, int stop);

 private:
  explicit DirectoryChanges(UniqueFd inotify) : inotify_(std::move(inotify)) {}

  UniqueFd inotify_;  // invalid: none
};

}  // namespace mountd::agent
