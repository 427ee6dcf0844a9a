// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/base/result.h"

namespace mountd::exec {

// Far above the need, because an executor uses some MiB and reads at most 64
// MiB of one file.
constexpr std::uint64_t kMaxMemory = std::uint64_t{512} << 20U;

// Bounds this process's data to kMaxMemory, or to less if its limit is lower. A
// plan that takes more then ends this executor (EndWhenOutOfMemory), and the
// machine keeps its memory. Sets only the soft limit, because programs that
// RunChild starts get the hard limit. Does nothing under a sanitizer, because a
// sanitizer maps more memory.
Result<void> RestrictMemory();

}  // namespace mountd::exec
