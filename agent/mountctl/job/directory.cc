// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/job/directory.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>

#include "agent/mountctl/job/job.h"

namespace mountd::agent {

bool ParseMountSource(std::string_view text, BindMountSpec& mount) {
  constexpr std::string_view kDirectory = "directory:";
  if (!text.starts_with(kDirectory)) {
    return ParseSource(text, mount);
  }
  mount.source_type = SourceType::kDirectory;
  mount.source = text.substr(kDirectory.size());
  return !mount.source.empty();
}

Result<UniqueFd> OpenDirectory(const std::string& path, int* fd) {
  if (path.empty()) {
    return UniqueFd();
  }
  // O_PATH needs no permission on the directory itself (open(2)).
  UniqueFd directory(::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid()) {
    return ErrnoError(errno, "open", path);
  }
  *fd = directory.get();
  return directory;
}

Result<UniqueFd> OpenSource(BindMountSpec& mount) {
  if (mount.source_type != SourceType::kDirectory) {
    return UniqueFd();
  }
  return OpenDirectory(std::exchange(mount.source, std::string()),
                       &mount.source_directory);
}

}  // namespace mountd::agent
