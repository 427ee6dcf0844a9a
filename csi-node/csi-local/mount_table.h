// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// One line of /proc/self/mountinfo (proc(5)).
struct MountEntry {
  std::uint64_t id = 0;
  dev_t device = 0;
  std::string root;   // of the mount, in its file system
  std::string point;  // where it is mounted
  std::string fs_type;
  std::string source;
  std::string super_options;

  // True if the file system as a whole has the option: "ro", "emergency_ro".
  bool HasSuperOption(std::string_view option) const;
};

// Parses one line, and believes nothing about its form.
Result<MountEntry> ParseMountEntry(std::string_view line);

// Returns all mounts of this process's namespace, or of another namespace by
// its mountinfo file.
Result<std::vector<MountEntry>> ReadMountTable(
    const std::string& path = "/proc/self/mountinfo");

// Returns the mount that `fd` (O_PATH will do) is on. NotFound if the mount is
// in no namespace, or in another.
Result<MountEntry> MountOf(const UniqueFd& fd);

}  // namespace mountd::csi_local
