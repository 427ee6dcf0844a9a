// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string_view>

#include "mountd/config/config.h"
#include "mountd/plan/plan_ids.h"

// Decides which ids on disk a caller may map. mountd and the executor share it.
namespace mountd {

// The source of a mount whose ids are mapped.
struct IdsSource {
  exec::SourceKind kind = exec::SourceKind::kTmpfs;
  std::string_view name{};  // the host volume's, or the plugin's
  bool read_only = false;
};

// The caller for whom a mount's ids are mapped.
struct IdsOwner {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;        // its primary group
  bool root_as_caller = false;  // a rule grants it for the source
};

// Returns whether the rule lets its callers see root's files in this source as
// their own. Only volumes count. A file system that mountd mounts for root does
// not, because the host may mount it elsewhere.
inline bool GrantsRoot(const RuleConfig& rule, const IdsSource& source) {
  if (!rule.root_as_caller) {
    return false;
  }
  return source.kind == exec::SourceKind::kHostVolume
             ? ListsWithAccess(rule.host_volumes, source.name, source.read_only)
             : source.kind == exec::SourceKind::kPublishedVolume &&
                   Lists(rule.plugins, source.name);
}

// Returns whether the extent maps exactly one id, the caller's own. No rule has
// to grant this id, because its owner can give others access without mountd.
// The id 0 counts as nobody's own.
inline bool IsOwn(const exec::IdExtent& extent, std::uint32_t own) {
  return own != 0 && extent.on_disk == own && extent.count == 1;
}

// Returns whether the extent shows root's files as the caller's own and as
// nobody else's.
inline bool IsRootAs(const exec::IdExtent& extent, std::uint32_t own) {
  return own != 0 && extent.on_disk == 0 && extent.shown == own &&
         extent.count == 1;
}

// Returns the first extent that the caller may not map, or nullptr. The caller
// may map its own id, ids for which `is_in_rule` returns true, and, with
// root_as_caller, root's id as its own. No rule's ids contain root's.
template <typename IsInRule>
const exec::IdExtent* FindForeign(const exec::IdMapPlan& ids,
                                  const IdsOwner& owner, IsInRule is_in_rule) {
  const auto foreign = [&](std::span<const exec::IdExtent> extents,
                           std::uint32_t own) -> const exec::IdExtent* {
    const auto found = std::find_if(
        extents.begin(), extents.end(), [&](const exec::IdExtent& one) {
          return !IsOwn(one, own) &&
                 !(owner.root_as_caller && IsRootAs(one, own)) &&
                 !is_in_rule(one);
        });
    return found == extents.end() ? nullptr : &*found;
  };
  const exec::IdExtent* user = foreign(exec::ExtentsOf(ids), owner.uid);
  return user != nullptr ? user : foreign(exec::GidExtentsOf(ids), owner.gid);
}

}  // namespace mountd
