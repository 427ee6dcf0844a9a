// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mountd/base/decisions.h"
#include "mountd/base/operation_trace.h"
#include "mountd/base/progress.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd {

// The process that calls, as the kernel (SO_PEERCRED at accept) or the bus
// daemon identifies it. A message never does.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary, where known
  // The polkit action that allows this one call to act as an administrator
  // (dbus/transport/polkit.h); "": nobody was asked.
  std::string authority = {};
  // The process that connected, and its pidfd; 0 if unknown.
  std::uint32_t pid = 0;
  std::shared_ptr<const UniqueFd> process = {};
  // The bus name that polkit was asked about. Another connection of the same
  // user may be another session with another answer. So its call does not join
  // a call that was allowed to this connection.
  std::string authority_subject = {};
};

// Returns the pid of the process that connected, to look at it in /proc.
// FailedPrecondition if the process has ended, because another process may have
// its number, or if it is unknown.
Result<std::uint32_t> LivingPidOf(const Caller& caller);

// Set once nobody waits for the work any more. Long retries check it.
using CancelToken = std::shared_ptr<std::atomic<bool>>;

inline bool IsCancelled(const CancelToken& cancelled) {
  return cancelled != nullptr && *cancelled;
}

// Aborted if the call was cancelled before it has changed anything.
inline Result<void> CheckNotCancelled(const CancelToken& cancelled,
                                      const std::string& op,
                                      const std::string& object) {
  return IsCancelled(cancelled)
             ? Result<void>(MakeError(
                   Code::kAborted, op, object,
                   "was cancelled before it began, so nothing changed"))
             : Ok();
}

struct CallContext {
  Caller caller;
  CancelToken cancelled = std::make_shared<std::atomic<bool>>(false);
  // The policy records its decisions on the call here.
  std::shared_ptr<Decisions> decisions = std::make_shared<Decisions>();
  // The progress of long work, for ListOperations and subscribers.
  Progress progress{};
  // Null unless the caller gave a traceparent or a request id.
  std::shared_ptr<OperationTrace> trace = {};
};

}  // namespace mountd
