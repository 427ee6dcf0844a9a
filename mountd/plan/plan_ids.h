// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
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

// Returns the extents that map groups.
inline std::span<const IdExtent> GidExtentsOf(const IdMapPlan& ids) {
  return ids.gid_count == 0
             ? ExtentsOf(ids)
             : std::span(ids.gids).first(
                   ids.gid_count <= kMaxIdExtents ? ids.gid_count : 0U);
}

// Returns whether the map shows root's files, as user or as group, as files of
// somebody else.
inline bool ShowsRoot(const IdMapPlan& ids) {
  const auto is_root = [](const IdExtent& extent) {
    return extent.on_disk == 0;
  };
  const auto uids = ExtentsOf(ids);
  const auto gids = GidExtentsOf(ids);
  return std::any_of(uids.begin(), uids.end(), is_root) ||
         std::any_of(gids.begin(), gids.end(), is_root);
}

inline bool Overlap(std::uint32_t a, std::uint32_t a_count, std::uint32_t b,
                    std::uint32_t b_count) {
  return a < std::uint64_t{b} + b_count && b < std::uint64_t{a} + a_count;
}

// Returns what is wrong with these extents, or "". No id may show as root's,
// because the kernel wants CAP_SETFCAP for that and a task's root needs no map.
inline std::string_view FaultOf(std::span<const IdExtent> extents) {
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

// Returns what is wrong with the map, or "". A map with groups needs users,
// too, because nobody can make a file of an unmapped user.
inline std::string_view FaultOf(const IdMapPlan& ids) {
  if (ids.count > kMaxIdExtents || ids.gid_count > kMaxIdExtents) {
    return "has too many extents";
  }
  if (ids.count == 0 && ids.gid_count != 0) {
    return "maps groups without users";
  }
  const std::string_view fault = FaultOf(ExtentsOf(ids));
  return fault.empty() ? FaultOf(GidExtentsOf(ids)) : fault;
}

}  // namespace mountd::exec
