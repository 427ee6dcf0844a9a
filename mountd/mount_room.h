// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "mountd/base/result.h"

namespace mountd {

// How many mounts there are in the host's mount namespace, of how many there
// may be (fs.mount-max): the last of them are kept for others. At the limit
// nobody on the host mounts anything, nor starts a unit with a namespace of its
// own.
//
// Set by who watches the mounts; until then there is room. Thread-safe.
class MountRoom {
 public:
  explicit MountRoom(std::uint64_t reserve) : reserve_(reserve) {}

  void Set(std::uint64_t count, std::uint64_t most) {
    most_ = most;
    count_ = count;
  }
  void SetCount(std::uint64_t count) { count_ = count; }
  std::uint64_t count() const { return count_; }

  // ResourceExhausted, naming fs.mount-max, if no more than the reserve is
  // left.
  Result<void> Check(const std::string& op, const std::string& object) const {
    const std::uint64_t count = count_;
    const std::uint64_t most = most_;
    if (most == 0 || count + reserve_ < most) {
      return Ok();
    }
    return MakeError(Code::kResourceExhausted, op, object,
                     "the host has " + std::to_string(count) + " of " +
                         std::to_string(most) +
                         " mounts (fs.mount-max, limits.mount_reserve)");
  }

 private:
  const std::uint64_t reserve_;
  std::atomic<std::uint64_t> count_ = 0;
  std::atomic<std::uint64_t> most_ = 0;  // 0: not known
};

}  // namespace mountd
