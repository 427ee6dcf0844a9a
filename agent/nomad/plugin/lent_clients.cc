// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/lent_clients.h"

namespace mountd::nomad {

LentClients::Turn::Turn(LentClients& clients) : clients_(clients) {
  std::unique_lock lock(clients_.mutex_);
  const std::size_t own = clients_.next_turn_++;
  clients_.waiting_.insert(own);
  clients_.changed_.wait(lock, [&] {
    return clients_.working_ < kMost && *clients_.waiting_.begin() == own;
  });
  clients_.waiting_.erase(own);
  ++clients_.working_;
  clients_.changed_.notify_all();  // the next one may be let in, too
}

LentClients::Turn::~Turn() {
  const std::lock_guard lock(clients_.mutex_);
  --clients_.working_;
  clients_.changed_.notify_all();
}

std::optional<agent::Client> LentClients::TakeIdle() {
  const std::lock_guard lock(mutex_);
  return std::exchange(idle_, std::nullopt);
}

void LentClients::Keep(agent::Client client) {
  const std::lock_guard lock(mutex_);
  idle_ = std::move(client);
}

}  // namespace mountd::nomad
