// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/fault/shared_steps.h"

namespace mountd::testing {

// The objects that the overlapping operations share.
enum class Sharing : std::uint32_t {
  kAllocation,  // with all its content; each has a connection of its own
  kVolume,      // one CSI volume, in an allocation of each
  kNode,        // host volumes, networks and the plugin
};
inline constexpr std::uint32_t kSharings = 3;
const char* NameOf(Sharing sharing);

// The fate of the operation that was held.
enum class Then : std::uint32_t {
  kGoesOn,
  kFails,         // with a plausible error
  kKilledBefore,  // its process is killed, right before the step
  kKilledAfter,
  kAgentDies,  // the operation goes on, and nobody gets its answer
};
inline constexpr std::uint32_t kThens = 5;
const char* NameOf(Then then);

// The place where one run holds the first operation. `where` and `error` are
// taken modulo the number of steps and errors, which only the run knows.
struct Cut {
  std::uint32_t process = 0;
  std::uint32_t where = 0;
  Then then = Then::kGoesOn;
  std::uint32_t error = 0;
};

// Operations that overlap, as indexes into AllOperations(), the held one first;
// and some ways to interrupt it.
struct Overlap {
  std::vector<std::size_t> operations;
  Sharing sharing = Sharing::kAllocation;
  std::vector<Cut> cuts;
};

// Returns the n-th overlap of this shard and seed. Depends on nothing else.
Overlap ChooseOverlap(std::uint32_t seed, std::uint32_t shard, std::uint32_t n);

}  // namespace mountd::testing
