// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "propagation/ground/context.h"

namespace mountd::propagation {

// Replaces the detached `tree` by a clone whose flags its holder cannot clear,
// not even in a mount namespace of his own. Call this before a tree is handed
// out. The clone keeps the propagation and the mapped ids of each mount. On an
// error `tree` must not be handed out. NotSupported, PermissionDenied or
// ResourceExhausted if this machine lets the executor make no user namespace;
// DeadlineExceeded if the kernel takes too long.
Result<void> LockTree(const Context& context, const std::string& object,
                      UniqueFd* tree);

}  // namespace mountd::propagation
