// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "agent/driver/task_driver.h"
#include "bench/report.h"

namespace mountd::bench {

// Times from a byte that is typed until its echo: through a driver's exec with
// a terminal, and at a local pseudo terminal.
Result<void> EchoInTask(driver::TaskDriver& driver, const std::string& task,
                        int rounds, Samples& into);
Result<void> EchoAtLocalTerminal(int rounds, Samples& into);

}  // namespace mountd::bench
