// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>
#include <vector>

#include "mountd/log_budget.h"
#include "mountd/operations.h"

namespace mountd {

// The one line that an operation gets: who, what, by which rules of the
// configuration, and what became of it. What changes something is told at
// level info, what only looks at debug, and what fails at warning.
//
// In the journal it has fields (systemd.journal-fields(7)): MESSAGE_ID,
// MOUNTD_METHOD, MOUNTD_OBJECT, MOUNTD_ALLOCATION or MOUNTD_PLUGIN,
// MOUNTD_OPERATION (the id that answers and signals have), MOUNTD_UID,
// MOUNTD_DURATION_USEC, MOUNTD_RULES (lines of the configuration), MOUNTD_ERROR
// and ERRNO. Elsewhere it is text. Arguments are in neither: secrets come in
// them.
//
// Of one user so many at once, and in a second, as LogBudget says: then they
// are left out, which is said.
//
// Lives on one thread.
class OperationLog {
 public:
  void Log(const OperationSummary& summary,
           LogBudget::Clock::time_point now = LogBudget::Clock::now());

 private:
  LogBudget refused_{{.burst = 100, .per_second = 2, .users = 10}};
  LogBudget done_{{.burst = 2000, .per_second = 100, .users = 10}};
};

// The fields, each as "NAME=value", none with anything that ends a line.
std::vector<std::string> JournalFieldsOf(const OperationSummary& summary);

}  // namespace mountd
