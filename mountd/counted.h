// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "mountd/base/result.h"

namespace mountd {

// How many of something each key has at most: what was counted once, and what
// has come and gone since. So a limit costs a count of all only the first time,
// and near it.
//
// Thread-safe.
template <typename Key>
class Counted {
 public:
  // Whether `key` has fewer than `limit`. `count` tells how many it has now; it
  // is asked when nothing is known yet, or when there may be too many.
  template <typename Count>
  Result<bool> IsBelow(const Key& key, std::uint32_t limit,
                       const Count& count) {
    const std::lock_guard lock(mutex_);
    const auto known = most_.find(key);
    if (known != most_.end() && known->second < limit) {
      return true;
    }
    MOUNTD_ASSIGN(const std::uint32_t now, count());
    most_[key] = now;
    return now < limit;
  }

  // Called after one was written; before that, IsBelow was asked.
  void Added(const Key& key) {
    const std::lock_guard lock(mutex_);
    ++most_[key];
  }

  // Has `remove` take one away, which tells whether there was one. Nobody
  // counts meanwhile: from a count without it, it would be taken off again.
  template <typename Remove>
  Result<bool> Removing(const Key& key, const Remove& remove) {
    const std::lock_guard lock(mutex_);
    MOUNTD_ASSIGN(const bool removed, remove());
    const auto known = most_.find(key);
    if (removed && known != most_.end() && known->second > 0) {
      --known->second;
    }
    return removed;
  }

  // Of a key that will not come again, or counted anew if it does.
  void Forget(const Key& key) {
    const std::lock_guard lock(mutex_);
    most_.erase(key);
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::uint32_t> most_;
};

}  // namespace mountd
