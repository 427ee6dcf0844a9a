// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace mountd::csi {

// Bounds how many calls of one plugin are under way at once, because more calls
// would only wait in the plugin while their deadlines run. First come, first
// served. Thread-safe.
class RpcSlots {
 public:
  explicit RpcSlots(std::uint32_t per_plugin) : per_plugin_(per_plugin) {}

  class Slot {
   public:
    Slot(RpcSlots& slots, std::string plugin);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    RpcSlots& slots_;
    const std::string plugin_;
  };

 private:
  struct Queue {
    std::uint64_t next = 0;   // the next ticket to hand out
    std::uint64_t ended = 0;  // calls that are over
  };

  const std::uint32_t per_plugin_;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::map<std::string, Queue> queues_;  // of plugins with calls under way
};

}  // namespace mountd::csi
