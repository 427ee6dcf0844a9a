// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "mountd/plan/values.h"

// Rules for the map of ids of a mount, shared by mountd and the executor.
namespace mountd::exec {

inline std::span<const IdExtent> ExtentsOf(const IdMapPlan& ids) {
  return std::span(ids.extents)
      .first(ids.count <= kMaxIdExtents ? ids.count : 0U);
}

inline bool Overlap(std::uint32_t a, std::uint32_t a_count, std::uint32_t b,
                    std::uint32_t b_count) {
  return a < std::uint64_t{b} + b_count && b < std::uint64_t{a} + a_count;
}

// Returns what is wrong with the map, or "". No id may show as root's, because
// the kernel wants CAP_SETFCAP for that and a task's root needs no map.
inline std::string_view FaultOf(const IdMapPlan& ids) {
  if (ids.count > kMaxIdExtents) {
    return "has too many extents";
  }
  const auto extents = ExtentsOf(ids);
  for (std::size_t i = 0; i < extents.size(); ++i) {
    const IdExtent& one = extents[i];
    if (one.count == 0 || std::uint64_t{one.on_disk} + one.count > kNoId ||
        std::uint64_t{one.shown} + one.count > kNoId) {
      return "has an extent that is not a range of ids";
    }
    if (one.shown == 0) {
      return "shows ids as root, which is not allowed";
    }
    for (const IdExtent& other : extents.first(i)) {
      if (Overlap(one.on_disk, one.count, other.on_disk, other.count) ||
          Overlap(one.shown, one.count, other.shown, other.count)) {
        return "has extents that overlap";
      }
    }
  }
  return "";
}

}  // namespace mountd::exec
