// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/job_tasks.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "agent/mountctl/tasks/random_hex.h"

namespace mountd::agent {
namespace {

bool IsNotFound(const Error& error) { return error.code == Code::kNotFound; }

Result<std::string> NewId(const std::string& allocation,
                          const std::string& task) {
  MOUNTD_ASSIGN(const std::string hex, RandomHex(task));
  return allocation + "/" + task + "/" + hex;
}

// Returns whether the same start may succeed a moment later, because the task
// is not the cause of the error.
bool MayPass(const Error& error) {
  switch (error.code) {
    case Code::kUnavailable:
    case Code::kInProgress:
    case Code::kAborted:
    case Code::kDeadlineExceeded:
    case Code::kResourceExhausted:
      return true;
    default:
      return false;
  }
}

// Keeps the first error of several steps.
void Keep(Result<void> step, Result<void>& all) {
  if (all && !step) {
    all = std::move(step);
  }
}

}  // namespace

Result<driver::TaskStatus> FindTask(driver::TaskDriver& driver,
                                    const driver::TaskHandle& handle) {
  MOUNTD_TRY(driver.RecoverTask(handle));
  return driver.InspectTask(handle.config.id);
}

std::string EndText(const driver::ExitResult& result) {
  if (!result.error.empty()) {
    return result.error;
  }
  const std::string oom = result.oom_killed ? "out of memory, " : "";
  return oom + (result.signal != 0
                    ? "signal " + std::to_string(result.signal)
                    : "exit code " + std::to_string(result.exit_code));
}

Result<std::optional<driver::TaskStatus>> JobTasks::Find(
    const TaskRecord& record) {
  auto status = FindTask(driver_, record.handle);
  if (status) {
    return std::optional(*std::move(status));
  }
  if (IsNotFound(status.error())) {
    return std::optional<driver::TaskStatus>();
  }
  return status.error();
}

Result<bool> JobTasks::Start(const TaskSpec& spec, std::uint32_t order) {
  MOUNTD_ASSIGN(const std::optional<TaskRecord> before,
                directory_.Read(spec.config.name));
  const bool same = before && before->spec == spec;
  if (before && before->phase == TaskPhase::kRunning) {
    MOUNTD_ASSIGN(const std::optional<driver::TaskStatus> found, Find(*before));
    const bool runs = found && found->state == driver::TaskState::kRunning;
    if (runs && !same) {
      return MakeError(Code::kAlreadyExists, "start",
                       directory_.allocation() + "/" + spec.config.name,
                       "the task runs with another configuration; stop the "
                       "allocation first");
    }
    if (runs) {
      return false;
    }
    if (same && found && found->result && found->result->IsSuccess()) {
      // No watcher has recorded the end.
      MOUNTD_TRY(RecordEnd(spec.config.name, before->handle.config.id,
                           *found->result, BootTime(0)));
      return false;
    }
  }
  if (same && before->phase == TaskPhase::kComplete) {
    return false;
  }
  if (same && before->phase == TaskPhase::kStarting) {
    MOUNTD_TRY(FinishStart(*before));
    return true;
  }
  TaskRecord record;
  record.order = order;
  record.spec = spec;
  if (before) {
    record.handle = before->handle;
  }
  MOUNTD_TRY(StartAgain(std::move(record)));
  return true;
}

Result<void> JobTasks::StartAgain(TaskRecord record) {
  // Forgets the newest start before this call replaces its record, because only
  // that record names the start.
  MOUNTD_TRY(Forget(record.handle));
  MOUNTD_ASSIGN(std::string id, NewId(directory_.allocation(), record.name()));
  record.handle = {};
  record.handle.config = record.spec.config;
  record.handle.config.id = std::move(id);
  record.phase = TaskPhase::kStarting;
  record.reason.clear();
  MOUNTD_TRY(directory_.Write(record));
  return FinishStart(std::move(record));
}

Result<void> JobTasks::FinishStart(TaskRecord record) {
  Result<driver::StartedTask> started = driver_.StartTask(record.handle.config);
  if (started) {
    record.handle = std::move(started->handle);
    record.phase = TaskPhase::kRunning;
    return directory_.Write(record);
  }
  // If the driver cannot forget the start now, the id stays in the record, and
  // the next start or stop tells the driver to forget it.
  if (Forget(record.handle)) {
    record.handle.config.id.clear();
  }
  record.phase = TaskPhase::kFailed;
  record.reason = started.error().Message();
  MOUNTD_TRY(directory_.Write(record));
  return started.error();
}

Result<void> JobTasks::Forget(const driver::TaskHandle& handle) {
  if (handle.config.id.empty()) {
    return Ok();
  }
  // Calls DestroyTask even if the recovery fails. The driver may know a task
  // that it started itself without a handle, and an interrupted start has no
  // handle yet.
  IgnoreBecauseBestEffort(driver_.RecoverTask(handle));
  const Result<void> destroyed = driver_.DestroyTask(handle.config.id, true);
  if (!destroyed && !IsNotFound(destroyed.error())) {
    return destroyed.error();
  }
  return Ok();
}

Result<void> JobTasks::EndGently(const TaskRecord& record) {
  if (record.handle.config.id.empty()) {
    return Ok();
  }
  IgnoreBecauseBestEffort(driver_.RecoverTask(record.handle));
  const Result<void> stopped =
      driver_.StopTask(record.handle.config.id, record.spec.kill_timeout,
                       record.spec.kill_signal);
  if (!stopped && !IsNotFound(stopped.error()) &&
      stopped.error().code != Code::kFailedPrecondition) {
    return stopped.error();
  }
  return Ok();
}

Result<void> JobTasks::Stop(TaskRecord record) {
  record.phase = TaskPhase::kStopped;
  record.reason.clear();
  // Ignores the error of a full disk, because the task must end in any case. No
  // watcher restarts the task meanwhile, because a watcher waits for the lock.
  IgnoreBecauseBestEffort(directory_.Write(record));
  const Result<void> ended = EndGently(record);
  // A task that cannot be ended gently is killed.
  const Result<void> forgotten = Forget(record.handle);
  if (!forgotten) {
    return ended ? forgotten : ended;
  }
  record.handle.config.id.clear();
  // The end may have made room on the disk. A record that says that the task
  // runs would make a watcher start the task again.
  return directory_.Write(record) ? Ok() : directory_.Forget(record.name());
}

Result<void> JobTasks::StopAll() {
  std::vector<Error> unreadable;
  MOUNTD_ASSIGN(std::vector<TaskRecord> records,
                directory_.Records(&unreadable));
  // Writes all records first, so that after a kill no watcher starts a task
  // again.
  for (TaskRecord& record : records) {
    if (record.IsActive()) {
      record.phase = TaskPhase::kStopped;
      IgnoreBecauseBestEffort(directory_.Write(record));
    }
  }
  Result<void> all;
  driver::NetworkIsolation isolation;
  isolation.mode = driver::NetworkMode::kGroup;
  for (auto one = records.rbegin(); one != records.rend(); ++one) {
    Keep(Stop(*one), all);
    if (one->spec.config.network.mode == driver::NetworkMode::kGroup) {
      isolation = one->spec.config.network;
    }
  }
  // An unreadable record may belong to a task that runs.
  if (!unreadable.empty()) {
    Keep(unreadable.front(), all);
  }
  // The namespaces stay while a task may run in them. The release of the
  // allocation ends what the driver cannot end now.
  if (all) {
    IgnoreBecauseBestEffort(
        driver_.DestroyNetwork(directory_.allocation(), isolation));
  }
  return all;
}

Result<void> JobTasks::RecordEnd(const std::string& task, const std::string& id,
                                 const driver::ExitResult& result,
                                 BootTime now) {
  MOUNTD_ASSIGN(std::optional<TaskRecord> record, directory_.Read(task));
  if (!record || record->handle.config.id != id ||
      record->phase != TaskPhase::kRunning) {
    return Ok();
  }
  return Decide(*std::move(record), result.IsSuccess(), EndText(result), now);
}

Result<void> JobTasks::RecordFailedStart(const std::string& task,
                                         const Error& error, BootTime now) {
  MOUNTD_ASSIGN(std::optional<TaskRecord> record, directory_.Read(task));
  if (!record) {
    return Ok();
  }
  if (!MayPass(error)) {
    return Decide(*std::move(record), false, error.Message(), now);
  }
  constexpr std::chrono::milliseconds kLeastPause{1'000};
  constexpr std::chrono::milliseconds kMostPause{60'000};
  record->phase = TaskPhase::kWaiting;
  record->restart_at =
      now + std::clamp(record->spec.restart.delay, kLeastPause, kMostPause);
  record->reason = error.Message();
  return directory_.Write(*record);
}

Result<void> JobTasks::Decide(TaskRecord record, bool success,
                              const std::string& reason, BootTime now) {
  const RestartDecision decision =
      DecideRestart(record.spec.restart, success, now, record.restarts);
  record.reason = reason;
  switch (decision.what) {
    case RestartDecision::What::kComplete:
      record.phase = TaskPhase::kComplete;
      break;
    case RestartDecision::What::kFailed:
      record.phase = TaskPhase::kFailed;
      record.reason += "; " + decision.reason;
      break;
    case RestartDecision::What::kRestart:
      record.phase = TaskPhase::kWaiting;
      record.restart_at = now + decision.delay;
      break;
  }
  return directory_.Write(record);
}

}  // namespace mountd::agent
