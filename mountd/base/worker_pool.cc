// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/worker_pool.h"

#include <chrono>
#include <utility>

namespace mountd {
namespace {

constexpr std::chrono::seconds kIdleTime{10};

}  // namespace

WorkerPool::WorkerPool(std::size_t max_threads) : max_threads_(max_threads) {}

WorkerPool::~WorkerPool() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  wake_.notify_all();
  ended_.wait(lock, [this] { return threads_.empty(); });
  ReapLocked();
}

void WorkerPool::Submit(std::function<void()> job) {
  const std::lock_guard lock(mutex_);
  ReapLocked();
  jobs_.push_back(std::move(job));
  if (jobs_.size() > idle_ && threads_.size() < max_threads_) {
    const auto self = threads_.emplace(threads_.end());
    *self = std::thread([this, self] { Work(self); });
  } else {
    wake_.notify_one();
  }
}

std::size_t WorkerPool::thread_count() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void WorkerPool::Work(std::list<std::thread>::iterator self) {
  std::unique_lock lock(mutex_);
  for (;;) {
    if (jobs_.empty()) {
      ++idle_;
      const bool woken = wake_.wait_for(
          lock, kIdleTime, [this] { return !jobs_.empty() || stopping_; });
      --idle_;
      if (jobs_.empty() && (!woken || stopping_)) {
        break;
      }
    }
    const std::function<void()> job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
    lock.lock();
  }
  // A thread cannot join itself: whoever comes next does.
  finished_.splice(finished_.end(), threads_, self);
  ended_.notify_all();
}

void WorkerPool::ReapLocked() {
  for (std::thread& thread : finished_) {
    thread.join();
  }
  finished_.clear();
}

Strands::~Strands() {
  std::unique_lock lock(mutex_);
  ended_.wait(lock, [this] { return queues_.empty(); });
}

void Strands::Submit(const std::string& key, std::function<void()> job) {
  if (key.empty()) {
    quick_.Submit(std::move(job));
    return;
  }
  const std::lock_guard lock(mutex_);
  const auto [queue, is_first] = queues_.try_emplace(key);
  queue->second.push_back(std::move(job));
  if (is_first) {
    pool_.Submit([this, key] { RunNext(key); });
  }
}

void Strands::RunNext(const std::string& key) {
  std::function<void()> job;
  {
    const std::lock_guard lock(mutex_);
    const auto queue = queues_.find(key);
    job = std::move(queue->second.front());
    queue->second.pop_front();
  }
  job();
  const std::lock_guard lock(mutex_);
  const auto queue = queues_.find(key);
  if (queue->second.empty()) {
    queues_.erase(queue);
    ended_.notify_all();
  } else {
    pool_.Submit([this, key] { RunNext(key); });
  }
}

KeyedLocks::Guard KeyedLocks::Lock(const std::string& key) {
  std::unique_lock lock(mutex_);
  Turns& turns = turns_[key];
  const std::uint64_t ticket = turns.next++;
  turn_.wait(lock, [&] { return turns.serving == ticket; });
  return {*this, key};
}

void KeyedLocks::Unlock(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto turns = turns_.find(key);
  if (++turns->second.serving == turns->second.next) {
    turns_.erase(turns);
  } else {
    turn_.notify_all();
  }
}

}  // namespace mountd
