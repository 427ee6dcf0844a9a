// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <map>
#include <mutex>

#include "mountd/base/result.h"

namespace mountd {

// Bounds how many objects each key has. Remembers the last count from the store
// and adds the changes since then. So it asks the store only for a new key and
// near the limit, and not for each object.
//
// Thread-safe.
template <typename Key>
class Counted {
 public:
  // Returns whether `key` has fewer objects than `limit`. Calls `count` for the
  // current number only if nothing is known yet or the limit may be reached.
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

  // Adds one object by `add` if `key` has fewer than `limit`, and returns
  // whether it added one. Holds the mutex meanwhile, because otherwise two
  // threads could each add an object where only one has room.
  template <typename Count, typename Add>
  Result<bool> AddIfBelow(const Key& key, std::uint32_t limit,
                          const Count& count, const Add& add) {
    const std::lock_guard lock(mutex_);
    auto known = most_.find(key);
    if (known == most_.end() || known->second >= limit) {
      MOUNTD_ASSIGN(const std::uint32_t now, count());
      known = most_.insert_or_assign(key, now).first;
    }
    if (known->second >= limit) {
      return false;
    }
    MOUNTD_TRY(add());
    ++known->second;
    return true;
  }

  // Counts one more object of `key`. Called after IsBelow, once the object is
  // written.
  void Added(const Key& key) {
    const std::lock_guard lock(mutex_);
    ++most_[key];
  }

  // Removes one object by `remove`, which returns whether there was one. Holds
  // the mutex meanwhile. Otherwise another thread could count the objects after
  // the removal, and this function would subtract the removed object again.
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

  // Forgets a key that is not used any more. A later use counts its objects
  // again.
  void Forget(const Key& key) {
    const std::lock_guard lock(mutex_);
    most_.erase(key);
  }

 private:
  std::mutex mutex_;
  std::map<Key, std::uint32_t> most_;
};

}  // namespace mountd
