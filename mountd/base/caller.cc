// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/caller.h"

#include <poll.h>

namespace mountd {

Result<std::uint32_t> LivingPidOf(const Caller& caller) {
  if (caller.pid == 0 || caller.process == nullptr ||
      !caller.process->valid()) {
    return MakeError(
        Code::kFailedPrecondition, "identify", "caller",
        "the process that connected is unknown or has ended; connect again");
  }
  // A pidfd is readable once its process has ended (pidfd_open(2)).
  pollfd entry = {caller.process->get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) == 0
             ? Result<std::uint32_t>(caller.pid)
             : MakeError(Code::kFailedPrecondition, "identify", "caller",
                         "the process that connected has ended; connect again");
}

}  // namespace mountd
