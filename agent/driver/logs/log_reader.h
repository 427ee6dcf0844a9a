// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "agent/driver/task_config.h"
#include "mountd/base/result.h"

namespace mountd::driver {

// Names one stream of a task, and the part of the stream that a caller wants.
struct LogRequest {
  LogConfig config;
  TaskDirectories directories;
  std::string task;     // name
  std::string task_id;  // of one start; only kJournal reads it
  bool standard_error = false;
  // The last so many lines. A last line without a line end counts. Without a
  // value: all that is there.
  std::optional<std::uint64_t> tail_lines{};
  // False: the reader ends at the byte that was the last one when OpenLog ran.
  bool follow = false;
};

// Reads one stream of a task. One thread at a time calls Read. Holds at most
// kMostBytes of a log in memory, whatever its lines are.
class LogReader {
 public:
  static constexpr std::size_t kMostBytes = std::size_t{64} << 10U;

  LogReader() = default;
  LogReader(const LogReader&) = delete;
  LogReader& operator=(const LogReader&) = delete;
  virtual ~LogReader() = default;

  // Returns the next bytes, "" if none came within `wait`, or nullopt at the
  // end. A reader that follows has no end before WriterHasEnded, unless
  // somebody has removed the directory of the logs.
  //
  // A line that begins with "[mountd: " says which bytes of the log are lost.
  virtual Result<std::optional<std::string>> Read(
      std::chrono::milliseconds wait) = 0;

  // Tells the reader that the task has ended. A reader that follows then ends
  // after the bytes that are there. From any thread.
  virtual void WriterHasEnded() {}

  // Returns the most bytes that can have been in files that the rotation
  // removed before this reader came to them. Counts config.max_file_bytes for
  // each file, because nobody knows the size of a removed file. From the thread
  // that reads.
  virtual std::uint64_t removed_unread() const { return 0; }
};

// Opens one stream of a task.
//
// - FailedPrecondition for kOff and kFifos, because nobody keeps the bytes; for
//   kJournal on a machine without a journal; for a log that is no regular file.
// - NotFound if the directory of the logs is not there. A task that has written
//   nothing yet is no error.
// - PermissionDenied for a file that does not belong to the directory's owner,
//   and for a journal that the caller may not read.
// - InvalidArgument for a task name that cannot be a file's name.
Result<std::unique_ptr<LogReader>> OpenLog(const LogRequest& request);

}  // namespace mountd::driver
