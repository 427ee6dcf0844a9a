// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "agent/driver/bundle/capabilities.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// The ids of a process, as the container sees them.
struct ProcessUser {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> additional_gids;
};

// The terminal's size in characters; 0 if it is not known.
struct ConsoleSize {
  std::uint32_t height = 0;
  std::uint32_t width = 0;
};

// One limit of setrlimit(2), such as RLIMIT_NOFILE.
struct ProcessLimit {
  std::string type;
  std::uint64_t soft = 0;
  std::uint64_t hard = 0;
};

// A process of a container: the first process, or a process that exec adds.
struct ContainerProcess {
  std::vector<std::string> args;
  // The whole environment, because crun's exec adds nothing to it. The map
  // sorts it.
  std::map<std::string, std::string> env;
  std::string cwd = "/";
  ProcessUser user;
  bool terminal = false;
  ConsoleSize console_size;
  std::vector<ProcessLimit> rlimits;
  TaskCapabilities capabilities;
};

// Returns the text of the file for `crun exec --process` and `runc exec
// --process`. The text sets noNewPrivileges, because exec does not take it from
// config.json. A process of another user than root has only the added
// capabilities. InvalidArgument names the member that is wrong.
Result<std::string> ProcessFile(const ContainerProcess& process);

}  // namespace mountd::driver
