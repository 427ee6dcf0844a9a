// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <string>

#include "agent/driver/task_driver.h"
#include "agent/nomad/plugin/call_threads.h"
#include "mountd/base/result.h"

namespace mountd::nomad {

// One who waits for a task.
class Waiter {
 public:
  Waiter() = default;
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;
  virtual ~Waiter() = default;

  virtual void Answer(const Result<driver::ExitResult>& result) = 0;
};

// Waits for tasks by one thread each, however many wait for a task. Any thread.
//
// Nomad takes each error of a wait for the end of the task. So an error that is
// not about the task stays here, and the wait begins again after `pause`. After
// the driver's shutdown nobody gets an answer, because the tasks go on.
class TaskWaits {
 public:
  using GetDriver = std::function<Result<driver::TaskDriver*>()>;

  TaskWaits(CallThreads& threads, GetDriver get_driver,
            std::chrono::milliseconds pause)
      : threads_(threads), get_driver_(std::move(get_driver)), pause_(pause) {}
  TaskWaits(const TaskWaits&) = delete;
  TaskWaits& operator=(const TaskWaits&) = delete;

  // Answers later, once. The waiter lives until its answer or its removal.
  // False if the process can have no more threads.
  bool Add(const std::string& task_id, Waiter& waiter);
  // True if the waiter will get no answer; false if it has one, or gets one
  // now.
  bool Remove(const std::string& task_id, Waiter& waiter);
  // Ends the threads. The driver is shut down before.
  void Stop();

 private:
  void Run(const std::string& task_id);
  Result<driver::ExitResult> Wait(const std::string& task_id);
  bool Pause();

  CallThreads& threads_;
  const GetDriver get_driver_;
  const std::chrono::milliseconds pause_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::set<Waiter*>> waiters_;
  bool stopped_ = false;
};

}  // namespace mountd::nomad
