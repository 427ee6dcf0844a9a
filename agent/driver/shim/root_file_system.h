// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/driver/shim/setup.h"

namespace mountd::shim {

// Joins the task's user namespace as its root, then the task's network
// namespace, and mounts the root file system in a mount namespace of its own,
// as far as the setup has each. Runs in a child of the shim that then becomes
// the runtime. Returns what failed, with errno set, or null.
const char* EnterNamespaces(const Setup& setup);

}  // namespace mountd::shim
