// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace mountd {

// Makes the process end by SIGABRT, with a line on stderr, from now on whenever
// operator new finds no memory. So std::bad_alloc is never thrown. Half-done
// work is then handled as after SIGKILL: it is an intent in a store, or the
// process that waits for this process undoes it. `program` outlives the
// process.
void EndWhenOutOfMemory(const char* program);

}  // namespace mountd
