// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/retry_rounds.h"

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
    Schedule(jobs ? static_cast<std::uint32_t>(jobs->size()) : last_count_);
  });
}

void RetryRounds::Schedule(std::uint32_t count) {
  if (count > last_count_) {
    pause_ = kFirstPause;
  }
  last_count_ = count;
  // As long as a round has any left, some are under way.
  if (count == 0 || scheduled_ || under_way_ != 0) {
    return;
  }
  scheduled_ = true;
  loop_.After(pause_, [this] {
    scheduled_ = false;
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

}  // namespace mountd
