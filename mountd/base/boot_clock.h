// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <ctime>

namespace mountd {

// Returns the microseconds of CLOCK_BOOTTIME, clock_gettime(2). This clock
// counts while the machine is suspended, and nobody can set it.
inline std::uint64_t BootMicroseconds() {
  timespec now{};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000U +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000U;
}

}  // namespace mountd
