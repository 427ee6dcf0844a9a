// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/owed_retrier.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

namespace mountd {
namespace {

constexpr std::chrono::milliseconds kFirstPause{1000};
constexpr std::chrono::milliseconds kLongestPause{60'000};
constexpr std::size_t kAtOnce = 8;

}  // namespace

void OwedRetrier::Check() {
  strands_.Submit("", [this] {
    const Result<std::uint32_t> count = service_.CountOwed();
    loop_.Post([this, owed = count ? *count : last_count_] { Schedule(owed); });
  });
}

void OwedRetrier::Schedule(std::uint32_t count) {
  if (count > last_count_) {
    pause_ = kFirstPause;
  }
  if (count != last_count_) {
    last_count_ = count;
    on_count_(count);
  }
  const bool in_round = under_way_ != 0 || !round_.empty();
  if (count == 0 || scheduled_ || in_round) {
    return;
  }
  scheduled_ = true;
  loop_.After(pause_, [this] {
    scheduled_ = false;
    pause_ = std::min(pause_ * 2, kLongestPause);
    BeginRound();
  });
}

void OwedRetrier::BeginRound() {
  ++under_way_;
  strands_.Submit("", [this] {
    auto owed = std::make_shared<Result<std::vector<OwedRecord>>>(
        service_.ListOwed(CallContext{}));  // uid 0: everybody's
    loop_.Post([this, owed] {
      --under_way_;
      if (*owed) {
        round_.assign((*owed)->begin(), (*owed)->end());
      }
      Pump();
    });
  });
}

void OwedRetrier::Pump() {
  while (under_way_ < kAtOnce && !round_.empty()) {
    const OwedRecord one = std::move(round_.front());
    round_.pop_front();
    ++under_way_;
    strands_.Submit(AllocationStrand(AllocationOf(one)), [this, one] {
      IgnoreBecauseBestEffort(service_.RetryOwed(one));
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
