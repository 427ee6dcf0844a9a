// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "mountd/decisions.h"
#include "mountd/progress.h"

namespace mountd {

// Who calls: as the kernel (SO_PEERCRED at accept) or the bus daemon says,
// never as a message says.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary, where they are known
  // Of this one call: who is asked for it has said that it may administer
  // (dbus/polkit.h); "": nobody was asked.
  std::string authority = {};
  // The process that connected, and a pidfd of it; 0 where that is not known.
  std::uint32_t pid = 0;
  std::shared_ptr<const UniqueFd> process = {};
  // The bus name that it was asked about. Another connection of the same user
  // may be another session, of which another answer would be given: its call
  // does not join one that was allowed to this.
  std::string authority_subject = {};
};

// The pid of the process that connected, for looking at it in /proc.
// FailedPrecondition if it has ended, as another may have its number, or if it
// is not known.
Result<std::uint32_t> LivingPidOf(const Caller& caller);

// Set once nobody waits for the work any more; long retries look at it.
using CancelToken = std::shared_ptr<std::atomic<bool>>;

struct CallContext {
  Caller caller;
  CancelToken cancelled = std::make_shared<std::atomic<bool>>(false);
  // What the policy says meanwhile is written down here.
  std::shared_ptr<Decisions> decisions = std::make_shared<Decisions>();
  // How far long work is, for whoever asks.
  Progress progress{};
};

}  // namespace mountd
