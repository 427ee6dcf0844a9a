// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Texts that one process passes to another as a file of memory
// (memfd_create(2)).
namespace mountd {

// Makes a file of memory that holds `text`. `name` only labels it for people
// who look at the process's fds.
Result<UniqueFd> MemoryWith(const char* name, std::string_view text);

// Returns all that `fd` holds, wherever its offset is. ResourceExhausted if
// that is more than `limit` bytes.
Result<std::string> ReadMemory(int fd, std::size_t limit);

}  // namespace mountd
