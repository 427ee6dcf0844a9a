// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

namespace mountd {

// From here on the process ends, with a line on stderr and by SIGABRT, where
// operator new finds no memory: std::bad_alloc is never thrown. What would be
// half done after that is an intent in a store, or undone by whoever waits for
// the process, exactly as after SIGKILL. `program` outlives the process.
void EndWhenOutOfMemory(const char* program);

}  // namespace mountd
