// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/fence_teller.h"

#include <spdlog/spdlog.h>

#include <chrono>
#include <utility>

namespace mountd {
namespace {

constexpr std::chrono::milliseconds kUntoldPause(1000);

// One job of a user at a time, so that mountd records which fences it has told
// before it reads the store again.
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
    // The next start of mountd tells the fence again if this fails.
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
  // The user stays untold, so mountd tells the user's next subscriber.
  if (!ways_.has_subscriber(uid)) {
    telling_.erase(uid);
    return;
  }
  if (some->empty()) {
    // A fence may have ended since the store was read, before this subscriber
    // came.
    if (telling_.at(uid)) {
      telling_.at(uid) = false;
      TellSome(uid);
      return;
    }
    telling_.erase(uid);
    untold_.erase(uid);
    return;
  }
  // More would only wait behind what the subscribers have not read.
  if (!ways_.has_reader(uid)) {
    telling_.erase(uid);
    TellLater(uid);
    return;
  }
  for (const FenceRecord& fence : *some) {
    ways_.tell_user(fence);
  }
  // The subscribers that came until now have got these, and the store is read
  // once more afterwards.
  telling_.at(uid) = false;
  RecordWhenRead(uid, std::make_shared<Fences>(*some));
}

// Records the fences once a subscriber has taken them all.
void FenceTeller::RecordWhenRead(std::uint32_t uid,
                                 const std::shared_ptr<Fences>& told) {
  if (!ways_.has_subscriber(uid)) {
    telling_.erase(uid);
    return;
  }
  // Another subscriber came, who has not got these.
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
  // The store gives the same fences again, so the user hears of them twice.
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
