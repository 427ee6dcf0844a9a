// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <condition_variable>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "mountd/base/user_turns.h"

namespace mountd::csi {

// Bounds how many calls of one plugin are under way at once, because more calls
// would only wait in the plugin while their deadlines run. One user has at most
// `of_user` of them, and all users together twice as many, so that calls that
// take long leave room for other users'. The users who wait take turns
// (CurrentUser). Thread-safe.
class RpcSlots {
 public:
  explicit RpcSlots(std::uint32_t of_user) : of_user_(of_user) {}

  class Slot {
   public:
    Slot(RpcSlots& slots, std::string plugin);
    ~Slot();
    Slot(const Slot&) = delete;
    Slot& operator=(const Slot&) = delete;

   private:
    RpcSlots& slots_;
    const std::string plugin_;
    const std::uint32_t user_;
  };

  // True if a call of the current user would get a slot at once and leave
  // another slot free, or if no call at all is under way. Work that may be left
  // out asks this first, so that callers seldom wait for this work.
  bool HasRoom(const std::string& plugin);

 private:
  struct Queue {
    UserTurns waiting;
    std::map<std::uint32_t, std::uint32_t> under_way;  // by user
    std::uint32_t all_under_way = 0;
  };

  // The caller holds the mutex.
  void Serve(Queue& queue);

  const std::uint32_t of_user_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, Queue> queues_;  // of plugins with calls
};

}  // namespace mountd::csi
