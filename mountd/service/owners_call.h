// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/store/records.h"

namespace mountd {

// Returns a call as if from the owner, for work that mountd does without one.
// Asks the user database for the owner's groups, because records hold no groups
// and a rule may name one. Unavailable as GroupsOf.
Result<CallContext> OwnersCall(const AllocationRecord& owner);

}  // namespace mountd
