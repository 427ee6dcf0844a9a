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

  // Of the file system as a whole: "ro", "emergency_ro".
  bool HasSuperOption(std::string_view option) const;
};

// One line; nothing of it is believed to be well-formed.
Result<MountEntry> ParseMountEntry(std::string_view line);

// All mounts of this process's namespace, or of another's by its file.
Result<std::vector<MountEntry>> ReadMountTable(
    const std::string& path = "/proc/self/mountinfo");

// The mount that `fd` (O_PATH will do) is on. NotFound if it is in no
// namespace, or another.
Result<MountEntry> MountOf(const UniqueFd& fd);

}  // namespace mountd::csi_local
