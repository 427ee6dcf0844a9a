// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <mutex>
#include <utility>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// csi-local leaves loop devices below this number to other programs.
inline constexpr int kFirstLoopNumber = 4096;
// Minor numbers have 20 bits.
inline constexpr int kEndLoopNumber = 1 << 20;

// Hands out numbers for loop devices, each only once in about a million. A
// container keeps its node of a device for as long as it likes, and
// NodeUnpublishVolume cannot remove that node. If another volume got the
// number, the node would lead the container to that volume's bytes. Owns the
// file `loop-numbers` of the data directory, which keeps the next number over
// restarts and reboots. Thread-safe.
class LoopNumbers {
 public:
  // `directory` is an fd of the directory with that file.
  explicit LoopNumbers(UniqueFd directory) : directory_(std::move(directory)) {}

  // Returns a number that this data directory has not used lately. Another
  // program may have a device of that number.
  Result<int> Take();

 private:
  Result<int> ReadNext() const;
  Result<void> WriteNext(int next) const;

  const UniqueFd directory_;
  std::mutex mutex_;
  int next_ = 0;  // 0: no number is reserved yet
  int left_ = 0;  // reserved numbers that are left
};

}  // namespace mountd::csi_local
