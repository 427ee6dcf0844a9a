// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/config/config.h"
#include "mountd/kernel/kernel.h"
#include "mountd/plan/network_plans.h"

// Starts mountd-cni-run (netns/cni/). The command line bounds what the program
// may do. Its request comes on stdin, and the executor does not read it.
namespace mountd::netns {

// The time after timeouts.cni until the executor kills the program. The program
// ends by itself before that and undoes what it did.
inline constexpr std::chrono::milliseconds kCniGrace{5'000};

// Runs one operation with `request` as the program's stdin, and returns what
// the program wrote. NotSupported without [cni]. Unavailable if the program
// gave no answer; its work is then unknown, and DEL finds it. DeadlineExceeded
// if the executor killed the program.
Result<UniqueFd> RunCniProgram(exec::Kernel& kernel, const Config& config,
                               const exec::CniPlan& plan, int request);

}  // namespace mountd::netns
