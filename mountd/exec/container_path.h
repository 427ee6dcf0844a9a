// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

#include "mountd/base/paths.h"
#include "mountd/exec/plan.h"

// Where in a container something may be mounted, for both ends.
namespace mountd::exec {

// "" or what is wrong. What is below /proc and /sys confines the container, and
// is not to be covered.
inline std::string_view FaultOfContainerPath(std::string_view path) {
  if (path.size() < 2 || path.front() != '/') {
    return "must be absolute, and not the root";
  }
  if (path.size() >= kMaxContainerPath) {
    return "is too long";
  }
  if (!paths::IsNormalised(path)) {
    return "must be without empty parts, . and ..";
  }
  if (path.find('\0') != std::string_view::npos) {
    return "holds a NUL";
  }
  return paths::IsAtOrBelow(path, "/proc") || paths::IsAtOrBelow(path, "/sys")
             ? "lies in the kernel's own file systems"
             : "";
}

}  // namespace mountd::exec
