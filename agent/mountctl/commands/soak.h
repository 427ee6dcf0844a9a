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
  // First of the host ports, which are reused.
  std::uint16_t first_port = 20'000;
  std::string host_volume = "shared";
  std::string prefix = "soak";
  bool json = false;
};

// Makes short allocations one after the other (prepare, network, mounts,
// release) and measures each operation from here, the socket included. The
// first failure ends the run: releases that allocation, prints the times
// measured so far, and returns the error.
Result<void> Soak(Client& client, const SoakOptions& options,
                  std::ostream& out);

}  // namespace mountd::agent
