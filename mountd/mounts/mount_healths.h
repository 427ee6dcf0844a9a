// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "mountd/plan/values.h"

namespace mountd {

// Returns "healthy", "dead", "hung" or "unknown".
constexpr std::string_view MountHealthName(exec::MountHealth health) {
  switch (health) {
    case exec::MountHealth::kHealthy:
      return "healthy";
    case exec::MountHealth::kDead:
      return "dead";
    case exec::MountHealth::kHung:
      return "hung";
    case exec::MountHealth::kUnknown:
      break;
  }
  return "unknown";
}

// Owns the last known health of each mount, by mount id. Thread-safe.
class MountHealths {
 public:
  exec::MountHealth Of(std::uint64_t mount_id) const {
    const std::lock_guard lock(mutex_);
    const auto found = healths_.find(mount_id);
    return found == healths_.end() ? exec::MountHealth::kUnknown
                                   : found->second;
  }
  // Sets the health and returns the earlier one.
  exec::MountHealth Set(std::uint64_t mount_id, exec::MountHealth now) {
    const std::lock_guard lock(mutex_);
    return std::exchange(healths_[mount_id], now);
  }
  void ForgetAllBut(const std::set<std::uint64_t>& mount_ids) {
    const std::lock_guard lock(mutex_);
    std::erase_if(healths_, [&](const auto& known) {
      return !mount_ids.contains(known.first);
    });
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::uint64_t, exec::MountHealth> healths_;  // mutex_
};

}  // namespace mountd
