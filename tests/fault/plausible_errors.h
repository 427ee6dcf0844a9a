// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "tests/fault/shared_steps.h"

namespace mountd::testing {

// What a step may fail with, none of which says what is not true: a call that
// is told that a file is not there, which is, may well go on without it.
// Errnos; of plans Codes, of RPCs gRPC's codes. Empty of a step that is not
// known here.
std::vector<int> PlausibleErrors(StepProcess process, const std::string& step);

// Whether a caller whose call was cut off at `step` may be told `told`: not
// what no disturbance is an excuse for, unless it is the word of a plugin that
// has failed there.
bool IsTruthful(const std::string& told, StepAction action,
                const std::string& step);

}  // namespace mountd::testing
