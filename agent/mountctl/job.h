// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/types.h"
#include "mountd/base/result.h"

namespace mountd::agent {

// What `mountctl run` sets up for one allocation; agent/examples/web.toml shows
// and explains the file it is read from.
struct Job {
  std::string allocation;
  AllocationOptions options;
  std::optional<NetworkSpec> network;
  std::vector<VolumeSpec> volumes;
  std::vector<BindMountSpec> mounts;
};

// InvalidArgument with "origin:line: key: reason" as detail for anything that
// is not such a file; unknown keys are errors. Names are left for mountd to
// judge.
Result<Job> ParseJob(std::string_view text, std::string_view origin);

// The same of a file; NotFound and so on if it cannot be read.
Result<Job> ReadJob(const std::string& path);

// "host:NAME", "volume:ALIAS", "filesystem:NAME" or "tmpfs" into the two fields
// of a bind mount; false if it is none of these.
bool ParseSource(std::string_view text, BindMountSpec& mount);

// "1000:100000:1": the ids on disk, those shown, and how many.
std::optional<IdExtent> ParseExtent(std::string_view text);

// "private", "host-to-task" or "bidirectional".
std::optional<Propagation> ParsePropagation(std::string_view text);

}  // namespace mountd::agent
