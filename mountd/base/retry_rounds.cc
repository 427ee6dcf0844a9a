// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/base/retry_rounds.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <utility>

namespace mountd {
namespace {

constexpr std::chrono::milliseconds kFirstPause{1000};
constexpr std::chrono::milliseconds kLongestPause{60'000};
constexpr std::size_t kAtOnce = 8;

}  // namespace

void RetryRounds::ListThen(std::function<void(Result<std::vector<Job>>)> then) {
  strands_.Submit("", [this, then = std::move(then)] {
    auto jobs = std::make_shared<Result<std::vector<Job>>>(list_());
    loop_.Post([jobs, then] { then(std::move(*jobs)); });
  });
}

void RetryRounds::Check() {
  ListThen([this](const Result<std::vector<Job>>& jobs) {
    Names now = last_;
    if (jobs) {
      now.clear();
      for (const Job& job : *jobs) {
        now.insert(job.what);
      }
    }
    Schedule(std::move(now));
  });
}

void RetryRounds::Hurry() {
  pause_ = kFirstPause;
  Check();
}

void RetryRounds::Schedule(Names now) {
  // New work begins with the shortest pause.
  if (!std::includes(last_.begin(), last_.end(), now.begin(), now.end())) {
    pause_ = kFirstPause;
  }
  last_ = std::move(now);
  // A running round schedules the next one at its end.
  if (last_.empty() || under_way_ != 0 ||
      (scheduled_ && *scheduled_ <= pause_)) {
    return;
  }
  scheduled_ = pause_;
  loop_.After(pause_, [this, timer = ++timer_] {
    if (timer != timer_) {
      return;  // another timer with a shorter pause has replaced this one
    }
    scheduled_.reset();
    pause_ = std::min(pause_ * 2, kLongestPause);
    BeginRound();
  });
}

void RetryRounds::BeginRound() {
  ++under_way_;
  ListThen([this](Result<std::vector<Job>> jobs) {
    --under_way_;
    if (jobs) {
      round_.assign(std::make_move_iterator(jobs->begin()),
                    std::make_move_iterator(jobs->end()));
    }
    Pump();
  });
}

void RetryRounds::Pump() {
  while (under_way_ < kAtOnce && !round_.empty()) {
    Job job = std::move(round_.front());
    round_.pop_front();
    ++under_way_;
    strands_.Submit(job.strand, [this, run = std::move(job.run)] {
      run();
      loop_.Post([this] {
        --under_way_;
        Pump();
      });
    });
  }
  if (under_way_ == 0) {
    Check();
  }
}

FailedJobs::FailedJobs(Loop& loop, Strands& strands)
    : loop_(loop), rounds_(loop, strands, [this] { return List(); }) {}

void FailedJobs::Done(bool well, RetryRounds::Job again) {
  {
    const std::lock_guard lock(mutex_);
    if (well) {
      failed_.erase(again.what);
    } else {
      std::string what = again.what;
      failed_.insert_or_assign(std::move(what), std::move(again));
    }
  }
  if (!well) {
    // The rounds run on the loop's thread.
    loop_.Post([this] { rounds_.Check(); });
  }
}

std::vector<RetryRounds::Job> FailedJobs::List() const {
  const std::lock_guard lock(mutex_);
  std::vector<RetryRounds::Job> jobs;
  for (const auto& [what, again] : failed_) {
    jobs.push_back(again);
  }
  return jobs;
}

}  // namespace mountd
