// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/nothing_below.h"

#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "mountd/base/paths.h"

namespace mountd::propagation {

Result<void> CheckNothingBelow(const Context& context, const Source& source,
                               const std::string& object) {
  if (!S_ISDIR(source.file.mode)) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::vector<MountFacts> mounts,
                context.inspector.Below(source.file.mount_id, 0));
  if (mounts.empty()) {
    return Ok();
  }
  MOUNTD_ASSIGN(const std::string root, PathOfSource(context, source, object));
  // A mount without a known path does not count, because any user can make one
  // (fusermount): at a path that is too long, or in a directory that moves out
  // of the mount that shows it. Such a mount would keep all other users from
  // their sources, and no mount is in the clone anyway.
  const bool any =
      std::any_of(mounts.begin(), mounts.end(), [&](const MountFacts& mount) {
        return paths::IsAtOrBelow(mount.point, root);
      });
  return any ? Result<void>(MakeError(
                   Code::kFailedPrecondition, "mount", object,
                   "something is mounted below the source, which shows nothing "
                   "but itself; unmount it"))
             : Ok();
}

}  // namespace mountd::propagation
