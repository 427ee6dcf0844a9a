// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::csi_local {

// Which volumes, snapshots and paths are being worked on. Nobody waits: who
// meets another is told Aborted, as the specification has it. Thread-safe.
class Locks {
 public:
  // Held while it lives; before the Locks are gone.
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

  // All of the keys or none. Aborted if one is held.
  Result<std::unique_ptr<Held>> Take(const std::vector<std::string>& keys);

 private:
  std::mutex mutex_;
  std::set<std::string> held_;  // mutex_
};

}  // namespace mountd::csi_local
