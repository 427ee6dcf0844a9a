// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>

#include "bench/report.h"
#include "bench/world.h"

namespace mountd::bench {

using Measure =
    std::function<Result<void>(World&, agent::Client&, Report&, bool quick)>;

// Runs a bench: calls `measure` with an agent's connection to a mountd of its
// own. Options: [--quick] [--json FILE]. Returns the exit status.
int RunBench(int argc, char** argv, const Measure& measure);

// Does the same for a bench that needs no mountd.
using MeasureAlone = std::function<Result<void>(Report&, bool quick)>;
int RunAlone(int argc, char** argv, const MeasureAlone& measure);

}  // namespace mountd::bench
