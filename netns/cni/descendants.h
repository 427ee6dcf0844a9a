// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>

// What a plugin starts ends with it, however it was started: this process is
// the one that orphans are given to (PR_SET_CHILD_SUBREAPER, prctl(2)).
namespace mountd::cni {

// False if the kernel refused; then orphans would be init's.
bool AdoptOrphans();

// Kills and reaps every descendant there is. False if one is left after
// `grace`: it is stuck in the kernel.
bool KillDescendants(std::chrono::milliseconds grace);

}  // namespace mountd::cni
