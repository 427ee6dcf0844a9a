// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/random_hex.h"

#include <sys/random.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>

namespace mountd::agent {

Result<std::string> RandomHex(const std::string& object) {
  std::uint32_t number = 0;
  if (::getrandom(&number, sizeof number, 0) != sizeof number) {
    return ErrnoError(errno, "getrandom", object);
  }
  std::array<char, 9> hex{};
  // Eight digits and the NUL always fit.
  (void)std::snprintf(hex.data(), hex.size(), "%08x", number);
  return std::string(hex.data());
}

}  // namespace mountd::agent
