// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::csi_local {

// Holds the ids and paths that calls work on. Never waits: a call that meets
// another gets Aborted, as the specification says. Thread-safe.
class Locks {
 public:
  // Holds keys while it lives. Destroyed before the Locks.
  class Held {
   public:
    Held(Locks* locks, std::set<std::string> keys)
        : locks_(locks), keys_(std::move(keys)) {}
    ~Held();
    Held(const Held&) = delete;
    Held& operator=(const Held&) = delete;

   private:
    Locks* locks_;
    std::set<std::string> keys_;
  };

  // Takes all of the keys or none. Aborted if one is held.
  Result<std::unique_ptr<Held>> Take(const std::vector<std::string>& keys);

 private:
  std::mutex mutex_;
  std::set<std::string> held_;  // mutex_
};

}  // namespace mountd::csi_local
