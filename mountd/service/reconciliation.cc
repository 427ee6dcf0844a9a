// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/service/reconciliation.h"

#include <condition_variable>
#include <memory>
#include <mutex>

#include "mountd/base/current_user.h"
#include "mountd/base/operation_trace.h"
#include "mountd/service/teardowns.h"

namespace mountd {
namespace {

// The most releases that a Reconcile runs at once, each on one thread. Releases
// that hang delay the others only if this many hang.
constexpr std::size_t kReleasesAtOnce = 8;

struct UnderWay {
  std::mutex mutex;
  std::condition_variable ended;
  std::size_t count = 0;  // guarded by `mutex`

  void AwaitLessThan(std::size_t bound) {
    std::unique_lock lock(mutex);
    ended.wait(lock, [&] { return count < bound; });
  }
};

}  // namespace

std::string_view ReconcileOutcomeName(ReconcileOutcome outcome) {
  switch (outcome) {
    case ReconcileOutcome::kPresent:
      return "present";
    case ReconcileOutcome::kMissing:
      return "missing";
    case ReconcileOutcome::kReleased:
      return "released";
    case ReconcileOutcome::kUnwanted:
      return "unwanted";
    case ReconcileOutcome::kLive:
      return "live";
    case ReconcileOutcome::kOwed:
      break;
  }
  return "owed";
}

PreparedMeanwhile::Watch::Watch(PreparedMeanwhile& all) : all_(all) {
  const std::lock_guard lock(all_.mutex_);
  ++all_.watches_;
  since_ = all_.last_;
}

PreparedMeanwhile::Watch::~Watch() {
  const std::lock_guard lock(all_.mutex_);
  if (--all_.watches_ == 0) {
    all_.all_.clear();
  }
}

bool PreparedMeanwhile::Watch::Has(const std::string& allocation) const {
  const std::lock_guard lock(all_.mutex_);
  const auto found = all_.all_.find(allocation);
  return found != all_.all_.end() && found->second > since_;
}

void PreparedMeanwhile::Note(const std::string& allocation) {
  const std::lock_guard lock(mutex_);
  if (watches_ != 0) {
    all_[allocation] = ++last_;
  }
}

void ForEachOnStrand(Strands& strands,
                     const std::vector<std::string>& allocations,
                     const std::function<bool()>& stop,
                     const std::function<void(std::size_t)>& job) {
  const auto under_way = std::make_shared<UnderWay>();
  const std::uint32_t uid = CurrentUser::Get();
  // The operation waits for these jobs, so its trace outlives them.
  OperationTrace* const trace = CurrentTrace::Get();
  for (std::size_t i = 0; i < allocations.size(); ++i) {
    under_way->AwaitLessThan(kReleasesAtOnce);
    if (stop()) {
      break;
    }
    {
      const std::lock_guard lock(under_way->mutex);
      ++under_way->count;
    }
    // `job` outlives every run, because this function waits for all of them.
    strands.Submit(AllocationStrand(allocations[i]),
                   [under_way, &job, i, uid, trace] {
                     const CurrentUser user(uid);
                     const CurrentTrace current(trace);
                     job(i);
                     const std::lock_guard lock(under_way->mutex);
                     --under_way->count;
                     under_way->ended.notify_all();
                   });
  }
  under_way->AwaitLessThan(1);
}

}  // namespace mountd
