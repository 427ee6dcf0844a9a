// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <vector>

#include "mountd/holders.h"
#include "mountd/service_parts.h"

// Mounts that callers have as fds, which no release takes back: they are listed
// for as long as a process has them.
namespace mountd {

struct HandedOutReport {
  struct Descriptor {
    HandedOutRecord record;
    HolderReport holders;
  };
  std::vector<Descriptor> descriptors;
  bool complete = true;  // there are no others
};

// Searches all processes of the node for those that have the mounts. Deletes
// the records of mounts that no process has.
Result<HandedOutReport> FindHandedOut(
    const ServiceParts& parts, const std::vector<HandedOutRecord>& records,
    std::uint64_t cgroup = 0);

// Whether there is room for one more record of its allocation and its user.
// Before ResourceExhausted, forgets those that nobody has.
Result<void> MakeRoomFor(const ServiceParts& parts,
                         const HandedOutRecord& wanted);

}  // namespace mountd
