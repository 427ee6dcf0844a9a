// SPDX-License-Identifier: LGPL-2.1-or-later
#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "agent/mountctl/commands/release_jobs.h"
#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"
#include "agent/mountctl/tasks/job_tasks.h"

namespace mountd::agent {
namespace {

struct ListedTask {
  TaskRecord record;
  std::string state{};
  std::string reason{};
  std::optional<Timestamp> started_at{};
};

struct ListedJob {
  std::string allocation;
  bool is_watched = false;
  // A task waits for a restart, but no watcher runs.
  bool lacks_watcher = false;
  std::vector<ListedTask> tasks{};
  std::optional<Error> error{};  // of a record, or of the whole job
};

// Returns whether the record alone says the task's state. For a task that
// mountctl was starting, running or stopping, the driver says the state,
// because mountctl may have been killed before it wrote the record.
bool IsKnownByRecord(const TaskRecord& record) {
  return record.phase == TaskPhase::kComplete ||
         record.phase == TaskPhase::kFailed ||
         record.phase == TaskPhase::kWaiting || record.handle.config.id.empty();
}

// `busy`: another mountctl is starting or ending tasks of the job.
ListedTask Look(driver::TaskDriver& driver, TaskRecord record, bool busy) {
  ListedTask task{.record = std::move(record)};
  const TaskPhase phase = task.record.phase;
  task.state = PhaseName(phase);
  task.reason = task.record.reason;
  if (IsKnownByRecord(task.record)) {
    return task;
  }
  const auto status = FindTask(driver, task.record.handle);
  const bool runs = status && status->state == driver::TaskState::kRunning;
  if (phase != TaskPhase::kRunning) {
    if (runs) {
      task.state = "running";
    }
    if (!busy && phase == TaskPhase::kStarting) {
      task.reason = "its start was cut off; run the job again";
    } else if (!busy && runs) {
      task.reason = "its stop was cut off; call `mountctl stop` again";
    }
    return task;
  }
  if (!status) {
    task.state = status.error().code == Code::kNotFound ? "lost" : "unknown";
    task.reason = status.error().Message();
    return task;
  }
  task.started_at =
      std::chrono::time_point_cast<Timestamp::duration>(status->started_at);
  if (!runs) {
    task.state = "exited";
    task.reason = status->result ? EndText(*status->result) : "";
  }
  return task;
}

Result<ListedJob> ListJob(const Context& context, const std::string& state,
                          const std::string& allocation) {
  ListedJob job{.allocation = allocation};
  MOUNTD_ASSIGN(const JobDirectory directory,
                JobDirectory::Open(state, allocation));
  std::vector<Error> unreadable;
  MOUNTD_ASSIGN(std::vector<TaskRecord> records,
                directory.Records(&unreadable));
  if (!unreadable.empty()) {
    job.error = unreadable.front();
  }
  MOUNTD_ASSIGN(job.is_watched, directory.IsWatched());
  if (records.empty()) {
    return job;
  }
  MOUNTD_ASSIGN(const auto driver, DriverOf(context, directory, nullptr));
  const auto locked = directory.IsLocked();
  for (TaskRecord& record : records) {
    job.lacks_watcher |=
        record.IsActive() && record.spec.restart.Restarts() && !job.is_watched;
    // A watcher finishes a start that was cut off.
    const bool busy = !locked || *locked ||
                      (job.is_watched && record.phase == TaskPhase::kStarting);
    job.tasks.push_back(Look(*driver, std::move(record), busy));
  }
  return job;
}

Json TaskJson(const ListedTask& task) {
  Json json = {{"name", task.record.name()},
               {"state", task.state},
               {"restarts", task.record.restarts.total},
               {"reason", task.reason},
               {"image", task.record.spec.config.image},
               {"id", task.record.handle.config.id}};
  if (task.started_at) {
    json["started_at"] = task.started_at->time_since_epoch().count();
  }
  return json;
}

void PrintJson(const std::vector<ListedJob>& jobs) {
  Json all = Json::array();
  for (const ListedJob& job : jobs) {
    Json tasks = Json::array();
    for (const ListedTask& task : job.tasks) {
      tasks.push_back(TaskJson(task));
    }
    Json one = {{"allocation", job.allocation},
                {"watched", job.is_watched},
                {"lacks_watcher", job.lacks_watcher},
                {"tasks", std::move(tasks)}};
    if (job.error) {
      one["error"] = job.error->Message();
    }
    all.push_back(std::move(one));
  }
  std::cout << Dump(all) << std::endl;
}

void PrintTable(const std::vector<ListedJob>& jobs) {
  Table table({"TASK", "STATE", "RESTARTS", "SINCE", "REASON"});
  bool has_tasks = false;
  for (const ListedJob& job : jobs) {
    if (job.error) {
      has_tasks = true;
      table.Add({job.allocation, "unreadable", "-", "-",
                 Printable(job.error->Message())});
    }
    for (const ListedTask& task : job.tasks) {
      has_tasks = true;
      table.Add({job.allocation + "/" + task.record.name(), task.state,
                 std::to_string(task.record.restarts.total),
                 task.started_at ? Age(AgeOf(*task.started_at)) : "-",
                 OrDash(Printable(task.reason))});
    }
  }
  if (!has_tasks) {
    std::cout << "mountctl runs no task" << std::endl;
    return;
  }
  table.Print(std::cout);
  for (const ListedJob& job : jobs) {
    if (job.lacks_watcher) {
      std::cout << job.allocation
                << ": nobody restarts these tasks, because their watcher has "
                   "ended; run the job again, or `mountctl restart` a task"
                << std::endl;
    }
  }
}

Result<void> ListTasks(const Context& context, const std::string& allocation) {
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  ReleaseOwed(context);
  std::vector<std::string> names{allocation};
  if (allocation.empty()) {
    MOUNTD_ASSIGN(names, ListJobs(state));
  }
  std::vector<ListedJob> jobs;
  Result<void> all;
  for (const std::string& name : names) {
    Result<ListedJob> job = ListJob(context, state, name);
    if (!job && !allocation.empty()) {
      return job.error();
    }
    // Somebody may stop the allocation meanwhile.
    if (!job && job.error().code == Code::kNotFound) {
      continue;
    }
    if (!job) {
      job = ListedJob{.allocation = name, .error = job.error()};
    }
    if (job->error && all) {
      all = *job->error;
    }
    if (!job->tasks.empty() || job->error || !allocation.empty()) {
      jobs.push_back(*std::move(job));
    }
  }
  if (context.json) {
    PrintJson(jobs);
  } else {
    PrintTable(jobs);
  }
  return all;
}

}  // namespace

void AddPsCommand(CLI::App& app, Context& context) {
  auto* command = app.add_subcommand(
      "ps",
      "List the tasks that mountctl runs, and whether somebody restarts "
      "them");
  command->group(kTasksGroup);
  auto allocation = std::make_shared<std::string>();
  command->add_option("ALLOC", *allocation, "List the tasks of this one alone");
  command->callback([&context, allocation] {
    context.chosen = [&context, allocation] {
      const auto done = ListTasks(context, *allocation);
      return done ? kExitOk : Fail(done.error());
    };
  });
}

}  // namespace mountd::agent
