// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/fault/shared_steps.h"

namespace mountd::testing {

// What the overlapping operations have in common.
enum class Sharing : std::uint32_t {
  kAllocation,  // and all that is in it; each has a connection of its own
  kVolume,      // one CSI volume in an allocation of each
  kNode,        // host volumes, networks, the plugin
};
inline constexpr std::uint32_t kSharings = 3;
const char* NameOf(Sharing sharing);

// What becomes of the operation that was held.
enum class Then : std::uint32_t {
  kGoesOn,
  kFails,         // with a plausible error
  kKilledBefore,  // its process, right before the step
  kKilledAfter,
  kAgentDies,  // and it goes on, with nobody to be told
};
inline constexpr std::uint32_t kThens = 5;
const char* NameOf(Then then);

// Where one run holds the first operation. `where` and `error` are of what is
// only known then: they are taken modulo how many there are.
struct Cut {
  std::uint32_t process = 0;
  std::uint32_t where = 0;
  Then then = Then::kGoesOn;
  std::uint32_t error = 0;
};

// Operations that overlap, by their places in AllOperations(), the one that is
// held first; and some ways to cut it off.
struct Overlap {
  std::vector<std::size_t> operations;
  Sharing sharing = Sharing::kAllocation;
  std::vector<Cut> cuts;
};

// The n-th one that this shard of that seed does. Depends on nothing else.
Overlap ChooseOverlap(std::uint32_t seed, std::uint32_t shard, std::uint32_t n);

}  // namespace mountd::testing
