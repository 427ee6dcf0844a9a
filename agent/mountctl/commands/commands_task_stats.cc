// SPDX-License-Identifier: LGPL-2.1-or-later
#include <poll.h>

#include <chrono>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include "agent/mountctl/commands/task_access.h"
#include "agent/mountctl/commands/task_stats.h"
#include "agent/mountctl/output/json.h"
#include "agent/mountctl/output/output.h"
#include "agent/mountctl/tasks/job_tasks.h"

namespace mountd::agent {
namespace {

constexpr std::chrono::milliseconds kInterval{1000};

struct Measured {
  std::string task;
  driver::TaskStats stats;
};

// The driver's stream gives the first statistics at once.
Result<std::optional<driver::TaskStats>> Measure(driver::TaskDriver& driver,
                                                 const TaskRecord& record) {
  const auto status = FindTask(driver, record.handle);
  if (!status || status->state != driver::TaskState::kRunning) {
    return std::optional<driver::TaskStats>();
  }
  MOUNTD_ASSIGN(const auto stream,
                driver.Stats(record.handle.config.id, kInterval));
  return stream->Next();
}

Result<void> MeasureJob(const Context& context, const std::string& state,
                        const std::string& allocation, const std::string& only,
                        std::vector<Measured>& all) {
  MOUNTD_ASSIGN(const JobDirectory directory,
                JobDirectory::Open(state, allocation));
  std::vector<Error> unreadable;  // `mountctl ps` tells them
  MOUNTD_ASSIGN(const auto records, directory.Records(&unreadable));
  MOUNTD_ASSIGN(const auto driver, DriverOf(context, directory, nullptr));
  for (const TaskRecord& record : records) {
    if (record.IsActive() && (only.empty() || only == record.name())) {
      MOUNTD_ASSIGN(auto stats, Measure(*driver, record));
      if (stats) {
        all.push_back({allocation + "/" + record.name(), *std::move(stats)});
      }
    }
  }
  return Ok();
}

Result<std::vector<Measured>> MeasureAll(const Context& context,
                                         const std::string& task) {
  MOUNTD_ASSIGN(const std::string state, StatePath(context.state));
  std::vector<Measured> all;
  if (!task.empty()) {
    MOUNTD_ASSIGN(const FoundTask found, ResolveTask(context, task));
    MOUNTD_TRY(MeasureJob(context, state, found.directory.allocation(),
                          found.record.name(), all));
    return all;
  }
  MOUNTD_ASSIGN(const auto jobs, ListJobs(state));
  for (const std::string& job : jobs) {
    const auto done = MeasureJob(context, state, job, "", all);
    if (!done && done.error().code != Code::kNotFound) {
      std::cerr << "mountctl: " << job << ": " << done.error().Message()
                << std::endl;
    }
  }
  return all;
}

std::string SizeOf(const std::optional<std::uint64_t>& bytes) {
  return bytes ? Size(static_cast<std::int64_t>(*bytes)) : "-";
}

std::string TimeOf(const std::optional<std::uint64_t>& microseconds) {
  return microseconds ? Millis(std::chrono::microseconds(*microseconds)) : "-";
}

Json StatsJson(const Measured& one) {
  Json json = {{"task", one.task}};
  const auto add = [&json](const char* key,
                           const std::optional<std::uint64_t>& value) {
    if (value) {
      json[key] = *value;
    }
  };
  const driver::TaskStats& stats = one.stats;
  add("memory_current", stats.memory_current);
  add("memory_peak", stats.memory_peak);
  add("memory_anon", stats.memory_anon);
  add("memory_file", stats.memory_file);
  add("memory_swap", stats.memory_swap);
  add("cpu_user_us", stats.cpu_user_us);
  add("cpu_system_us", stats.cpu_system_us);
  add("cpu_throttled_us", stats.cpu_throttled_us);
  add("cpu_throttled_periods", stats.cpu_throttled_periods);
  add("pids", stats.pids);
  return json;
}

void PrintStats(const Context& context, const std::vector<Measured>& all) {
  if (context.json) {
    Json array = Json::array();
    for (const Measured& one : all) {
      array.push_back(StatsJson(one));
    }
    std::cout << Dump(array) << std::endl;
    return;
  }
  if (all.empty()) {
    std::cout << "no task runs" << std::endl;
    return;
  }
  Table table({"TASK", "MEMORY", "PEAK", "CPU USER", "CPU SYSTEM", "PIDS"});
  bool lacks = false;
  for (const Measured& one : all) {
    const driver::TaskStats& stats = one.stats;
    lacks |= !stats.memory_current || !stats.cpu_user_us || !stats.pids;
    table.Add({one.task, SizeOf(stats.memory_current),
               SizeOf(stats.memory_peak), TimeOf(stats.cpu_user_us),
               TimeOf(stats.cpu_system_us),
               stats.pids ? std::to_string(*stats.pids) : "-"});
  }
  table.Print(std::cout);
  std::cout << std::flush;
  if (lacks) {
    std::cerr << "mountctl: a column is -, because the task's cgroup lacks the "
                 "controller; `mountctl run --cgroup` gives tasks a cgroup"
              << std::endl;
  }
}

}  // namespace

void AddTaskStats(CLI::App& parent, Context& context) {
  auto* command = parent.add_subcommand(
      "stats", "Show the memory, the CPU time and the processes of tasks");
  auto task = std::make_shared<std::string>();
  auto watch = std::make_shared<bool>(false);
  command->add_option("TASK", *task, "Show this one alone: ALLOC/NAME or NAME");
  command->add_flag("--watch", *watch, "Show them again every second");
  command->callback([&context, task, watch] {
    context.chosen = [&context, task, watch] {
      for (;;) {
        const auto all = MeasureAll(context, *task);
        if (!all) {
          return Fail(all.error());
        }
        PrintStats(context, *all);
        if (!*watch || !std::cout) {
          return kExitOk;
        }
        (void)::poll(nullptr, 0, static_cast<int>(kInterval.count()));
      }
    };
  });
}

}  // namespace mountd::agent
