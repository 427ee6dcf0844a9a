// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/ground/host_path.h"

#include <fcntl.h>
#include <linux/openat2.h>

#include "mountd/base/paths.h"

namespace mountd::propagation {

using exec::Named;

bool IsHostPathAllowed(std::string_view path) {
  return !paths::IsAtOrBelow(path, paths::kBase) &&
         !paths::IsAtOrBelow(paths::kBase, path) &&
         !paths::IsAtOrBelow(path, "/proc") &&
         !paths::IsAtOrBelow(path, "/sys") && !paths::IsAtOrBelow(path, "/dev");
}

Result<HostPath> OpenHostPath(const Context& context, const std::string& path,
                              const std::string& object) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || path.front() != '/' ||
      slash + 1 == path.size() || !IsHostPathAllowed(path)) {
    return MakeError(
        Code::kFailedPrecondition, "open source", object,
        "mountd never mounts this path as a host volume; declare another");
  }
  HostPath opened;
  opened.name = path.substr(slash + 1);
  // A user may own a directory on this path and put a link there, so a link
  // makes the open fail with ELOOP.
  MOUNTD_ASSIGN(
      opened.parent,
      Named(context.kernel.Open(exec::kFromRoot,
                                slash == 0 ? "/" : path.substr(0, slash),
                                O_PATH | O_DIRECTORY,
                                RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS),
            "openat2", object));
  return opened;
}

}  // namespace mountd::propagation
