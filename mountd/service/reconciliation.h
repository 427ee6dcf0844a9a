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
#include "mountd/executors/holder_report.h"
#include "mountd/store/records.h"

// The request and the answer of Reconcile.
namespace mountd {

// Enough even for a high limits.allocations_per_uid. The size of a D-Bus
// message allows less.
inline constexpr std::size_t kMaxWanted = 100'000;

struct ReconcileSpec {
  std::string scope;
  std::uint64_t epoch = 0;
  std::set<std::string> wanted;
  bool dry_run = false;
};

enum class ReconcileOutcome {
  kPresent,   // is kept
  kMissing,   // is wanted and does not exist
  kReleased,  // was not wanted and is removed
  kUnwanted,  // a dry run; would have been released
  kLive,      // was not wanted and is kept, because it has live processes
  kOwed,      // its release is pending
};

// Returns "present", "missing", "released", "unwanted", "live" or "owed".
std::string_view ReconcileOutcomeName(ReconcileOutcome outcome);

struct ReconcileEntry {
  std::string allocation;
  ReconcileOutcome outcome = ReconcileOutcome::kPresent;
  std::string reason;  // "" if there is none
  // kPresent: the parts that the agent must make again.
  std::vector<std::string> needs;
  std::optional<HolderReport> holders;  // kLive
};

// Remembers which allocations were prepared during a Reconcile. Thread-safe.
class PreparedMeanwhile {
 public:
  // Knows which allocations were prepared since its construction.
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

  // Notes that the allocation was prepared, if there is a Watch.
  void Note(const std::string& allocation);

 private:
  std::mutex mutex_;
  std::size_t watches_ = 0;                   // mutex_
  std::uint64_t last_ = 0;                    // mutex_
  std::map<std::string, std::uint64_t> all_;  // mutex_
};

// Runs `job` for each allocation on the allocation's strand, some at a time,
// and waits for all of them. Begins no further job once `stop` returns true.
// Runs on a worker, never on an allocation's strand.
void ForEachOnStrand(Strands& strands,
                     const std::vector<std::string>& allocations,
                     const std::function<bool()>& stop,
                     const std::function<void(std::size_t)>& job);

}  // namespace mountd
