// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "mountd/config/config.h"
#include "mountd/plan/plan_ids.h"

// Says whose ids on disk a caller may map. mountd and the executor share it.
namespace mountd {

// The caller for whom a mount's ids are mapped.
struct IdsOwner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;  // its primary group
};

// Returns whether the extent maps this one id, which is the caller's own. The
// caller can give the rights of its own id to others without mountd, so no rule
// has to name it. The id 0 is nobody's own.
inline bool IsOwn(const exec::IdExtent& extent, std::uint32_t own) {
  return own != 0 && extent.on_disk == own && extent.count == 1;
}

// Returns the first extent that neither is the caller's own nor `is_in_rule`,
// or nullptr.
template <typename IsInRule>
const exec::IdExtent* FindForeign(const exec::IdMapPlan& ids,
                                  const IdsOwner& owner, IsInRule is_in_rule) {
  const auto foreign = [&](std::span<const exec::IdExtent> extents,
                           std::uint32_t own) -> const exec::IdExtent* {
    const auto found = std::find_if(
        extents.begin(), extents.end(), [&](const exec::IdExtent& one) {
          return !IsOwn(one, own) && !is_in_rule(one);
        });
    return found == extents.end() ? nullptr : &*found;
  };
  const exec::IdExtent* user = foreign(exec::ExtentsOf(ids), owner.uid);
  return user != nullptr ? user : foreign(exec::GidExtentsOf(ids), owner.gid);
}

}  // namespace mountd
