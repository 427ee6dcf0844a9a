// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "agent/driver/protocol/message.h"
#include "agent/driver/protocol/shim_connection.h"
#include "mountd/base/result.h"

namespace mountd::shim {

// The fds that a shim is started with, and their numbers in the shim.
enum class PassedFd : int {
  kCreateMessage = 3,
  kTaskDirectory = 4,
  kConnection = 5,
  kUserNamespace = 6,
  kNetworkNamespace = 7,
  kCgroup = 8,  // the directory of the container's cgroup
  kStdout = 9,  // of Sink::kPassed
  kStderr = 10,
  kImage = 11,  // the shim keeps it open until its end
};
inline constexpr int kLastPassedFd = 11;

// Borrows its fds. -1: there is none.
struct Launch {
  std::string program;  // the absolute path of mountd-task-shim
  Message create{Kind::kCreate};
  int task_directory = -1;
  int user_namespace = -1;
  int network_namespace = -1;
  int cgroup = -1;
  int stdout_fd = -1;
  int stderr_fd = -1;
  int image = -1;        // a lock of the image that the task has
  int shim_cgroup = -1;  // the directory of the shim's own cgroup
};

// Starts mountd-task-shim as a process without a parent, in a session of its
// own. Returns a connection to the shim, which makes the container meanwhile.
// Safe in a process with threads.
Result<ShimConnection> LaunchShim(Launch launch);

}  // namespace mountd::shim
