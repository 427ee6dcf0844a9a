// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "agent/driver/bundle/process.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// The driver's own record of a task on the disk, beside the shim's own files. A
// driver reads the records of all older releases: a member that an older
// release did not write has its default here.
struct TaskRecord {
  static constexpr int kVersion = 1;

  std::string id;
  std::string allocation;
  std::string name;
  std::string config_digest;
  std::string image_digest;  // "sha256:…"; "" for a directory
  int stop_signal = 0;       // the image's; 0: none
  bool has_cgroup = false;
  // The path of the cgroup, because another driver may have another subtree.
  // "" in a record of an older release.
  std::string cgroup;
  bool has_mounts = false;  // of mountd's, which looks at them before the start
  // Common to all processes that exec adds: user, environment, working
  // directory, limits and capabilities. `process` has no arguments.
  ContainerProcess process;
};

// Return the file's bytes of a record, and the record of such bytes.
// InvalidArgument for a text that is no record; FailedPrecondition for the
// record of a newer release.
std::string RecordText(const TaskRecord& record);
Result<TaskRecord> ParseRecord(const std::string& text);

}  // namespace mountd::driver
