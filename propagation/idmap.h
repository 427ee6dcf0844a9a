// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>

#include "propagation/source.h"

namespace mountd::propagation {

// The user namespaces whose maps idmapped mounts have: made once for each map,
// by a child that ends at once, and kept for the executor's life.
class IdMaps {
 public:
  // An fd of it, which stays the cache's.
  Result<int> NamespaceOf(exec::Kernel& kernel, const exec::IdMapPlan& ids,
                          const std::string& object);

 private:
  std::map<std::string, UniqueFd> namespaces_;  // by the map's text
};

// Maps the ids of the whole detached `tree`, which is a clone of `source`; a
// plan without a map changes nothing. NotSupported if one of its file systems
// cannot, FailedPrecondition if the source has a map already.
Result<void> MapIds(const Context& context, const Source& source,
                    const UniqueFd& tree, const exec::IdMapPlan& ids,
                    const std::string& object);

}  // namespace mountd::propagation
