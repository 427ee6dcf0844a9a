// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/result.h"
#include "mountd/base/worker_pool.h"
#include "mountd/store/lease_table.h"

namespace mountd {

// Reports each fence that is done to a subscriber of the lease's user, at least
// once. Knows which users have unreported fences. The store keeps which fences
// are reported. So the user's next subscriber also gets a fence that ended
// before a kill of mountd, or while the agent was away.
//
//   done --a subscriber of the user reads--> told --> recorded
//     |                                       ^
//     +--none is there--> untold --Subscribed-+
//     |                      |                |
//     +--none reads----------+--a second------+
//
// A signal that still waits in mountd counts as unreported, because the
// subscriber may end before it reads the signal. A connection that has ended
// reads nothing, even if mountd has not removed it yet. A signal that the
// kernel has taken for an open connection counts as reported.
//
// mountd may report a fence twice: if it is killed before it records the
// report, if a subscriber reads late, or if one subscribes while the fence
// ends.
//
// Runs on the loop's thread, except Recover; the store is read on a strand.
class FenceTeller {
 public:
  // The most fences that mountd reads from the store and reports at once.
  static constexpr std::size_t kAtOnce = 256;

  struct Parts {
    Loop& loop;
    Strands& strands;
    store::LeaseTable& fences;
  };
  struct Ways {
    // Sends the signal to all subscribers who may see it.
    std::function<void(const FenceRecord&)> tell_all;
    // Sends the signal to the subscribers of the lease's user alone.
    std::function<void(const FenceRecord&)> tell_user;
    std::function<bool(std::uint32_t uid)> has_subscriber;
    // Returns whether mountd has nothing left to send to some subscriber of the
    // user, because the kernel has taken all of it. Here and in has_subscriber,
    // a subscriber whose connection has ended does not count.
    std::function<bool(std::uint32_t uid)> has_reader;
  };
  FenceTeller(const Parts& parts, Ways ways)
      : parts_(parts), ways_(std::move(ways)) {}

  // Reads from the store which users have unreported fences. Blocks. Called
  // before the first subscriber can come.
  Result<void> Recover();
  // Reports a fence that is done according to the store.
  void Done(const FenceRecord& fence);
  // Reports the user's unreported fences. Called when the user has a new
  // subscriber.
  void Subscribed(std::uint32_t uid);
  // Returns how many users have unreported fences.
  std::size_t untold_count() const { return untold_.size(); }

 private:
  using Fences = std::vector<FenceRecord>;

  void TellSome(std::uint32_t uid);
  void HasListed(std::uint32_t uid, const Result<Fences>& some);
  void RecordWhenRead(std::uint32_t uid, const std::shared_ptr<Fences>& told);
  void HasRecorded(std::uint32_t uid, const Result<void>& recorded);
  // Tries again for the user in a second.
  void TellLater(std::uint32_t uid);

  const Parts parts_;
  const Ways ways_;
  std::set<std::uint32_t> untold_;  // users
  // The users whose fences are being reported. True if a subscriber came
  // meanwhile, so that the store must be read once more.
  std::map<std::uint32_t, bool> telling_;
  std::set<std::uint32_t> later_;  // users with a timer of TellLater
};

}  // namespace mountd
