// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "agent/driver/protocol/message.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::shim {

// Where one stream of the task goes.
struct StreamSetup {
  Sink sink = Sink::kNone;
  std::string path{};
  std::uint64_t file_bytes = 0;
  std::uint64_t files = 0;
  UniqueFd passed{};
};

// All that a driver says to a shim at its start. An fd that the driver did not
// pass is not valid.
struct Setup {
  std::string container;
  std::vector<std::string> runtime;
  std::string runtime_root;
  std::string bundle;
  std::string mount_type;  // "": the shim mounts nothing
  std::string mount_source;
  std::string mount_target;
  std::string mount_options;
  StreamSetup standard_output;
  StreamSetup standard_error;
  std::string directory;  // the path of task_directory
  UniqueFd task_directory;
  UniqueFd connection;
  UniqueFd user_namespace;
  UniqueFd network_namespace;
  UniqueFd cgroup;
  bool runtime_joins = false;  // the runtime puts the container into `cgroup`
  UniqueFd
      image;  // open until the shim's end, so that nobody removes the image
};

// Takes the fds that the driver passed, reads the message among them, and makes
// the task's directory the working directory. InvalidArgument for a message
// that lacks something.
Result<Setup> TakeSetup();

}  // namespace mountd::shim
