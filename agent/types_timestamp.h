// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>

// The time of an event at the node, by the node's wall clock.
namespace mountd::agent {

using Timestamp = std::chrono::sys_time<std::chrono::microseconds>;

}  // namespace mountd::agent
