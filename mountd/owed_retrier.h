// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>

#include "mountd/base/loop.h"
#include "mountd/base/worker_pool.h"
#include "mountd/service.h"

namespace mountd {

// Tries owed tear-downs again, for as long as there are any: after 1 s,
// doubling to 60 s, from 1 s again once something new is owed. A few at a time,
// each once in a round: a plugin that hangs must not take all threads. Restarts
// do not forget: what is owed is in the store.
//
// Lives on the loop's thread; the work runs on the allocations' strands.
class OwedRetrier {
 public:
  // `on_count` is told how many are owed, when that changes.
  OwedRetrier(Loop& loop, Strands& strands, Service& service,
              std::function<void(std::uint32_t)> on_count)
      : loop_(loop),
        strands_(strands),
        service_(service),
        on_count_(std::move(on_count)) {}

  // Looks at what is owed now; called at start and after each failed call.
  void Check();

 private:
  void Schedule(std::uint32_t count);
  void BeginRound();
  void Pump();

  Loop& loop_;
  Strands& strands_;
  Service& service_;
  const std::function<void(std::uint32_t)> on_count_;
  std::uint32_t last_count_ = 0;
  bool scheduled_ = false;
  std::deque<OwedRecord> round_;  // still to be tried
  std::size_t under_way_ = 0;
  std::chrono::milliseconds pause_{1000};
};

}  // namespace mountd
