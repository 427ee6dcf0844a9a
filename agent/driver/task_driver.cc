// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/task_driver.h"

#include "agent/driver/exec_over_raw.h"
#include "agent/driver/raw_over_exec.h"

namespace mountd::driver {
namespace {

constexpr std::string_view kAwayWords = "the task driver has gone away";

Error NoStreamingExec(const std::string& task_id) {
  return MakeError(Code::kNotSupported, "exec", task_id,
                   "this task driver has no streaming exec");
}

}  // namespace

bool ExecRequest::IsHeartbeat() const { return *this == ExecRequest(); }

bool ExecResponse::IsHeartbeat() const { return *this == ExecResponse(); }

Result<ExitResult> ExecTaskStreaming(TaskDriver& driver,
                                     const std::string& task_id,
                                     const ExecOptions& options) {
  if (StreamingExec* high = driver.streaming_exec(); high != nullptr) {
    return high->ExecTaskStreaming(task_id, options);
  }
  if (RawStreamingExec* raw = driver.raw_streaming_exec(); raw != nullptr) {
    return ExecOverRaw(*raw, task_id, options);
  }
  return NoStreamingExec(task_id);
}

Result<void> ExecTaskStreamingRaw(TaskDriver& driver,
                                  const std::string& task_id,
                                  const std::vector<std::string>& command,
                                  bool terminal, RawExecStream& stream) {
  if (RawStreamingExec* raw = driver.raw_streaming_exec(); raw != nullptr) {
    return raw->ExecTaskStreamingRaw(task_id, command, terminal, stream);
  }
  if (StreamingExec* high = driver.streaming_exec(); high != nullptr) {
    return RawOverExec(*high, task_id, command, terminal, stream);
  }
  return NoStreamingExec(task_id);
}

Result<void> TaskDriver::RemoveDirectory(const std::string& path) {
  return MakeError(Code::kNotSupported, "remove", path,
                   "the task driver removes no directories");
}

Error CallerGone(const std::string& task_id) {
  return MakeError(Code::kAborted, "exec", task_id,
                   "the caller has gone; the command was killed");
}

Error DriverAway(const std::string& op, const std::string& object) {
  return MakeError(Code::kUnavailable, op, object,
                   std::string(kAwayWords) +
                       "; the task goes on; start the driver, recover the "
                       "task, and call again");
}

bool DriverIsAway(const Error& error) {
  return error.code == Code::kUnavailable &&
         error.detail.starts_with(kAwayWords);
}

}  // namespace mountd::driver
