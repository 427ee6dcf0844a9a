// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <string>

#include "mountd/base/result.h"

namespace mountd::driver {

// Removes the entry `name` of a directory, and all that is beneath the entry,
// as root of a user namespace, because a container leaves files of subordinate
// ids that the user himself may not remove. A child enters the namespace,
// becomes 0, and works beneath the directory's fd. Follows no symlink and
// leaves no directory by "..". Holds two directories open at any depth, because
// the child first moves a deep directory up to the top.
//
// Success if there is no such entry. Busy for a mount in the tree. Removes all
// that it can; the error has the errno of the first file that stays. After an
// error, a deadline or a killed child the caller repeats the call, which
// removes the rest. InvalidArgument unless `name` is one component. Any thread.
//
// A new user namespace of the same maps (MakeNamespaces) serves as well as the
// container's own, because the ids on the disk are those of the host.
Result<void> RemoveTreeAsRootOf(
    int user_namespace, int directory, const std::string& name,
    std::chrono::milliseconds patience = std::chrono::seconds(60));

}  // namespace mountd::driver
