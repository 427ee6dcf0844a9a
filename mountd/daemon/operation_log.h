// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/base/log_budget.h"
#include "mountd/operations/operations.h"

namespace mountd {

// Writes one line for each operation. Writes one more line for each call that
// joined the operation with a traceparent or request id of its own. The line
// has the caller, method, object, the rules of the configuration that decided,
// the caller's names of the call, and the outcome. The level is info for an
// operation that changes something, debug for one that only reads, and warning
// for a failed one. A read of other users' objects by an administrator is info,
// too, and the line names these users ("others="), or says "all".
//
// Calls that mountd cannot decode, and connections that mountd refuses, have a
// line each like a failed operation, with the pid of the process that connected
// and without an operation's id.
//
// In the journal the line has fields (systemd.journal-fields(7)): MESSAGE_ID,
// MOUNTD_METHOD, MOUNTD_OBJECT, MOUNTD_ALLOCATION or MOUNTD_PLUGIN,
// MOUNTD_OPERATION (the id in answers and signals), MOUNTD_UID,
// MOUNTD_DURATION_USEC, MOUNTD_RULES (lines of the configuration),
// MOUNTD_OTHERS (uids, or "all"), MOUNTD_PID, MOUNTD_TRACE_ID and
// MOUNTD_REQUEST_ID (the caller's names), MOUNTD_ERROR and ERRNO. Elsewhere the
// line is text. Neither form holds arguments, because arguments may be secrets.
//
// Leaves out lines of a user who exceeds LogBudget, and logs that it left out
// some.
//
// Runs on one thread.
class OperationLog {
 public:
  void Log(const OperationSummary& summary,
           LogBudget::Clock::time_point now = LogBudget::Clock::now());

 private:
  void LogCall(const OperationSummary& summary, const CallTrace* call,
               LogBudget::Clock::time_point now);

  LogBudget refused_{{.burst = 100, .per_second = 2, .users = 10}};
  LogBudget looked_{{.burst = 100, .per_second = 2, .users = 10}};
  LogBudget done_{{.burst = 2000, .per_second = 100, .users = 10}};
};

// Returns the fields as "NAME=value". No field holds a character that ends a
// line.
std::vector<std::string> JournalFieldsOf(const OperationSummary& summary);
// Returns the fields for one of the operation's calls; null: the call gave no
// names.
std::vector<std::string> JournalFieldsOf(const OperationSummary& summary,
                                         const CallTrace* call);

}  // namespace mountd
