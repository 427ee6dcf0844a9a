// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/base/unique_fd.h"
#include "mountd/service/caller_access.h"
#include "mountd/service/service_parts.h"
#include "mountd/service/trees.h"

namespace mountd {

// Owns nothing. Removes trees of files below a directory that the caller
// passed, or gives these files another owner. Runs on workers, on the strand of
// the directory. Never follows a path.
class TreeVerbs {
 public:
  TreeVerbs(const ServiceParts& parts, const CallerAccess& access)
      : parts_(parts), access_(access) {}

  Result<TreeResult> RemoveTree(const CallContext& call,
                                const UniqueFd& directory);
  Result<TreeResult> ChownTree(const CallContext& call,
                               const UniqueFd& directory, std::uint32_t uid,
                               std::uint32_t gid);

 private:
  const ServiceParts& parts_;
  const CallerAccess& access_;
};

}  // namespace mountd
