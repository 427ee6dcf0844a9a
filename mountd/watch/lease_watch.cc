// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/lease_watch.h"

#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "mountd/base/current_user.h"
#include "mountd/base/trace_parent.h"

namespace mountd {
namespace {

constexpr std::chrono::milliseconds kLapsePause(1000);
// These bound the work for one user.
constexpr std::size_t kStopsAtOnce = 4;
constexpr std::size_t kFinishesAtOnce = 8;
constexpr char kPipeClosed[] = "the last write end of its pipe was closed";

std::string LeaseStrand(const LeaseKey& key) {
  return "lease " + std::to_string(key.uid) + "/" + key.name;
}

}  // namespace

LeaseWatch::LeaseWatch(const Parts& parts, Events events)
    : parts_(parts),
      events_(std::move(events)),
      timer_(::timerfd_create(CLOCK_BOOTTIME, TFD_NONBLOCK | TFD_CLOEXEC)),
      rounds_(parts.loop, parts.strands,
              [this]() -> Result<std::vector<RetryRounds::Job>> {
                std::vector<RetryRounds::Job> jobs;
                for (const FenceRecord& fence : parts_.leases.Pending()) {
                  jobs.push_back({fence.allocation, "", [this, fence] {
                                    parts_.loop.Post(
                                        [this, fence] { Fence(fence); });
                                  }});
                }
                return jobs;
              }) {}

void LeaseWatch::Start() {
  timer_source_ = parts_.loop.WatchFd(
      timer_.get(), EPOLLIN, [this](std::uint32_t /*events*/) {
        std::uint64_t times = 0;
        // read(2) fails if ArmTimer has set the timer again. LapseDue looks in
        // any case.
        (void)!::read(timer_.get(), &times, sizeof(times));
        ArmTimer();
        LapseDue();
      });
  if (timer_source_ == nullptr) {
    spdlog::critical("leases: mountd cannot watch a timer");
  }
  for (const FenceRecord& fence : parts_.leases.Pending()) {
    Fence(fence);
  }
  rounds_.Check();
  Check();
}

void LeaseWatch::Check() {
  WatchPipes();
  // Set the timer before LapseDue, because a deadline may pass between the two.
  ArmTimer();
  LapseDue();
}

void LeaseWatch::WatchPipes() {
  std::map<LeaseKey, Watching> now;
  for (const Leases::Watched& one : parts_.leases.Pipes()) {
    const auto known = pipes_.find(one.key);
    // A pipe is watched again if it ended while an older lapse was under way.
    const bool is_watched =
        known != pipes_.end() && known->second.serial == one.serial &&
        (known->second.source != nullptr || lapsing_.contains(one.key));
    if (is_watched) {
      now.insert(pipes_.extract(known));
      continue;
    }
    Watching watching{one.serial, one.pipe, nullptr};
    // epoll(7) always reports EPOLLHUP. Ask for no other event, because data in
    // the pipe means nothing.
    watching.source = parts_.loop.WatchFd(
        one.pipe->get(), 0,
        [this, key = one.key, serial = one.serial](std::uint32_t events) {
          // Post the rest, because LapseSoon destroys this source.
          if ((events & (EPOLLHUP | EPOLLERR)) != 0) {
            parts_.loop.Post(
                [this, key, serial] { LapseSoon(key, kPipeClosed, serial); });
          }
        });
    if (watching.source == nullptr) {
      LapseSoon(one.key, "mountd could not watch its pipe", one.serial);
    }
    now.emplace(one.key, std::move(watching));
  }
  pipes_ = std::move(now);
}

void LeaseWatch::ArmTimer() {
  const std::optional<std::uint64_t> next = parts_.leases.NextDeadline();
  itimerspec when{};
  if (next) {
    constexpr std::uint64_t kUs = 1'000'000;
    // At least 1, because 0 would disarm the timer. Rounded up, because the
    // timer must not end before the deadline.
    const std::uint64_t due = std::max<std::uint64_t>(*next, 1);
    when.it_value.tv_sec = static_cast<time_t>(due / kUs);
    when.it_value.tv_nsec = static_cast<long>(due % kUs * 1000);
  }
  ::timerfd_settime(timer_.get(), TFD_TIMER_ABSTIME, &when, nullptr);
}

void LeaseWatch::LapseDue() {
  for (const Leases::Due& due : parts_.leases.DueNow()) {
    LapseSoon(due.key, due.reason, 0);
  }
}

void LeaseWatch::LapseSoon(const LeaseKey& key, const std::string& reason,
                           std::uint64_t serial) {
  // Stop watching, because epoll reports a hang-up again and again.
  const auto watched = pipes_.find(key);
  if (watched != pipes_.end() && watched->second.serial == serial) {
    watched->second.source.reset();
  }
  if (!lapsing_.insert(key).second) {
    return;
  }
  parts_.strands.Submit(LeaseStrand(key), [this, key, reason, serial] {
    auto outcome = std::make_shared<Result<Leases::Lapsed>>(
        parts_.leases.Lapse(key, reason, serial));
    parts_.loop.Post([this, key, outcome] { HasLapsed(key, *outcome); });
  });
}

void LeaseWatch::HasLapsed(const LeaseKey& key,
                           const Result<Leases::Lapsed>& outcome) {
  lapsing_.erase(key);
  if (!outcome) {
    // Calls on the lease's allocations are already refused, and the lease stays
    // due.
    spdlog::error("lease {} of uid {}: {}", key.name, key.uid,
                  outcome.error().Message());
    RetrySoon();
    return;
  }
  if (outcome->lapsed) {
    spdlog::warn(
        "lease {} of uid {} has lapsed: {}; mountd fences {} "
        "allocations{}",
        key.name, key.uid, outcome->lease.reason, outcome->fences.size(),
        ToLogText(CallTraceOf(outcome->lease.traceparent,
                              outcome->lease.request_id)));
    events_.on_lapse(*outcome);
    for (const FenceRecord& fence : outcome->fences) {
      Fence(fence);
    }
  }
  Check();
}

// One timer serves all failed lapses, because it tries each lease that is due.
void LeaseWatch::RetrySoon() {
  if (std::exchange(is_retry_armed_, true)) {
    return;
  }
  parts_.loop.After(kLapsePause, [this] {
    is_retry_armed_ = false;
    LapseDue();
  });
}

void LeaseWatch::Fence(const FenceRecord& fence) {
  // Another try may have ended the fence before this retry. on_done must be
  // called once for each fence.
  if (!parts_.leases.IsPending(fence.allocation) ||
      !fencing_.insert(fence.allocation).second) {
    return;
  }
  Enter({fence.lease.uid, fence.allocation}, Part::kStop);
}

void LeaseWatch::Enter(const Subject& subject, Part part) {
  Places& places = fences_of_[subject.uid].Of(part);
  const std::size_t most = part == Part::kStop ? kStopsAtOnce : kFinishesAtOnce;
  if (places.running >= most) {
    places.waiting.push_back(subject.allocation);
  } else {
    Begin(subject, part);
  }
}

void LeaseWatch::Begin(const Subject& subject, Part part) {
  ++fences_of_[subject.uid].Of(part).running;
  if (part == Part::kStop) {
    Stop(subject);
  } else {
    Finish(subject);
  }
}

void LeaseWatch::Leave(const Subject& subject, Part part) {
  const auto user = fences_of_.find(subject.uid);
  Places& places = user->second.Of(part);
  --places.running;
  if (!places.waiting.empty()) {
    const std::string next = std::move(places.waiting.front());
    places.waiting.pop_front();
    Begin({subject.uid, next}, part);
  } else if (user->second.stop.running + user->second.finish.running == 0) {
    fences_of_.erase(user);
  }
}

void LeaseWatch::Stop(const Subject& subject) {
  parts_.strands.Submit(FenceStrand(subject.allocation), [this, subject] {
    const CurrentUser user(subject.uid);
    auto outcome = std::make_shared<Result<void>>(
        parts_.fences.StopTasks(subject.allocation));
    parts_.loop.Post(
        [this, subject, outcome] { HasStopped(subject, *outcome); });
  });
}

void LeaseWatch::HasStopped(const Subject& subject,
                            const Result<void>& outcome) {
  if (outcome) {
    // Before Leave, which forgets a user without a fence.
    Enter(subject, Part::kFinish);
    Leave(subject, Part::kStop);
    return;
  }
  Leave(subject, Part::kStop);
  HasEnded(subject, outcome.error());
}

void LeaseWatch::Finish(const Subject& subject) {
  parts_.strands.Submit(AllocationStrand(subject.allocation), [this, subject] {
    const CurrentUser user(subject.uid);
    auto outcome = std::make_shared<Result<FenceRecord>>(
        parts_.fences.Finish(subject.allocation));
    parts_.loop.Post([this, subject, outcome] {
      Leave(subject, Part::kFinish);
      HasEnded(subject, *outcome);
    });
  });
}

void LeaseWatch::HasEnded(const Subject& subject,
                          const Result<FenceRecord>& outcome) {
  fencing_.erase(subject.allocation);
  if (outcome && outcome->state == FenceState::kDone) {
    spdlog::warn(
        "fence of allocation {} is done{}", subject.allocation,
        ToLogText(CallTraceOf(outcome->traceparent, outcome->request_id)));
    events_.on_done(*outcome);
    // If a later fence has the same name, the rounds must see it as new work
    // and begin with the shortest pause.
    rounds_.Check();
    return;
  }
  if (!outcome) {
    spdlog::warn("fence of allocation {}: {}", subject.allocation,
                 outcome.error().Message());
  }
  rounds_.Check();
}

}  // namespace mountd
