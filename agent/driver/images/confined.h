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

// The rights of a program that reads other people's files, such as images. The
// program is 0:0 of a user namespace, and has mount, network and IPC namespaces
// of its own. It sees every file system read-only but `writable`, and has only
// the capabilities for writing files with owners. So an image that makes skopeo
// or umoci leave the directory finds nothing to write, and no network.
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

  // RunConfined kills the program at this time.
  Clock::time_point deadline;
  // Gets each piece of the program's stdout; false kills the program. Without
  // this function, stdout goes to ProgramEnd::text.
  std::function<bool(std::string_view)> output;
  // RunConfined calls this function again and again. An error kills the
  // program, and RunConfined returns that error. The pause between two calls
  // grows with the time that a call takes, so that all calls take a tenth of
  // the time.
  std::function<Result<void>()> look;
};

struct ProgramEnd {
  int status = 0;        // exit status, or -signal
  std::string text;      // the last 2 KiB of stderr
  bool stopped = false;  // `output` returned false
};

// Runs `command`, whose first word is the program's absolute path, to its end.
// The kernel kills the program if this process ends before it. Any thread.
// Blocks the thread, and the kernel kills the program if this thread ends.
// NotFound if there is no such program. DeadlineExceeded after the deadline.
// Unavailable if the caller's process lets the kernel reap its children
// (SIGCHLD ignored).
Result<ProgramEnd> RunConfined(const Confinement& confinement,
                               const std::vector<std::string>& command,
                               const Supervision& supervision);

}  // namespace mountd::driver
