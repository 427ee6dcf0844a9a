// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/worker_pool.h"

#include <system_error>
#include <utility>

#include "mountd/base/current_user.h"

namespace mountd {

WorkerPool::WorkerPool(std::size_t max_threads,
                       std::chrono::milliseconds idle_time)
    : max_threads_(max_threads), idle_time_(idle_time) {
  std::unique_lock lock(mutex_);
  StartLocked();
  // Wait until the thread is idle, because otherwise the first job would start
  // another thread.
  changed_.wait(lock, [this] { return !idle_.empty(); });
}

WorkerPool::~WorkerPool() {
  std::unique_lock lock(mutex_);
  stopping_ = true;
  for (const std::shared_ptr<Worker>& worker : idle_) {
    worker->wake.notify_one();
  }
  changed_.wait(lock, [this] { return threads_.empty(); });
  ReapLocked();
}

void WorkerPool::Submit(std::function<void()> job) noexcept {
  std::shared_ptr<Worker> woken;
  {
    const std::lock_guard lock(mutex_);
    ReapLocked();
    jobs_.push_back(std::move(job));
    if (!idle_.empty()) {
      woken = std::move(idle_.back());
      idle_.pop_back();
      // Set the flag first, so that the thread can recognise a spurious
      // wake-up.
      woken->woken = true;
    } else if (threads_.size() < max_threads_) {
      StartLocked();
    }
  }
  // Notify without the mutex, so that the woken thread does not block on it.
  if (woken != nullptr) {
    woken->wake.notify_one();
  }
}

void WorkerPool::StartLocked() {
  const auto self = threads_.emplace(threads_.end());
  try {
    *self = std::thread([this, self] { Work(self); });
  } catch (const std::system_error&) {
    threads_.erase(self);
    if (threads_.empty()) {
      throw;
    }
  }
}

std::size_t WorkerPool::thread_count() const {
  const std::lock_guard lock(mutex_);
  return threads_.size();
}

void WorkerPool::Work(std::list<std::thread>::iterator self) {
  const auto worker = std::make_shared<Worker>();
  std::unique_lock lock(mutex_);
  while (!jobs_.empty() || WaitLocked(worker, lock)) {
    if (jobs_.empty()) {
      continue;  // another thread took the job
    }
    // The job may own objects with slow destructors, so destroy it without the
    // mutex.
    {
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
    }
    lock.lock();
  }
  // A thread cannot join itself, so the next Submit or the destructor does.
  finished_.splice(finished_.end(), threads_, self);
  changed_.notify_all();
}

bool WorkerPool::WaitLocked(const std::shared_ptr<Worker>& worker,
                            std::unique_lock<std::mutex>& lock) {
  if (stopping_) {
    return false;
  }
  idle_.push_back(worker);
  changed_.notify_all();
  const auto is_awake = [&] { return worker->woken || stopping_; };
  // Checks the number of threads under the same lock under which a thread gives
  // up. So if the last two threads are idle for too long, only one of them
  // ends.
  if (!worker->wake.wait_for(lock, idle_time_, is_awake) &&
      threads_.size() == 1) {
    worker->wake.wait(lock, is_awake);
  }
  if (!std::exchange(worker->woken, false)) {
    std::erase(idle_, worker);
    return false;
  }
  return true;
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
  {
    const std::lock_guard lock(mutex_);
    const auto [queue, is_first] = queues_.try_emplace(key);
    if (!is_first) {
      queue->second.push_back(std::move(job));
      return;
    }
  }
  SubmitNow(key, std::move(job));
}

// Submits without the mutex, because the woken thread needs it before long.
void Strands::SubmitNow(const std::string& key, std::function<void()> job) {
  pool_.Submit([this, key, job = std::move(job)] {
    job();
    if (std::function<void()> next = TakeNext(key)) {
      SubmitNow(key, std::move(next));
    }
  });
}

// Returns the key's next job. Null if there is none: then the key is free and
// the Strands object may be destroyed already.
std::function<void()> Strands::TakeNext(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto queue = queues_.find(key);
  if (queue->second.empty()) {
    queues_.erase(queue);
    ended_.notify_all();
    return nullptr;
  }
  std::function<void()> next = std::move(queue->second.front());
  queue->second.pop_front();
  return next;
}

KeyedLocks::Guard KeyedLocks::Lock(const std::string& key) {
  std::unique_lock lock(mutex_);
  Keyed& keyed = locks_[key];
  const UserTurns::Ticket ticket = keyed.waiting.Add(CurrentUser::Get());
  turn_.wait(lock, [&] {
    if (!keyed.holder) {
      keyed.holder = keyed.waiting.Next([](auto...) { return true; });
      keyed.waiting.Begin(*keyed.holder);
    }
    return keyed.holder == ticket;
  });
  return {*this, key};
}

bool KeyedLocks::IsHeld(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return locks_.contains(key);
}

void KeyedLocks::Unlock(const std::string& key) {
  const std::lock_guard lock(mutex_);
  const auto found = locks_.find(key);
  found->second.holder.reset();
  if (found->second.waiting.empty()) {
    locks_.erase(found);
  } else {
    // All waiters share one condition variable, so wake all of them.
    turn_.notify_all();
  }
}

}  // namespace mountd
