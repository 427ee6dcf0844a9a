// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "propagation/context.h"

namespace mountd::propagation {

// A new tmpfs(5) as the plan says, detached, nosuid and nodev: the root of a
// mount that goes with the fd unless it is attached. NotSupported if it should
// not be swapped and the kernel knows of no such (before 6.4).
Result<UniqueFd> MakeTmpfs(const Context& context, const exec::TmpfsPlan& plan,
                           const std::string& object);

}  // namespace mountd::propagation
