// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/logs/log_reader.h"

#include "agent/driver/logs/file_log_reader.h"
#include "agent/driver/logs/journal_log_reader.h"

namespace mountd::driver {
namespace {

Error NothingKept(const LogRequest& request, std::string why) {
  return MakeError(Code::kFailedPrecondition, "OpenLog", request.task,
                   std::move(why));
}

}  // namespace

Result<std::unique_ptr<LogReader>> OpenLog(const LogRequest& request) {
  switch (request.config.mode) {
    case LogMode::kFiles:
      return OpenFileLog(request);
    case LogMode::kJournal:
      return OpenJournalLog(request);
    case LogMode::kFifos: {
      const std::string& path = request.standard_error
                                    ? request.config.stderr_path
                                    : request.config.stdout_path;
      return NothingKept(request,
                         "the reader of the FIFO " + path +
                             " has the output, because the task's log mode is "
                             "fifos; ask that reader");
    }
    case LogMode::kOff:
      return NothingKept(request,
                         "nobody keeps the output, because the task's log mode "
                         "is off; start the task with files or journal");
  }
  return MakeError(Code::kInvalidArgument, "OpenLog", request.task,
                   "the log mode is unknown");
}

}  // namespace mountd::driver
