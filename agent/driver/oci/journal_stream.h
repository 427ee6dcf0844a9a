// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::driver {

// syslog(3): LOG_INFO, LOG_ERR.
enum class JournalLevel { kOutput = 6, kError = 3 };

// Returns a stream of the journal, to which a task writes lines by itself
// (sd_journal_stream_fd(3)). SYSLOG_IDENTIFIER is the task's id. Unavailable
// without a journal.
Result<UniqueFd> OpenJournal(const std::string& task_id, JournalLevel level);

}  // namespace mountd::driver
