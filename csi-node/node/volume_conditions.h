// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "csi-node/types/csi_values.h"
#include "mountd/base/names.h"

namespace mountd::csi {

// A volume on this node whose plugin reports conditions.
struct ReportingVolume {
  VolumeKey key;
  std::string plugin;
  std::uint32_t uid = 0;
};

// Owns the last condition that a plugin has reported of each volume. A restart
// of mountd forgets the conditions. Thread-safe.
class VolumeConditions {
 public:
  std::optional<VolumeCondition> Of(const VolumeKey& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(key);
    return found == known_.end()
               ? std::nullopt
               : std::optional<VolumeCondition>(found->second);
  }
  // Sets the condition. True if subscribers should know it: it differs from the
  // earlier condition, or it is the first condition and is abnormal.
  bool Set(const VolumeKey& key, const VolumeCondition& now) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_first] = known_.try_emplace(key, now);
    if (is_first) {
      return now.abnormal;
    }
    // The text of a good condition says nothing that somebody has to do.
    const bool changed = known->second.abnormal != now.abnormal ||
                         (now.abnormal && known->second.message != now.message);
    known->second = now;
    return changed;
  }
  void ForgetAllBut(const std::set<VolumeKey>& keys) {
    const std::lock_guard lock(mutex_);
    std::erase_if(known_,
                  [&](const auto& one) { return !keys.contains(one.first); });
  }

 private:
  mutable std::mutex mutex_;
  std::map<VolumeKey, VolumeCondition> known_;  // mutex_
};

}  // namespace mountd::csi
