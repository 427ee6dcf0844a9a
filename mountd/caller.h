// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "mountd/decisions.h"

namespace mountd {

// Who calls: as the kernel (SO_PEERCRED at accept) or the bus daemon says,
// never as a message says.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary, where they are known
};

// Set once nobody waits for the work any more; long retries look at it.
using CancelToken = std::shared_ptr<std::atomic<bool>>;

struct CallContext {
  Caller caller;
  CancelToken cancelled = std::make_shared<std::atomic<bool>>(false);
  // What the policy says meanwhile is written down here.
  std::shared_ptr<Decisions> decisions = std::make_shared<Decisions>();
  // Tells the caller how far long work is, in things done. From any thread.
  std::function<void(std::uint64_t)> progress = [](std::uint64_t) {};
};

}  // namespace mountd
