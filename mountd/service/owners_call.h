// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/caller.h"
#include "mountd/base/result.h"
#include "mountd/store/records.h"

namespace mountd {

// Returns a call of the owner's, for work that mountd does without a call of
// the owner's. The user database is asked only here, because a record holds no
// groups and a rule may name one of the owner's. Unavailable as GroupsOf.
Result<CallContext> OwnersCall(const AllocationRecord& owner);

}  // namespace mountd
