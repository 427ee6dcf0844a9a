// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>

// Ends every process that a plugin started, in whatever way. The kernel makes
// this process the parent of orphans (PR_SET_CHILD_SUBREAPER, prctl(2)).
namespace mountd::cni {

// Makes this process adopt orphans. Returns false if the kernel refuses. Then
// orphans go to init.
bool AdoptOrphans();

// Kills and reaps every descendant. Returns false if one is left after `grace`,
// because it is stuck in the kernel.
bool KillDescendants(std::chrono::milliseconds grace);

}  // namespace mountd::cni
