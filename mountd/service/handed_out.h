// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>
#include <vector>

#include "mountd/base/unique_fd.h"
#include "mountd/executors/holder_report.h"
#include "mountd/service/service_parts.h"

// Mounts that callers have as fds. No release can take such an fd back, so
// mountd lists the mount as long as a process has it.
namespace mountd {

struct HandedOutReport {
  struct Descriptor {
    HandedOutRecord record;
    HolderReport holders;
  };
  std::vector<Descriptor> descriptors;
  bool complete = true;  // false: there may be others
};

// Searches all processes of the node for those that have the mounts. Deletes
// the records of mounts that no process has.
Result<HandedOutReport> FindHandedOut(
    const ServiceParts& parts, const std::vector<HandedOutRecord>& records,
    std::uint64_t cgroup = 0);

// Ok if there is room for one more record of the allocation and the user. If
// not, first deletes records of mounts that no process has. ResourceExhausted
// if that does not suffice.
Result<void> MakeRoomFor(const ServiceParts& parts,
                         const HandedOutRecord& wanted);

// Opens a mount for the caller, and records it. `open` makes its fd.
// ResourceExhausted as MakeRoomFor.
Result<UniqueFd> HandOut(
    const ServiceParts& parts, HandedOutRecord record,
    const std::function<Result<exec::HandedOutFd>()>& open);

}  // namespace mountd
