// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>

#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// Waits for changes of the files of a directory, by inotify(7). An event only
// wakes the reader. The reader looks at the files themselves, so it misses no
// bytes if the kernel leaves out an event.
class DirectoryWatch {
 public:
  // The watch belongs to the open directory, whatever its path names later.
  explicit DirectoryWatch(int directory);

  // Returns after a change, or at the latest after `most`, or after kLook. An
  // event may be missing: before Linux 6.6 splice(2), which a shim writes with,
  // makes none; and a user has a limited number of inotify instances.
  void Wait(std::chrono::milliseconds most) const;

  static constexpr std::chrono::milliseconds kLook{100};

 private:
  UniqueFd inotify_;
};

}  // namespace mountd::driver
