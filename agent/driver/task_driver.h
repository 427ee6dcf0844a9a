// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agent/driver/exec_stream.h"
#include "agent/driver/stream.h"
#include "agent/driver/task_config.h"
#include "agent/driver/task_status.h"
#include "mountd/base/result.h"

namespace mountd::driver {

struct CreatedNetwork {
  NetworkIsolation isolation;
  bool created = false;  // false: the allocation had the network before
};

struct ExecOutput {
  std::string stdout_text;  // at most 1 MiB of each stream
  std::string stderr_text;
  ExitResult result;
};

// Runs tasks for an orchestrator. The orchestrator owns a driver, and any
// thread calls it. A driver may end at any time. The tasks run on, and
// RecoverTask of a new driver finds them.
//
// Each call is idempotent, so after any error the same call again is right.
//
// Errors:
// - NotFound for a task that this driver does not know. Call RecoverTask first.
// - InvalidArgument for a configuration that no driver of this kind can run,
//   with the member as `object`.
// - Unavailable if a try a moment later may succeed. DriverIsAway(error) is
//   true if the driver is a process of its own and that process has gone away.
// - NotSupported for a part of the interface that this driver does not have.
// - FailedPrecondition for a task in the wrong state.
class TaskDriver {
 public:
  TaskDriver() = default;
  TaskDriver(const TaskDriver&) = delete;
  TaskDriver& operator=(const TaskDriver&) = delete;
  virtual ~TaskDriver() = default;

  virtual DriverCapabilities Capabilities() = 0;
  virtual std::vector<SchemaKey> ConfigSchema() = 0;
  // The stream gives the first fingerprint at once, and then each change.
  virtual Result<std::unique_ptr<Stream<Fingerprint>>> Fingerprints() = 0;

  // Makes the namespaces that all tasks of an allocation share.
  virtual Result<CreatedNetwork> CreateNetwork(const std::string& allocation,
                                               const std::string& hostname) = 0;
  // Removes the namespaces that CreateNetwork made. Ok if there are none.
  virtual Result<void> DestroyNetwork(const std::string& allocation,
                                      const NetworkIsolation& isolation) = 0;

  // Returns when the task's program runs. AlreadyExists for an id that another
  // configuration has.
  virtual Result<StartedTask> StartTask(const TaskConfig& config) = 0;
  // Learns of a task that another driver started. Ok for a task that has ended
  // since; NotFound only if the task is lost.
  virtual Result<void> RecoverTask(const TaskHandle& handle) = 0;
  // Blocks until the task has ended. Many callers may wait, also after the end,
  // until DestroyTask.
  virtual Result<ExitResult> WaitTask(const std::string& id) = 0;
  // Sends the signal ("": the image's, or SIGTERM), and SIGKILL after the
  // timeout. Returns when the task has ended.
  virtual Result<void> StopTask(const std::string& id,
                                std::chrono::milliseconds timeout,
                                const std::string& signal) = 0;
  // Forgets an ended task and removes the task's files. FailedPrecondition for
  // a task that runs, unless `force`, which kills the task.
  virtual Result<void> DestroyTask(const std::string& id, bool force) = 0;
  // Removes a directory of the caller's to which tasks wrote, such as
  // TaskDirectories::local, with the files that only a task's users may remove.
  // `path` is absolute. Ok if there is no such directory. Busy for a mount
  // beneath the path. NotSupported by a driver that cannot act as a task's
  // users.
  virtual Result<void> RemoveDirectory(const std::string& path);
  virtual Result<TaskStatus> InspectTask(const std::string& id) = 0;
  virtual Result<void> SignalTask(const std::string& id,
                                  const std::string& signal) = 0;
  // Changes the limits of a running task.
  virtual Result<void> UpdateTask(const std::string& id,
                                  const TaskResources& resources) = 0;
  virtual Result<std::unique_ptr<Stream<TaskStats>>> Stats(
      const std::string& id, std::chrono::milliseconds interval) = 0;
  // Events of all tasks.
  virtual Result<std::unique_ptr<Stream<TaskEvent>>> Events() = 0;
  // Runs a command to its end. Kills the command at the timeout, and then
  // answers DeadlineExceeded.
  virtual Result<ExecOutput> ExecTask(const std::string& id,
                                      const std::vector<std::string>& command,
                                      std::chrono::milliseconds timeout) = 0;

  // Null if the driver does not have this form. The driver owns the object.
  virtual StreamingExec* streaming_exec() { return nullptr; }
  virtual RawStreamingExec* raw_streaming_exec() { return nullptr; }

  // Ends all streams and waiting calls with nullopt or Aborted. Tasks keep
  // running.
  virtual void Shutdown() = 0;
};

// Runs the command by whichever form the driver has. NotSupported if it has
// neither.
Result<ExitResult> ExecTaskStreaming(TaskDriver& driver,
                                     const std::string& task_id,
                                     const ExecOptions& options);
// The same for a caller who has a stream of messages.
Result<void> ExecTaskStreamingRaw(TaskDriver& driver,
                                  const std::string& task_id,
                                  const std::vector<std::string>& command,
                                  bool terminal, RawExecStream& stream);

// Returns the error that every call and every stream answers once the driver
// has gone away.
Error DriverAway(const std::string& op, const std::string& object);
bool DriverIsAway(const Error& error);

}  // namespace mountd::driver
