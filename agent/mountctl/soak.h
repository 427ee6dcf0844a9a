// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <iosfwd>
#include <string>

#include "agent/client.h"
#include "mountd/base/result.h"

namespace mountd::agent {

struct SoakOptions {
  std::uint32_t allocations = 100;
  std::uint32_t mounts = 1;
  std::uint32_t ports = 1;
  std::uint16_t first_port = 20'000;  // host ports from here on, reused
  std::string host_volume = "shared";
  std::string prefix = "soak";
  bool json = false;
};

// Short allocations one after the other (prepare, network, mounts, release),
// and how long each operation took from here, the socket included. The first
// failure ends it, releases that allocation, and is returned; what was measured
// is printed all the same.
Result<void> Soak(Client& client, const SoakOptions& options,
                  std::ostream& out);

}  // namespace mountd::agent
