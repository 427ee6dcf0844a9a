// SPDX-License-Identifier: LGPL-2.1-or-later
#include "propagation/root_as_caller.h"

#include <sys/mount.h>

#include "propagation/residence.h"

namespace mountd::propagation {

Result<void> CheckRootsHostVolume(const Context& context, const Source& source,
                                  const std::string& object) {
  if (IsApart(context)) {
    return MakeError(Code::kNotSupported, "open source", object,
                     "root's files show as the caller's only without a mount "
                     "namespace of mountd's own; set [mounts] namespace = "
                     "\"host\"");
  }
  constexpr std::uint64_t kNeeded = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  return (source.mount.attributes & kNeeded) == kNeeded
             ? Ok()
             : Result<void>(MakeError(
                   Code::kFailedPrecondition, "open source", object,
                   "the host mounts it without nosuid or nodev, so the caller "
                   "could become root by a setuid program; mount it with both "
                   "on the host"));
}

}  // namespace mountd::propagation
