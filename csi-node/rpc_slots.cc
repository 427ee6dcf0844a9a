// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/rpc_slots.h"

#include <utility>

namespace mountd::csi {

// Serves a ticket once fewer than `per_plugin_` calls before it are under way.
// Calls end in any order, so only the number of ended calls counts.
RpcSlots::Slot::Slot(RpcSlots& slots, std::string plugin)
    : slots_(slots), plugin_(std::move(plugin)) {
  std::unique_lock lock(slots_.mutex_);
  Queue& queue = slots_.queues_[plugin_];
  const std::uint64_t ticket = queue.next++;
  slots_.ended_.wait(lock,
                     [&] { return ticket - queue.ended < slots_.per_plugin_; });
}

RpcSlots::Slot::~Slot() {
  {
    const std::lock_guard lock(slots_.mutex_);
    const auto found = slots_.queues_.find(plugin_);
    if (++found->second.ended == found->second.next) {
      slots_.queues_.erase(found);
    }
  }
  slots_.ended_.notify_all();
}

}  // namespace mountd::csi
