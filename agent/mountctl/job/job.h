// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mountctl/tasks/task_spec.h"
#include "agent/types.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// All that `mountctl run` sets up for one allocation. agent/examples/web.toml
// shows and explains the file.
struct Job {
  std::string allocation;
  AllocationOptions options;
  std::optional<NetworkSpec> network;
  std::vector<VolumeSpec> volumes;
  // The source of a mount of a directory is its path, until OpenSource.
  std::vector<BindMountSpec> mounts;
  // In the order of their start. The environment names the ports of each task.
  std::vector<TaskSpec> tasks;
};

// InvalidArgument with "origin:line: key: reason" as detail if the text is no
// such file. Unknown keys are errors. mountd alone checks names.
Result<Job> ParseJob(std::string_view text, std::string_view origin);

// Does the same with a file. NotFound and so on if the file cannot be read.
Result<Job> ReadJob(const std::string& path);

// Parses "host:NAME", "volume:ALIAS", "filesystem:NAME" or "tmpfs" into the two
// fields of a bind mount. False if the text is none of these.
bool ParseSource(std::string_view text, BindMountSpec& mount);

// Parses "1000:100000:1": the first id on disk, the first id shown, and the
// count.
std::optional<IdExtent> ParseExtent(std::string_view text);

// Parses "private", "host-to-task" or "bidirectional".
std::optional<Propagation> ParsePropagation(std::string_view text);

}  // namespace mountd::agent
