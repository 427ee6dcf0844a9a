// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

// One task's streams in the journal (kJournal). Each entry of the journal has
// the identifier of one start of a task, and the priority of the stream.
namespace mountd::driver {

// Returns "mountd-task:ID" (SYSLOG_IDENTIFIER). InvalidArgument for an id with
// a byte that is no visible character, or too long for systemd-journald. A line
// end would let the id set other fields of the stream.
Result<std::string> JournalIdentifier(const std::string& task_id);

// Returns the priority (syslog(3)) of a stream: LOG_ERR for standard error,
// LOG_INFO for standard output. A task cannot choose another one.
int JournalPriority(bool standard_error);

// Opens a stream to systemd-journald that a task gets as its output. The stream
// is a socket, so a task cannot open its /dev/stdout again.
//
// FailedPrecondition on a machine without a journal. Blocks while
// systemd-journald hangs, because connect(2) blocks.
Result<UniqueFd> OpenJournalStream(const std::string& task_id,
                                   bool standard_error);

}  // namespace mountd::driver
