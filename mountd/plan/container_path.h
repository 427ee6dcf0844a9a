// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string_view>

#include "mountd/base/paths.h"
#include "mountd/plan/mount_plans.h"

// Rules for paths in a container where mountd may mount, shared by mountd and
// the executor.
namespace mountd::exec {

// Returns what is wrong with the path, or "". Paths below /proc and /sys are
// wrong, because a mount there would cover the interfaces that confine the
// container.
inline std::string_view FaultOfContainerPath(std::string_view path) {
  if (path.size() < 2 || path.front() != '/') {
    return "must be an absolute path, but not /";
  }
  if (path.size() >= kMaxContainerPath) {
    return "is too long";
  }
  if (!paths::IsNormalised(path)) {
    return "must have no empty parts, . or ..";
  }
  if (path.find('\0') != std::string_view::npos) {
    return "contains a NUL byte";
  }
  return paths::IsAtOrBelow(path, "/proc") || paths::IsAtOrBelow(path, "/sys")
             ? "must not be in /proc or /sys"
             : "";
}

}  // namespace mountd::exec
