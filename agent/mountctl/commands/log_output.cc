// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/commands/log_output.h"

#include <chrono>
#include <memory>

#include "mountd/base/write_all.h"

namespace mountd::agent {

Result<void> CopyLog(const Context& context, const TaskRecord& record,
                     const LogChoice& choice, int fd,
                     const std::function<bool()>& ended) {
  constexpr std::chrono::milliseconds kLookAgain{200};
  driver::LogRequest request;
  const driver::TaskConfig& config = record.handle.config;
  request.config = config.logs;
  request.directories = config.directories;
  request.task = record.name();
  request.task_id = config.id;
  request.standard_error = choice.standard_error;
  request.tail_lines = choice.tail_lines;
  request.follow = choice.follow;
  MOUNTD_ASSIGN(const auto reader, context.open_log(request));
  for (;;) {
    MOUNTD_ASSIGN(const auto bytes, reader->Read(kLookAgain));
    if (!bytes) {
      return Ok();
    }
    // Calls `ended` in each round and not only after an empty read, because a
    // task may write without a pause.
    if (choice.follow && ended()) {
      reader->WriterHasEnded();
    }
    MOUNTD_TRY(WriteAll(fd, *bytes, "the output"));
  }
}

}  // namespace mountd::agent
