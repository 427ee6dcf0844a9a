// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/driver/shim/setup.h"

namespace mountd::shim {

// Both functions run in a child of the shim that then executes the runtime.
// They return null, or a text that says what failed, with errno set.

// Joins the task's user namespace as its root, then the task's network
// namespace, as far as the setup has each.
const char* JoinNamespaces(const Setup& setup);
// Mounts the root file system in a mount namespace of its own, if the setup has
// one.
const char* MountRoot(const Setup& setup);

}  // namespace mountd::shim
