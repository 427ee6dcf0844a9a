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

// The calling process, as the kernel (SO_PEERCRED at accept) or the bus daemon
// identifies it. mountd never takes these facts from the message, because a
// caller could lie there.
struct Caller {
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  std::vector<std::uint32_t> groups;  // supplementary, where known
  // The polkit action that allows this one call to act as an administrator
  // (dbus/transport/polkit.h); "" if no such action does.
  std::string authority = {};
  // The process that connected, and its pidfd; 0 if unknown.
  std::uint32_t pid = 0;
  std::shared_ptr<const UniqueFd> process = {};
  // The bus name of the connection that polkit was asked about. For another
  // session of the same user polkit may answer otherwise, so mountd does not
  // join calls of different connections.
  std::string authority_subject = {};
};

// Returns the pid of the process that connected, so that mountd can read its
// directory in /proc. FailedPrecondition if the pid is unknown, or if the
// process has ended, because another process may have its number.
Result<std::uint32_t> LivingPidOf(const Caller& caller);

// True once nobody waits for the work any more. Long retries check this flag.
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
