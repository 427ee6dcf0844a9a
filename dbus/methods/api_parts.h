// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>

#include "dbus/receive/peer_drops.h"
#include "mountd/base/worker_pool.h"
#include "mountd/operations/operations.h"
#include "mountd/service/services.h"
#include "mountd/watch/owed_watch.h"

namespace mountd::dbus {

// The parts of the daemon that every adaptor needs. They outlive all
// connections.
struct ApiParts {
  const TimeoutsConfig& timeouts;
  Services& services;
  Operations& operations;
  Strands& strands;
  const OwedWatch& owed;
  PeerDrops& drops;
  // Logs a call or a connection that never became an operation. On the loop's
  // thread.
  std::function<void(const OperationSummary&)> audit =
      [](const OperationSummary&) {};
  // Called when a connection of this user has subscribed. On the loop's thread.
  std::function<void(std::uint32_t uid)> on_subscribe = [](std::uint32_t) {};
};

}  // namespace mountd::dbus
