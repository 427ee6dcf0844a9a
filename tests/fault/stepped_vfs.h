// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/steps.h"

namespace mountd::testing {

// Makes every write, truncation, sync and removal that SQLite makes from now on
// a step: "store write state.db-wal" (sqlite.org/vfs.html). It fails with an
// errno: ENOSPC is SQLITE_FULL, all others are SQLITE_IOERR. `steps` lives on.
void StepStores(Steps& steps);

}  // namespace mountd::testing
