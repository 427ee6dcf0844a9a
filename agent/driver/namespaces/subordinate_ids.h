// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

// The subordinate ids of a user: /etc/subuid and /etc/subgid, subuid(5).
namespace mountd::driver {

struct IdRange {
  std::uint32_t first = 0;
  std::uint32_t count = 0;

  friend bool operator==(const IdRange&, const IdRange&) = default;
};

// The user. A line of the file has the user's name or uid.
struct IdOwner {
  std::string name;
  std::uint32_t uid = 0;
};

// The kernel takes 340 lines of a map (user_namespaces(7)), and the user's own
// id has the first of them.
inline constexpr std::size_t kMostRanges = 339;

// Returns the owner's ranges in ascending order. Joins ranges that overlap or
// touch, because the kernel refuses a map whose lines overlap. Leaves out
// `own`, which has a line of its own in the map, and 0, because the host's root
// is nobody's subordinate. Skips a line that is malformed, empty or beyond the
// last id, as newuidmap(1) does. Takes the lowest kMostRanges ranges.
std::vector<IdRange> SubordinateRanges(std::string_view text,
                                       const IdOwner& owner, std::uint32_t own);

// Reads the ranges from a file. No ranges if there is no such file.
// InvalidArgument unless it is a regular file, because a FIFO would block.
// ResourceExhausted if it has more than kMostBytes.
inline constexpr std::size_t kMostBytes = std::size_t{16} << 20U;
Result<std::vector<IdRange>> ReadSubordinateRanges(const std::string& path,
                                                   const IdOwner& owner,
                                                   std::uint32_t own);

}  // namespace mountd::driver
