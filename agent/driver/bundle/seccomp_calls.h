// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <span>
#include <string_view>

namespace mountd::driver {

// A list of system calls, and the capability that these calls need; "" if every
// container may make them.
struct CallGroup {
  std::string_view capability;
  std::span<const std::string_view> calls;
};

std::span<const CallGroup> CallGroups();

// Calls that answer EPERM to every container.
std::span<const std::string_view> RefusedCalls();

}  // namespace mountd::driver
