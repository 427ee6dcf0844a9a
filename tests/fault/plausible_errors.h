// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "tests/fault/shared_steps.h"

namespace mountd::testing {

// Returns the errors that a step may fail with: errnos, Codes for plans, gRPC
// codes for RPCs. None of them is false about an object: an error that denies
// an existing file is left out, because the call may go on without the file.
// Empty for an unknown step.
std::vector<int> PlausibleErrors(StepProcess process, const std::string& step);

// True if a step of the executor only reads, so that a kill before it leaves the
// kernel as a kill after it does.
bool OnlyLooks(const std::string& step);

// True if a caller whose call was interrupted at `step` may get the answer
// `told`. An answer that no disturbance excuses is only true if the step was a
// plugin's answer.
bool IsTruthful(const std::string& told, StepAction action,
                const std::string& step);

}  // namespace mountd::testing
