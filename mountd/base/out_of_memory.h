// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace mountd {

// Makes the process end by SIGABRT, with a line on stderr, from now on whenever
// operator new finds no memory. So std::bad_alloc is never thrown. Half-done
// work is then an intent in a store, or undone by the process that waits for
// this one, exactly as after SIGKILL. `program` outlives the process.
void EndWhenOutOfMemory(const char* program);

}  // namespace mountd
