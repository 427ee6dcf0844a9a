// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/result.h"
#include "mountd/base/worker_pool.h"

namespace mountd {

// Retries failed work until all of it has succeeded. The first round comes
// after 1 s, and the pause doubles up to 60 s. New work and Hurry set the pause
// to 1 s again, so new work does not wait for a long pause of older work. Each
// round runs every job once, a few jobs at a time, because a plugin that hangs
// must not take all threads.
//
// Runs on the loop's thread; jobs run on their strands.
class RetryRounds {
 public:
  struct Job {
    std::string what;  // names the job in every list
    std::string strand;
    std::function<void()> run;
  };
  // Lists the work to retry now. Called on a worker.
  using List = std::function<Result<std::vector<Job>>()>;

  RetryRounds(Loop& loop, Strands& strands, List list)
      : loop_(loop), strands_(strands), list_(std::move(list)) {}

  // Looks for work. Called at the start and after new work may have come.
  void Check();
  // Looks for work with the shortest pause, because the cause of earlier
  // failures may be gone.
  void Hurry();

 private:
  using Names = std::set<std::string>;

  // Calls `then` with the list, or with the error.
  void ListThen(std::function<void(Result<std::vector<Job>>)> then);
  void Schedule(Names now);
  void BeginRound();
  void Pump();

  Loop& loop_;
  Strands& strands_;
  const List list_;
  Names last_;                                          // the last list
  std::optional<std::chrono::milliseconds> scheduled_;  // the pause under way
  std::uint64_t timer_ = 0;  // the timer that ends the pause
  std::deque<Job> round_;    // not yet tried
  std::size_t under_way_ = 0;
  std::chrono::milliseconds pause_{1000};
};

// Keeps the jobs that have failed, and has RetryRounds run each again until it
// succeeds. Thread-safe; outlives neither the loop nor the strands.
class FailedJobs {
 public:
  FailedJobs(Loop& loop, Strands& strands);

  // Records how a job ended. `again.run` runs the job again and must call Done
  // with the same `what`.
  void Done(bool well, RetryRounds::Job again);

 private:
  std::vector<RetryRounds::Job> List() const;

  Loop& loop_;
  mutable std::mutex mutex_;
  std::map<std::string, RetryRounds::Job> failed_;  // mutex_; by Job::what
  RetryRounds rounds_;
};

}  // namespace mountd
