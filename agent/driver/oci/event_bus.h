// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "agent/driver/stream.h"
#include "agent/driver/task_status.h"

namespace mountd::driver {

// Events that wait for one reader. Drops the oldest events if the reader is
// slow. Any thread.
class EventQueue {
 public:
  void Put(const TaskEvent& event);
  void Close();
  std::optional<TaskEvent> Take();  // nothing after Close

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<TaskEvent> events_;
  bool is_closed_ = false;
};

// Passes each event to all readers that exist at that moment. Any thread.
class EventBus {
 public:
  void Tell(const TaskEvent& event);
  std::unique_ptr<Stream<TaskEvent>> Subscribe();
  void Close();

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<EventQueue>> readers_;
  bool is_closed_ = false;
};

}  // namespace mountd::driver
