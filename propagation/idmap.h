// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <string>
#include <utility>

#include "propagation/source.h"

namespace mountd::propagation {

// Owns the user namespaces whose id maps idmapped mounts use. A child that ends
// at once makes each namespace, once for each map. The namespaces live as long
// as the executor unless there are too many.
class IdMaps {
 public:
  // Returns an fd of the namespace with this map. The fd stays IdMaps's own.
  Result<int> NamespaceOf(exec::Kernel& kernel, const exec::IdMapPlan& ids,
                          const std::string& object);

 private:
  // By the texts of the maps of users and of groups.
  std::map<std::pair<std::string, std::string>, UniqueFd> namespaces_;
};

// Maps the ids of the whole detached `tree`, a clone of `source`. Changes
// nothing if the plan has no map. NotSupported if one of the tree's file
// systems cannot map ids. FailedPrecondition if the source has a map already.
Result<void> MapIds(const Context& context, const Source& source,
                    const UniqueFd& tree, const exec::IdMapPlan& ids,
                    const std::string& object);

}  // namespace mountd::propagation
