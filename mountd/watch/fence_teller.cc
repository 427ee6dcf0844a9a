// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/fence_teller.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

namespace mountd {
namespace {

constexpr std::chrono::milliseconds kUntoldPause(1000);

// One job of a user runs at a time. So mountd has recorded which fences it
// reported before it reads the store again.
std::string TellingStrand(std::uint32_t uid) {
  return "fences told to " + std::to_string(uid);
}

}  // namespace

Result<void> FenceTeller::Recover() {
  MOUNTD_ASSIGN(untold_, parts_.fences.UsersToTell());
  return Ok();
}

void FenceTeller::Done(const FenceRecord& fence) {
  const std::uint32_t uid = fence.lease.uid;
  ways_.tell_all(fence);
  if (!ways_.has_reader(uid)) {
    untold_.insert(uid);
    if (ways_.has_subscriber(uid)) {
      TellLater(uid);
    }
    return;
  }
  parts_.strands.Submit(TellingStrand(uid), [this, fence] {
    // If this fails, the next start of mountd reports the fence again.
    IgnoreBecauseBestEffort(parts_.fences.SetTold({fence}));
  });
}

void FenceTeller::Subscribed(std::uint32_t uid) {
  if (!untold_.contains(uid)) {
    return;
  }
  const auto [telling, is_new] = telling_.try_emplace(uid, false);
  if (is_new) {
    TellSome(uid);
  } else {
    telling->second = true;
  }
}

void FenceTeller::TellSome(std::uint32_t uid) {
  parts_.strands.Submit(TellingStrand(uid), [this, uid] {
    auto some = std::make_shared<Result<Fences>>(
        parts_.fences.ListUntold(uid, kAtOnce));
    parts_.loop.Post([this, uid, some] { HasListed(uid, *some); });
  });
}

void FenceTeller::HasListed(std::uint32_t uid, const Result<Fences>& some) {
  if (!some) {
    spdlog::error("fences of uid {}: {}", uid, some.error().Message());
    telling_.erase(uid);
    TellLater(uid);
    return;
  }
  // The user stays in untold_, so mountd reports to the user's next subscriber.
  if (!ways_.has_subscriber(uid)) {
    telling_.erase(uid);
    return;
  }
  if (some->empty()) {
    // Read once more, because a fence may have ended after the read and before
    // the new subscriber came.
    if (telling_.at(uid)) {
      telling_.at(uid) = false;
      TellSome(uid);
      return;
    }
    telling_.erase(uid);
    untold_.erase(uid);
    return;
  }
  // Send no more now, because it would only wait behind signals that the
  // subscribers have not read.
  if (!ways_.has_reader(uid)) {
    telling_.erase(uid);
    TellLater(uid);
    return;
  }
  for (const FenceRecord& fence : *some) {
    ways_.tell_user(fence);
  }
  // All present subscribers have got these fences. The store is read once more
  // afterwards.
  telling_.at(uid) = false;
  RecordWhenRead(uid, std::make_shared<Fences>(*some));
}

// Records that the fences are reported, once a subscriber has read all of them.
void FenceTeller::RecordWhenRead(std::uint32_t uid,
                                 const std::shared_ptr<Fences>& told) {
  if (!ways_.has_subscriber(uid)) {
    telling_.erase(uid);
    return;
  }
  // Another subscriber came, and it has not got these fences.
  if (std::exchange(telling_.at(uid), false)) {
    TellSome(uid);
    return;
  }
  if (!ways_.has_reader(uid)) {
    parts_.loop.After(kUntoldPause,
                      [this, uid, told] { RecordWhenRead(uid, told); });
    return;
  }
  parts_.strands.Submit(TellingStrand(uid), [this, uid, told] {
    auto recorded =
        std::make_shared<Result<void>>(parts_.fences.SetTold(*told));
    parts_.loop.Post([this, uid, recorded] { HasRecorded(uid, *recorded); });
  });
}

void FenceTeller::HasRecorded(std::uint32_t uid, const Result<void>& recorded) {
  if (recorded) {
    TellSome(uid);
    return;
  }
  // The store returns the same fences again, so the user gets them twice.
  spdlog::error("fences of uid {}: {}", uid, recorded.error().Message());
  telling_.erase(uid);
  TellLater(uid);
}

void FenceTeller::TellLater(std::uint32_t uid) {
  if (later_.insert(uid).second) {
    parts_.loop.After(kUntoldPause, [this, uid] {
      later_.erase(uid);
      Subscribed(uid);
    });
  }
}

}  // namespace mountd
