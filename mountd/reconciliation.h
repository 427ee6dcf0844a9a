// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"
#include "mountd/base/worker_pool.h"
#include "mountd/holders.h"
#include "mountd/store/records.h"

// What Reconcile compares, and answers.
namespace mountd {

// Room for limits.allocations_per_uid as it is configured where it is high; the
// message's own bound comes before.
inline constexpr std::size_t kMaxWanted = 100'000;

struct ReconcileSpec {
  std::string scope;
  std::uint64_t epoch = 0;
  std::set<std::string> wanted;
  bool dry_run = false;
};

enum class ReconcileOutcome {
  kPresent,   // is kept
  kMissing,   // is wanted, and not there
  kReleased,  // was not wanted, and has gone
  kUnwanted,  // would have been released (dry run)
  kLive,      // was not wanted, and is kept for what lives of it
  kOwed,      // is being released, and not wholly gone
};

// "present", "missing", "released", "unwanted", "live", "owed".
std::string_view ReconcileOutcomeName(ReconcileOutcome outcome);

struct ReconcileEntry {
  std::string allocation;
  ReconcileOutcome outcome = ReconcileOutcome::kPresent;
  std::string reason;              // "" where there is nothing to say
  std::vector<std::string> needs;  // of one that is present: to be made again
  std::optional<HolderReport> holders;  // of one that is live
};

// Which allocations were prepared while a Reconcile is under way. Thread-safe.
class PreparedMeanwhile {
 public:
  // Looks from its making on.
  class Watch {
   public:
    explicit Watch(PreparedMeanwhile& all);
    ~Watch();
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;
    bool Has(const std::string& allocation) const;

   private:
    PreparedMeanwhile& all_;
    std::uint64_t since_ = 0;
  };

  // Kept for as long as anybody looks.
  void Note(const std::string& allocation);

 private:
  std::mutex mutex_;
  std::size_t watches_ = 0;                   // mutex_
  std::uint64_t last_ = 0;                    // mutex_
  std::map<std::string, std::uint64_t> all_;  // mutex_
};

// Runs `job` for each allocation on its strand, some at a time, and waits for
// all of them; none is begun any more once `stop` says so. On a worker, outside
// of any allocation's strand.
void ForEachOnStrand(Strands& strands,
                     const std::vector<std::string>& allocations,
                     const std::function<bool()>& stop,
                     const std::function<void(std::size_t)>& job);

}  // namespace mountd
