// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "mountd/base/loop.h"
#include "mountd/base/retry_rounds.h"
#include "mountd/base/unique_fd.h"
#include "mountd/base/worker_pool.h"
#include "mountd/service/fences.h"
#include "mountd/service/leases.h"

namespace mountd {

// Watches the pipes and the deadlines of leases. Carries out the fence of each
// lease that lapses, and repeats it until it is done.
//
//   pipe's HUP, timer --> Lapse --> StopTasks --> Finish --> done
//                         (store)   (strand of    (strand of the
//                                    the fence)    allocation)
//
// Runs on the loop's thread; the work runs on strands. The timer is a
// timerfd(2) of CLOCK_BOOTTIME, which also counts while the machine is
// suspended. Has only read ends of pipes, so mountd keeps no pipe alive.
class LeaseWatch {
 public:
  struct Parts {
    Loop& loop;
    Strands& strands;
    Leases& leases;
    Fences& fences;
  };
  struct Events {
    // Called on the loop's thread.
    std::function<void(const Leases::Lapsed&)> on_lapse =
        [](const Leases::Lapsed&) {};
    // Once for each fence that ends.
    std::function<void(const FenceRecord&)> on_done = [](const FenceRecord&) {};
  };
  LeaseWatch(const Parts& parts, Events events);

  // Continues with the fences and deadlines that an earlier mountd recorded.
  void Start();
  // Looks at the leases. Called when some were acquired or released.
  void Check();
  // Returns how many users have a fence under way or waiting for its turn.
  std::size_t user_count() const { return fences_of_.size(); }

 private:
  struct Watching {
    std::uint64_t serial = 0;
    std::shared_ptr<UniqueFd> pipe;
    std::unique_ptr<Loop::Source> source;  // ends before its pipe
  };

  void WatchPipes();
  void ArmTimer();
  void LapseDue();
  void LapseSoon(const LeaseKey& key, const std::string& reason,
                 std::uint64_t serial);
  void HasLapsed(const LeaseKey& key, const Result<Leases::Lapsed>& outcome);
  void RetrySoon();
  struct Subject {
    std::uint32_t uid = 0;
    std::string allocation;
  };
  // The parts of a fence. Each has places of its own, because a plugin that
  // hangs in the second part of some fences must not keep tasks from their
  // stop.
  enum class Part { kStop, kFinish };
  void Fence(const FenceRecord& fence);
  // Begins the part, or lets the fence wait for a place.
  void Enter(const Subject& subject, Part part);
  void Begin(const Subject& subject, Part part);
  void Leave(const Subject& subject, Part part);
  void Stop(const Subject& subject);
  void Finish(const Subject& subject);
  void HasStopped(const Subject& subject, const Result<void>& outcome);
  // Called when a try of the fence has ended.
  void HasEnded(const Subject& subject, const Result<FenceRecord>& outcome);

  const Parts parts_;
  const Events events_;
  UniqueFd timer_;
  std::unique_ptr<Loop::Source> timer_source_;
  std::map<LeaseKey, Watching> pipes_;
  std::set<LeaseKey> lapsing_;
  bool is_retry_armed_ = false;  // a timer tries the lapses that failed
  // The allocations whose fence is under way or waits for its turn. Only a few
  // fences of one user are under way at once, because they must not take all
  // workers.
  std::set<std::string> fencing_;
  struct Places {
    std::size_t running = 0;
    std::deque<std::string> waiting;
  };
  struct UserFences {
    Places stop;
    Places finish;
    Places& Of(Part part) { return part == Part::kStop ? stop : finish; }
  };
  // Has no user without a fence, because the uids are callers' to choose.
  std::map<std::uint32_t, UserFences> fences_of_;
  RetryRounds rounds_;
};

}  // namespace mountd
