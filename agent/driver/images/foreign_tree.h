// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "mountd/base/result.h"

// Measures and removes trees whose files belong to ids of a user namespace, so
// this process alone may not list or remove them. find(1) and rm(1) do the
// walk, within the namespace (confined.h), and follow no link.
namespace mountd::driver {

struct TreeSize {
  std::uint64_t bytes = 0;  // on disk; a file with several names counts once
  std::uint64_t files = 0;  // names of any kind
};

// One tree: its name in a directory, an absolute path.
struct ForeignTree {
  int user_namespace = -1;
  std::string directory;
  std::string name;
};

// Measures the tree, and ends early once the size is beyond `most`. If the tree
// changes during the call, the size is approximate.
Result<TreeSize> MeasureTree(const ForeignTree& tree, const TreeSize& most,
                             std::chrono::steady_clock::time_point deadline);

// Says whether the size is beyond `most` in bytes or in files.
inline bool IsBeyond(const TreeSize& size, const TreeSize& most) {
  return size.bytes > most.bytes || size.files > most.files;
}

// Removes the tree; Ok if there is none. `inherited` as of Confinement.
Result<void> RemoveTree(const ForeignTree& tree, int inherited,
                        std::chrono::steady_clock::time_point deadline);

}  // namespace mountd::driver
