// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::driver {

// Where a program runs that reads what others made. The program is 0:0 of a
// user namespace, has mount, network and IPC namespaces of its own, sees every
// file system read-only but `writable`, and has only the capabilities that
// writing files with owners needs. So an image that leads skopeo or umoci out
// of its directory finds nothing to write, and no network.
struct Confinement {
  // An fd of the user namespace, which must be a child of this process's own.
  int user_namespace = -1;
  // The one directory that the program may write: an absolute path. The program
  // starts in it. Empty: none, and the program starts in /.
  std::string writable;
  // An fd that the program inherits, so that a lock lasts until its end. -1:
  // none.
  int inherited = -1;
  // The largest file that the program may write.
  std::uint64_t max_file_bytes = 0;
};

// Says what this process does while the program runs.
struct Supervision {
  using Clock = std::chrono::steady_clock;

  // The program is killed then.
  Clock::time_point deadline;
  // Takes the program's stdout; false kills the program. Without it stdout
  // belongs to the program's text.
  std::function<bool(std::string_view)> output;
  // Called again and again; an error kills the program and is the result. The
  // pauses grow with its own duration, so that looking takes a tenth of the
  // time.
  std::function<Result<void>()> look;
};

struct ProgramEnd {
  int status = 0;        // exit status, or -signal
  std::string text;      // the last 2 KiB of stderr
  bool stopped = false;  // `output` wanted no more
};

// Runs `command`, whose first word is the program's absolute path, to its end.
// The kernel kills the program if this process ends before it. Any thread;
// blocks it, and the program is killed if that thread ends. NotFound if there
// is no such program. DeadlineExceeded after the deadline. Unavailable if the
// caller's process lets the kernel reap its children (SIGCHLD ignored).
Result<ProgramEnd> RunConfined(const Confinement& confinement,
                               const std::vector<std::string>& command,
                               const Supervision& supervision);

}  // namespace mountd::driver
