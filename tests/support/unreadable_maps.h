// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <atomic>
#include <string>

#include "tests/support/servers/fuse_server.h"

namespace mountd::testing {

// Makes a process one whose memory maps keep each reader waiting, as any task
// with a FUSE server can make itself. A thread takes a page fault on a file of
// the server, and the kernel waits for the answer with the lock of the
// process's memory. Another thread waits to write under that lock, and readers
// wait behind the writer: those of map_files, cmdline, environ, mem, and before
// Linux 6.17 of maps.
class UnreadableMaps {
 public:
  // `server` serves `file`, and this process alone from now on. It must die
  // before the process can end.
  UnreadableMaps(FuseServer* server, std::string file);
  ~UnreadableMaps();
  UnreadableMaps(const UnreadableMaps&) = delete;
  UnreadableMaps& operator=(const UnreadableMaps&) = delete;

  // Runs in the process. Starts the two threads.
  bool Begin() const;
  // Runs in the test, after Begin. False if the maps are still readable after
  // some seconds.
  bool Await() const;

 private:
  // In memory that the test and the process share.
  struct Steps {
    std::atomic<pid_t> writer = 0;
    std::atomic<bool> may_write = false;
  };

  FuseServer* const server_;
  const std::string file_;
  Steps* const steps_;
};

// Forks a naive reader, which lists the mapped files of the process. True if
// the reader waits until a fatal signal ends the wait.
bool NaiveReaderWaits(pid_t process);

}  // namespace mountd::testing
