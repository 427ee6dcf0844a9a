// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// Texts that go from process to process as a file of memory (memfd_create(2)).
namespace mountd {

// One that holds `text`; `name` is for who looks at the process's fds.
Result<UniqueFd> MemoryWith(const char* name, std::string_view text);

// All that `fd` holds, wherever its offset is. ResourceExhausted if that is
// more than `limit` bytes.
Result<std::string> ReadMemory(int fd, std::size_t limit);

}  // namespace mountd
