// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>

// Ends everything that a plugin started, however it was started: the kernel
// gives this process the orphans (PR_SET_CHILD_SUBREAPER, prctl(2)).
namespace mountd::cni {

// Makes this process adopt orphans. Returns false if the kernel refuses;
// orphans then go to init.
bool AdoptOrphans();

// Kills and reaps every descendant. Returns false if one is left after `grace`,
// because it is stuck in the kernel.
bool KillDescendants(std::chrono::milliseconds grace);

}  // namespace mountd::cni
