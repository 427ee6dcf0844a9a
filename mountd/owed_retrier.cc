// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/owed_retrier.h"

#include <algorithm>

namespace mountd {
namespace {

constexpr std::chrono::milliseconds kFirstPause{1000};
constexpr std::chrono::milliseconds kLongestPause{60'000};

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
  if (count == 0 || scheduled_) {
    return;
  }
  scheduled_ = true;
  loop_.After(pause_, [this] {
    scheduled_ = false;
    pause_ = std::min(pause_ * 2, kLongestPause);
    RetryAll();
  });
}

void OwedRetrier::RetryAll() {
  strands_.Submit("", [this] {
    const Result<std::vector<OwedRecord>> owed =
        service_.ListOwed(CallContext{});  // uid 0: everybody's
    if (!owed) {
      loop_.Post([this] { Check(); });
      return;
    }
    for (const OwedRecord& one : *owed) {
      const std::string allocation = one.object.substr(0, one.object.find('/'));
      strands_.Submit("allocation " + allocation, [this, one] {
        IgnoreBecauseBestEffort(service_.RetryOwed(one));
        loop_.Post([this] { Check(); });
      });
    }
  });
}

}  // namespace mountd
