// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/executors/task_copies.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace mountd {

Result<OnTasks> ParseOnTasks(std::string_view name) {
  if (name.empty()) {
    return OnTasks::kRefuse;
  }
  if (name == "wait") {
    return OnTasks::kWait;
  }
  if (name == "ignore") {
    return OnTasks::kIgnore;
  }
  return MakeError(Code::kInvalidArgument, "check", "options[\"tasks\"]",
                   "must be wait or ignore");
}

namespace {

// Turns the error of a search into Unavailable. The caller asked for a
// tear-down, so NotFound or PermissionDenied would seem to be about the object
// that the caller named.
Error OfTheSearch(Error error) {
  switch (error.code) {
    case Code::kNotFound:
    case Code::kAlreadyExists:
    case Code::kPermissionDenied:
    case Code::kInvalidArgument:
    case Code::kNotSupported:
      error.code = Code::kUnavailable;
      return error;
    default:
      return error;
  }
}

}  // namespace

Result<exec::CopiesState> FindCopies(exec::TaskExecutor& executor,
                                     exec::CopiesPlan plan) {
  Result<exec::CopiesState> found = executor.FindCopies(plan);
  if (!found && plan.cgroup != 0 &&
      (found.error().code == Code::kPermissionDenied ||
       found.error().code == Code::kNotSupported)) {
    // No rule grants the cgroup now, so search the whole node instead.
    plan.cgroup = 0;
    plan.scope = exec::HolderScope::kNode;
    found = executor.FindCopies(plan);
  }
  return found ? std::move(found)
               : Result<exec::CopiesState>(OfTheSearch(found.error()));
}

namespace {

std::string WhyUnseen(const exec::HoldersState& found) {
  // ETIME stands for the deadline (propagation/look/copies.cc).
  if (found.unseen_error == ETIME) {
    return "mountd had no time to look at every process";
  }
  // ETIMEDOUT stands for a process whose memory maps could not be read in time
  // (MappedFilesOf).
  if (found.unseen_error == ETIMEDOUT) {
    return "process " + std::to_string(found.unseen_pid) +
           " could not be inspected in time; end it, or call with tasks = "
           "ignore";
  }
  const char* const name =
      strerrorname_np(static_cast<int>(found.unseen_error));
  const std::string error = found.unseen_error == 0 || name == nullptr
                                ? ""
                                : " (" + std::string(name) + ")";
  return found.unseen_pid == 0
             ? "mountd could not look at every process" + error
             : "process " + std::to_string(found.unseen_pid) +
                   " could not be inspected" + error;
}

}  // namespace

Result<void> CheckNoCopies(const exec::HoldersState& found,
                           const std::string& op, const std::string& object) {
  const HolderReport report = ReportOf(found);
  // A copy that was found counts, even if the search was not complete.
  if (!report.holders.empty() || report.more) {
    return MakeError(Code::kBusy, op, object,
                     "processes hold copies of it: " + Summary(report) +
                         "; end them, or call with tasks = wait or ignore");
  }
  // A search that skipped only init is complete (`init_unseen`), because init
  // is not a task.
  if (found.incomplete != 0) {
    Error error =
        MakeError(Code::kBusy, op, object,
                  "mountd cannot tell whether processes hold copies of it: " +
                      WhyUnseen(found));
    error.is_unsure = true;
    return error;
  }
  return Ok();
}

std::uint32_t SearchBudgetMs(std::chrono::milliseconds plan) {
  // Use half of the time, so that time is left for the answer.
  return static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(plan.count() / 2, 1, exec::kMaxHolderBudgetMs));
}

}  // namespace mountd
