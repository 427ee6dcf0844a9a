// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/ground/context.h"

namespace mountd::propagation {

// Makes a new tmpfs(5) as the plan says, detached, nosuid and nodev, and
// returns its root. The mount goes with the fd unless it is attached.
// NotSupported if the plan asks for no swapping and the kernel does not know
// "noswap" (before 6.4).
Result<UniqueFd> MakeTmpfs(const Context& context, const exec::TmpfsPlan& plan,
                           const std::string& object);

}  // namespace mountd::propagation
