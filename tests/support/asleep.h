// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <fstream>
#include <string>

namespace mountd::testing {

// Returns true if the thread of this process sleeps, which is the only visible
// sign that it waits for its turn (proc_pid_stat(5)).
inline bool IsAsleep(pid_t thread) {
  std::ifstream stat("/proc/self/task/" + std::to_string(thread) + "/stat");
  std::string line;
  std::getline(stat, line);
  const std::size_t name_end = line.rfind(") ");
  return name_end != std::string::npos && line[name_end + 2] == 'S';
}

}  // namespace mountd::testing
