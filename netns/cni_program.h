// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/config.h"
#include "mountd/exec/kernel.h"
#include "mountd/exec/plan.h"

// mountd-cni-run (netns/cni/), as the executor starts it: what it may do is on
// its command line, what it is asked on its stdin, and not read here.
namespace mountd::netns {

// How much longer than timeouts.cni the program may take until it is killed: it
// ends by itself before, and has undone what it did.
inline constexpr std::chrono::milliseconds kCniGrace{5'000};

// Runs one operation, with `request` as the program's stdin; answers what it
// wrote. NotSupported without [cni]; Unavailable if it gave no answer: what was
// done is unknown, and DEL finds it. DeadlineExceeded: it was killed.
Result<UniqueFd> RunCniProgram(exec::Kernel& kernel, const Config& config,
                               const exec::CniPlan& plan, int request);

}  // namespace mountd::netns
