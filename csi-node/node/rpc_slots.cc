// SPDX-License-Identifier: LGPL-2.1-or-later
#include "csi-node/node/rpc_slots.h"

#include <utility>

#include "mountd/base/current_user.h"

namespace mountd::csi {

// Moves as many calls as there is room for from `waiting` to `under_way`.
void RpcSlots::Serve(Queue& queue) {
  const auto may = [&](UserTurns::Ticket /*ticket*/, std::uint32_t user) {
    return queue.under_way[user] < of_user_;
  };
  while (queue.all_under_way < 2 * std::uint64_t{of_user_}) {
    const std::optional<UserTurns::Ticket> next = queue.waiting.Next(may);
    if (!next) {
      return;
    }
    // The call's thread waits until it has left `waiting`.
    ++queue.under_way[queue.waiting.Begin(*next)];
    ++queue.all_under_way;
  }
}

RpcSlots::Slot::Slot(RpcSlots& slots, std::string plugin)
    : slots_(slots), plugin_(std::move(plugin)), user_(CurrentUser::Get()) {
  std::unique_lock lock(slots_.mutex_);
  Queue& queue = slots_.queues_[plugin_];
  const UserTurns::Ticket ticket = queue.waiting.Add(user_);
  slots_.Serve(queue);
  slots_.changed_.wait(lock, [&] { return !queue.waiting.Contains(ticket); });
}

RpcSlots::Slot::~Slot() {
  {
    const std::lock_guard lock(slots_.mutex_);
    const auto found = slots_.queues_.find(plugin_);
    Queue& queue = found->second;
    if (--queue.under_way[user_] == 0) {
      queue.under_way.erase(user_);
    }
    --queue.all_under_way;
    slots_.Serve(queue);
    if (queue.all_under_way == 0 && queue.waiting.empty()) {
      slots_.queues_.erase(found);
    }
  }
  // Wakes all threads, because only the thread whose turn Serve has made may
  // continue.
  slots_.changed_.notify_all();
}

bool RpcSlots::HasRoom(const std::string& plugin) {
  const std::lock_guard lock(mutex_);
  const auto found = queues_.find(plugin);
  if (found == queues_.end()) {
    return true;
  }
  const Queue& queue = found->second;
  const auto mine = queue.under_way.find(CurrentUser::Get());
  const std::uint64_t of_mine =
      mine == queue.under_way.end() ? 0 : mine->second;
  return queue.waiting.empty() && of_mine + 1 < of_user_ &&
         queue.all_under_way + 1 < 2 * std::uint64_t{of_user_};
}

}  // namespace mountd::csi
