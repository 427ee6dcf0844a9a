// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "mountd/base/steps.h"

namespace mountd::testing {

// Makes every write, truncation, sync and removal of SQLite from now on a step
// "store write state.db-wal" (sqlite.org/vfs.html). A step fails with an errno:
// ENOSPC becomes SQLITE_FULL, all others SQLITE_IOERR. `steps` must live for
// ever.
void StepStores(Steps& steps);

}  // namespace mountd::testing
