// SPDX-License-Identifier: LGPL-2.1-or-later
#include "agent/driver/oci/event_bus.h"

#include <algorithm>
#include <utility>

namespace mountd::driver {
namespace {

constexpr std::size_t kMostWaiting = 1024;

class EventStream final : public Stream<TaskEvent> {
 public:
  explicit EventStream(std::shared_ptr<EventQueue> queue)
      : queue_(std::move(queue)) {}
  Result<std::optional<TaskEvent>> Next() override { return queue_->Take(); }
  void Cancel() override { queue_->Close(); }

 private:
  std::shared_ptr<EventQueue> queue_;
};

}  // namespace

void EventQueue::Put(const TaskEvent& event) {
  const std::lock_guard lock(mutex_);
  if (events_.size() >= kMostWaiting) {
    events_.pop_front();
  }
  events_.push_back(event);
  changed_.notify_all();
}

void EventQueue::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

std::optional<TaskEvent> EventQueue::Take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return is_closed_ || !events_.empty(); });
  if (is_closed_) {
    return std::nullopt;
  }
  TaskEvent event = std::move(events_.front());
  events_.pop_front();
  return event;
}

void EventBus::Tell(const TaskEvent& event) {
  const std::lock_guard lock(mutex_);
  std::erase_if(readers_, [&](const std::weak_ptr<EventQueue>& reader) {
    const auto queue = reader.lock();
    if (queue) {
      queue->Put(event);
    }
    return !queue;
  });
}

std::unique_ptr<Stream<TaskEvent>> EventBus::Subscribe() {
  auto queue = std::make_shared<EventQueue>();
  const std::lock_guard lock(mutex_);
  if (is_closed_) {
    queue->Close();
  }
  readers_.push_back(queue);
  return std::make_unique<EventStream>(std::move(queue));
}

void EventBus::Close() {
  const std::lock_guard lock(mutex_);
  is_closed_ = true;
  for (const std::weak_ptr<EventQueue>& reader : readers_) {
    if (const auto queue = reader.lock()) {
      queue->Close();
    }
  }
}

}  // namespace mountd::driver
