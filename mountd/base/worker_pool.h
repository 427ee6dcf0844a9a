// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "mountd/base/user_turns.h"

namespace mountd {

// Owns threads for work that blocks (plans, RPCs, the stores). Adds threads
// while jobs wait, up to `max_threads`, so that a hundred calls stuck in a slow
// plugin do not delay the hundred and first. Threads end when idle. The last
// thread stays, because the process's limits may allow no new thread when a job
// comes. Wakes the thread that was busy last first, because its memory is warm.
//
// Thread-safe. Jobs never throw.
class WorkerPool {
 public:
  static constexpr std::chrono::milliseconds kIdleTime{10'000};

  // Starts the first thread. Throws std::system_error if there can be none.
  // Other threads end after `idle_time` without a job.
  explicit WorkerPool(std::size_t max_threads,
                      std::chrono::milliseconds idle_time = kIdleTime);
  // Waits for all submitted jobs.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Queues the job. If no thread can be made, an existing thread runs the job
  // in its turn.
  void Submit(std::function<void()> job) noexcept;

  std::size_t thread_count() const;

 private:
  struct Worker {
    std::condition_variable wake;
    bool woken = false;
  };

  // Throws std::system_error if the pool would be left without a thread.
  void StartLocked();
  void Work(std::list<std::thread>::iterator self);
  // Waits for a job or the end. False if the pool stops, or if the thread was
  // idle for too long and is not the last one.
  bool WaitLocked(const std::shared_ptr<Worker>& worker,
                  std::unique_lock<std::mutex>& lock);
  void ReapLocked();

  const std::size_t max_threads_;
  const std::chrono::milliseconds idle_time_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;  // a thread is idle, or has ended
  std::deque<std::function<void()>> jobs_;
  std::list<std::thread> threads_;
  std::list<std::thread> finished_;  // threads to join
  // The thread at the end wakes first.
  std::vector<std::shared_ptr<Worker>> idle_;
  bool stopping_ = false;
};

// Runs jobs of one key one after the other, in the order they came, and jobs of
// different keys side by side on the pool. Jobs with an empty key have no
// order. Such jobs are short and run on `quick` if there is one, so that they
// run even while all threads of the pool are busy.
//
// Thread-safe. The pools outlive the strands.
class Strands {
 public:
  explicit Strands(WorkerPool& pool, WorkerPool* quick = nullptr)
      : pool_(pool), quick_(quick != nullptr ? *quick : pool) {}
  // Waits for all jobs that have a key, because they use this object.
  ~Strands();
  Strands(const Strands&) = delete;
  Strands& operator=(const Strands&) = delete;

  void Submit(const std::string& key, std::function<void()> job);

 private:
  void SubmitNow(const std::string& key, std::function<void()> job);
  std::function<void()> TakeNext(const std::string& key);

  WorkerPool& pool_;
  WorkerPool& quick_;
  std::mutex mutex_;
  // Has an entry for a key while one of its jobs runs. The entry's queue has
  // the jobs that wait for that job.
  std::map<std::string, std::deque<std::function<void()>>> queues_;
  std::condition_variable ended_;
};

// Owns a mutex per key, for resources that several strands share (a volume, a
// host volume). The users who wait for a mutex take turns (CurrentUser). Lock
// order: an allocation's strand, then a volume, then a host volume; never two
// of one kind.
class KeyedLocks {
 public:
  class Guard {
   public:
    Guard(KeyedLocks& locks, std::string key)
        : locks_(&locks), key_(std::move(key)) {}
    Guard(Guard&& other) noexcept
        : locks_(std::exchange(other.locks_, nullptr)),
          key_(std::move(other.key_)) {}
    Guard& operator=(Guard&&) = delete;
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;
    ~Guard() {
      if (locks_ != nullptr) {
        locks_->Unlock(key_);
      }
    }

   private:
    KeyedLocks* locks_;
    std::string key_;
  };

  Guard Lock(const std::string& key);
  // True if somebody has the lock of `key` at this moment.
  bool IsHeld(const std::string& key);

 private:
  void Unlock(const std::string& key);

  struct Keyed {
    std::optional<UserTurns::Ticket> holder;
    UserTurns waiting;
  };

  std::mutex mutex_;
  std::condition_variable turn_;
  std::map<std::string, Keyed> locks_;  // those that somebody has or waits for
};

}  // namespace mountd
