// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>

#include "mountd/base/result.h"

namespace mountd::exec {

// An executor has some MiB, and reads at most 64 MiB of one file.
constexpr std::uint64_t kMaxMemory = std::uint64_t{512} << 20U;

// Bounds this process's data to kMaxMemory, or to less if its limit is lower,
// so that a plan that takes more ends this executor and no memory of others
// (EndWhenOutOfMemory). Only sets the soft limit, because the programs of
// RunChild get the hard one. Does nothing under a sanitizer, which maps more.
Result<void> RestrictMemory();

}  // namespace mountd::exec
