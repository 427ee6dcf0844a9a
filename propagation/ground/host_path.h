// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <string_view>

#include "mountd/base/unique_fd.h"
#include "propagation/ground/context.h"

namespace mountd::propagation {

// Returns whether root's configuration may name this path. False for the base,
// the directories above it, /proc, /sys and /dev.
bool IsHostPathAllowed(std::string_view path);

// Opens the parent directory of a host volume's `path`, and leaves opening its
// last component to the caller. FailedPrecondition for "/" and for paths that
// IsHostPathAllowed rejects.
struct HostPath {
  UniqueFd parent;
  std::string name;
};
Result<HostPath> OpenHostPath(const Context& context, const std::string& path,
                              const std::string& object);

}  // namespace mountd::propagation
