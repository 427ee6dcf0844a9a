// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <mutex>
#include <utility>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Loop devices below this number are other programs'.
inline constexpr int kFirstLoopNumber = 4096;
// Minor numbers have 20 bits.
inline constexpr int kEndLoopNumber = 1 << 20;

// Hands out numbers for loop devices, each once in a million. A container keeps
// its node of a device for as long as it likes, and NodeUnpublishVolume cannot
// take that node away: a number that is given to another volume would lead the
// container to that volume's bytes. Owns the file `loop-numbers` of the data
// directory, which remembers over restarts and reboots. Thread-safe.
class LoopNumbers {
 public:
  // `directory`: an fd of the directory with that file.
  explicit LoopNumbers(UniqueFd directory) : directory_(std::move(directory)) {}

  // A number that this data directory has not used lately. Another program may
  // have a device of it.
  Result<int> Take();

 private:
  Result<int> ReadNext() const;
  Result<void> WriteNext(int next) const;

  const UniqueFd directory_;
  std::mutex mutex_;
  int next_ = 0;  // 0: nothing is reserved yet
  int left_ = 0;  // of those that the file counts as taken already
};

}  // namespace mountd::csi_local
