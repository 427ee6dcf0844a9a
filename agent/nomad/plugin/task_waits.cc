// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/nomad/plugin/task_waits.h"

#include <optional>
#include <utility>

namespace mountd::nomad {
namespace {

// The wait cannot end otherwise, because the task is not there.
bool IsAboutTask(const Error& error) {
  return error.code == Code::kNotFound ||
         error.code == Code::kFailedPrecondition ||
         error.code == Code::kInvalidArgument ||
         error.code == Code::kNotSupported;
}

}  // namespace

bool TaskWaits::Add(const std::string& task_id, Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  const auto [waiters, is_first] = waiters_.try_emplace(task_id);
  waiters->second.insert(&waiter);
  if (is_first && !threads_.Run([this, task_id] { Run(task_id); })) {
    waiters_.erase(waiters);
    return false;
  }
  return true;
}

bool TaskWaits::Remove(const std::string& task_id, Waiter& waiter) {
  const std::lock_guard lock(mutex_);
  const auto waiters = waiters_.find(task_id);
  return waiters != waiters_.end() && waiters->second.erase(&waiter) != 0;
}

void TaskWaits::Stop() {
  const std::lock_guard lock(mutex_);
  stopped_ = true;
  changed_.notify_all();
}

Result<driver::ExitResult> TaskWaits::Wait(const std::string& task_id) {
  MOUNTD_ASSIGN(driver::TaskDriver * driver, get_driver_());
  return driver->WaitTask(task_id);
}

bool TaskWaits::Pause() {
  std::unique_lock lock(mutex_);
  return !changed_.wait_for(lock, pause_, [this] { return stopped_; });
}

void TaskWaits::Run(const std::string& task_id) {
  auto result = Wait(task_id);
  while (!result && !IsAboutTask(result.error())) {
    if (!Pause()) {
      return;
    }
    result = Wait(task_id);
  }
  std::set<Waiter*> waiters;
  {
    const std::lock_guard lock(mutex_);
    waiters = std::move(waiters_.extract(task_id).mapped());
  }
  for (Waiter* waiter : waiters) {
    waiter->Answer(result);
  }
}

}  // namespace mountd::nomad
