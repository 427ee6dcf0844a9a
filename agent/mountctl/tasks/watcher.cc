// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/mountctl/tasks/watcher.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "agent/mountctl/tasks/directory_changes.h"
#include "agent/mountctl/tasks/job_tasks.h"

namespace mountd::agent {
namespace {

using std::chrono::milliseconds;

// Between two tries of a call that failed.
constexpr milliseconds kRetryPause{1000};

// Returns the time until a waiting task starts; 0 if it is due. A start time
// that is later than every policy allows is of an earlier boot's clock.
milliseconds PauseOf(const TaskRecord& record, BootTime now) {
  constexpr milliseconds kSlack = std::chrono::minutes(2);
  const RestartPolicy& policy = record.spec.restart;
  const milliseconds left = record.restart_at - now;
  return left > std::max(policy.delay, policy.interval) + kSlack
             ? milliseconds(0)
             : std::max(left, milliseconds(0));
}

bool IsReadable(int fd) {
  pollfd one{fd, POLLIN, 0};
  return ::poll(&one, 1, 0) > 0;
}

}  // namespace

Watcher::Watcher(driver::TaskDriver& driver, JobDirectory directory,
                 std::function<BootTime()> now)
    : driver_(driver),
      directory_(std::move(directory)),
      now_(std::move(now)),
      stopping_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

Watcher::~Watcher() { Stop(); }

void Watcher::Stop() {
  const std::uint64_t one = 1;
  // An eventfd takes the eight bytes. If its counter is full, it can be read
  // anyway.
  (void)!::write(stopping_.get(), &one, sizeof one);
  if (!threads_.empty()) {
    driver_.Shutdown();
  }
  for (auto& [task, thread] : threads_) {
    thread.join();
  }
  threads_.clear();
}

Result<void> Watcher::Run(UniqueFd watch) {
  DirectoryChanges changes = DirectoryChanges::Of(directory_.fd());
  for (;;) {
    const Result<bool> goes_on = Look(watch);
    if (!goes_on && goes_on.error().code != Code::kAborted) {
      return goes_on.error();
    }
    if (!goes_on || !*goes_on) {
      Stop();
      return Ok();
    }
    changes.Wait(std::nullopt, -1);
  }
}

// Returns whether a task is active. Follows each active one.
Result<bool> Watcher::Look(UniqueFd& watch) {
  MOUNTD_ASSIGN(const UniqueFd lock, directory_.Lock());
  // `mountctl ps` reports files that cannot be read. Their tasks do not stop
  // the others from being watched.
  std::vector<Error> unreadable;
  MOUNTD_ASSIGN(const std::vector<TaskRecord> records,
                directory_.Records(&unreadable));
  bool active = false;
  for (const TaskRecord& record : records) {
    active |= record.IsActive();
    if (record.IsActive() && !threads_.contains(record.name())) {
      threads_.emplace(record.name(), std::thread([this, name = record.name()] {
                         Follow(name);
                       }));
    }
  }
  if (!active) {
    watch.reset();
  }
  return active;
}

void Watcher::Follow(const std::string& task) {
  DirectoryChanges changes = DirectoryChanges::Of(directory_.fd());
  while (!IsReadable(stopping_.get())) {
    const auto record = directory_.Read(task);
    std::optional<milliseconds> pause;
    if (!record) {
      pause = kRetryPause;
    } else if (*record && (*record)->phase == TaskPhase::kWaiting &&
               PauseOf(**record, now_()).count() > 0) {
      pause = PauseOf(**record, now_());
    } else if (*record && (*record)->IsActive()) {
      if (Step(task, **record)) {
        continue;
      }
      pause = kRetryPause;
    }
    changes.Wait(pause, stopping_.get());
  }
}

Result<void> Watcher::Step(const std::string& task, const TaskRecord& record) {
  return record.phase == TaskPhase::kRunning ? AwaitEnd(record)
                                             : StartDue(task);
}

Result<void> Watcher::AwaitEnd(const TaskRecord& record) {
  const std::string& id = record.handle.config.id;
  driver::ExitResult result;
  const Result<void> known = driver_.RecoverTask(record.handle);
  if (known) {
    MOUNTD_ASSIGN(result, driver_.WaitTask(id));
  } else if (known.error().code == Code::kNotFound) {
    result.error = "the task is lost";
  } else {
    return known;
  }
  MOUNTD_ASSIGN(const UniqueFd lock, directory_.Lock());
  return JobTasks(driver_, directory_)
      .RecordEnd(record.name(), id, result, now_());
}

Result<void> Watcher::StartDue(const std::string& task) {
  MOUNTD_ASSIGN(const UniqueFd lock, directory_.Lock());
  // Another process may have stopped or started the task under its lock.
  MOUNTD_ASSIGN(std::optional<TaskRecord> record, directory_.Read(task));
  if (!record) {
    return Ok();
  }
  JobTasks tasks(driver_, directory_);
  Result<void> started;
  if (record->phase == TaskPhase::kStarting) {
    started = tasks.FinishStart(*std::move(record));
  } else if (record->phase == TaskPhase::kWaiting &&
             PauseOf(*record, now_()).count() == 0) {
    started = tasks.StartAgain(*std::move(record));
  }
  return started ? started
                 : tasks.RecordFailedStart(task, started.error(), now_());
}

}  // namespace mountd::agent
