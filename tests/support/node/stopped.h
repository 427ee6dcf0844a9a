// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "mountd/base/unique_fd.h"

// Stops executors by their pidfds, and reads their state (proc_pid_stat(5)).
namespace mountd::testing {

inline void Send(const UniqueFd& process, int signal) {
  ::syscall(SYS_pidfd_send_signal, process.get(), signal, nullptr, 0);
}

inline std::string PidOf(const UniqueFd& process) {
  std::ifstream info("/proc/self/fdinfo/" + std::to_string(process.get()));
  for (std::string line; std::getline(info, line);) {
    if (line.starts_with("Pid:")) {
      return line.substr(line.find_first_not_of("\t ", 4));
    }
  }
  return "";
}

inline char StateOf(const std::string& pid) {
  std::string text;
  std::getline(std::ifstream("/proc/" + pid + "/stat"), text);
  const std::size_t end = text.rfind(')');
  return end == std::string::npos ? 'X' : text.at(end + 2);
}

// True if the executor waits for its next plan, the only place where it polls.
inline bool IsIdle(const std::string& pid) {
  long number = -1;
  std::string argument;
  std::ifstream("/proc/" + pid + "/syscall") >> number >> argument;
  // SIGSTOP and SIGCONT make a wait restart_syscall(2) with the same arguments.
  // poll(2) begins with a pointer, and clock_nanosleep(2) with a small number.
  if (number == SYS_restart_syscall) {
    return argument.size() > std::string("0xffff").size();
  }
#ifdef SYS_poll
  if (number == SYS_poll) {
    return true;
  }
#endif
  return number == SYS_ppoll;
}

// True if no process is at work any more.
inline bool HaveEnded(const std::vector<UniqueFd>& processes) {
  return std::all_of(processes.begin(), processes.end(), [](const auto& one) {
    const std::string pid = PidOf(one);
    const char state = StateOf(pid);
    return state == 'X' || state == 'Z' || (state == 'S' && IsIdle(pid));
  });
}

}  // namespace mountd::testing
