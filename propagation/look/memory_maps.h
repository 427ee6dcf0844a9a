// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "propagation/ground/process.h"

namespace mountd::propagation {

// A mount, or a device in it, of which a process maps a file.
struct MappedFile {
  std::uint64_t mount_id = 0;     // unique where the kernel has unique ids
  std::uint64_t reusable_id = 0;  // of the same mount, as in mountinfo
  std::uint64_t device = 0;       // of the file system
  std::uint64_t node = 0;         // the block device's own number; 0: no device
};

struct MappedFiles {
  std::vector<MappedFile> files;  // each once
  // Why `files` may be incomplete; 0: it is complete. ETIMEDOUT if the child
  // had to be killed.
  int error = 0;
};

// Returns the mounts and devices whose files the process maps. Returns none if
// the text of its maps, proc_pid_maps(5), is not `wanted`. An empty `wanted`
// wants any text.
//
// A child reads the maps, and is killed after `limit`. A process can keep any
// reader of its maps waiting: one of its threads waits for a file server in a
// page fault, with the lock of the process's memory, and another thread waits
// to write under that lock. A fatal signal ends the reader's wait.
MappedFiles MappedFilesOf(const Context& context, const Process& process,
                          const std::function<bool(const std::string&)>& wanted,
                          std::chrono::milliseconds limit);

// Returns the limit for one process of a search that ends at `deadline`: half
// of the time that is left, so that the search still looks at other processes
// after one that keeps it waiting.
std::chrono::milliseconds LimitOfMaps(
    std::chrono::steady_clock::time_point deadline);

}  // namespace mountd::propagation
