// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <vector>

#include "mountd/service/service_parts.h"
#include "mountd/service/teardowns.h"

namespace mountd {

// Owns nothing. Makes allocations whole at mountd's start, even those whose
// records were lost. Runs on the thread that starts mountd, before any verb.
// Never keeps mountd from starting because one allocation is broken.
class AllocationRecovery {
 public:
  AllocationRecovery(const ServiceParts& parts, Teardowns& teardowns)
      : parts_(parts), teardowns_(teardowns) {}

  // Makes allocations' directories again. Called once, before the parts
  // recover.
  Result<void> Recover();
  // Adds pending tear-downs for unfinished work of an earlier mountd. Called
  // once, after the parts have recovered.
  Result<void> OweCutOff() { return teardowns_.OweCutOff(); }

 private:
  Result<void> RecordFound();
  Result<void> NoteCutOff(const AllocationRecord& record);
  Result<void> RecordGroups(const std::vector<exec::FoundTarget>& all);
  Result<std::uint32_t> OwnerOf(const exec::FoundTarget& found);

  const ServiceParts& parts_;
  Teardowns& teardowns_;
};

}  // namespace mountd
