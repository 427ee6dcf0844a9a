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

// Owns the knowledge which users have still to be told that fences are done.
// Tells each fence to a subscriber of its lease's user at least once. The store
// knows which fences mountd has told, so the user's next subscriber also hears
// of a fence that ended before a kill of mountd, or while the agent was away.
//
//   done --a subscriber of the user reads--> told --> recorded
//     |                                       ^
//     +--none is there--> untold --Subscribed-+
//     |                      |                |
//     +--none reads----------+--a second------+
//
// A signal that waits in mountd for a subscriber to read counts as not told,
// because the subscriber may end before. A connection that has ended takes
// nothing, also before mountd removes the connection. A signal that the kernel
// has taken for an open connection counts as told. A kill between the signal
// and its record, a subscriber that reads late, and one that comes while the
// fence ends make mountd tell a fence twice.
//
// Runs on the loop's thread, except Recover; the store is read on a strand.
class FenceTeller {
 public:
  // How many fences mountd reads from the store, and tells, at once.
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
    // Returns whether a subscriber of the user has taken all that was sent. A
    // subscriber whose connection has ended is none, here and above.
    std::function<bool(std::uint32_t uid)> has_reader;
  };
  FenceTeller(const Parts& parts, Ways ways)
      : parts_(parts), ways_(std::move(ways)) {}

  // Learns from the store who has still to be told. Blocks. Before the first
  // subscriber can come.
  Result<void> Recover();
  // Tells a fence that the store has as done.
  void Done(const FenceRecord& fence);
  // Tells the new subscriber's user what the user has still to be told.
  void Subscribed(std::uint32_t uid);
  // Returns how many users have still to be told something.
  std::size_t untold_count() const { return untold_.size(); }

 private:
  using Fences = std::vector<FenceRecord>;

  void TellSome(std::uint32_t uid);
  void HasListed(std::uint32_t uid, const Result<Fences>& some);
  void RecordWhenRead(std::uint32_t uid, const std::shared_ptr<Fences>& told);
  void HasRecorded(std::uint32_t uid, const Result<void>& recorded);
  // Tells the user once more in a second.
  void TellLater(std::uint32_t uid);

  const Parts parts_;
  const Ways ways_;
  std::set<std::uint32_t> untold_;  // users
  // The users whose fences are being told now. True if a subscriber came
  // meanwhile, so that the store has to be read once more.
  std::map<std::uint32_t, bool> telling_;
  std::set<std::uint32_t> later_;  // users with a timer of TellLater
};

}  // namespace mountd
