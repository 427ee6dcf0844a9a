// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/owed_retrier.h"

#include <utility>

namespace mountd {
namespace {

OwedSummary SummaryOf(const std::vector<OwedRecord>& all) {
  OwedSummary summary;
  summary.count = static_cast<std::uint32_t>(all.size());
  // The records are in the order of their first failures. Their times may be in
  // another order, because somebody may have set the clock in between.
  summary.since_us = all.empty() ? 0 : all.front().since_us;
  return summary;
}

}  // namespace

OwedRetrier::OwedRetrier(Loop& loop, Strands& strands, NodeVerbs& node,
                         std::function<void(const OwedSummary&)> on_look)
    : RetryRounds(
          loop, strands,
          [&loop, &node,
           on_look = std::move(on_look)]() -> Result<std::vector<Job>> {
            // uid 0: all users' records
            MOUNTD_ASSIGN(const std::vector<OwedRecord> all,
                          node.ListOwed(CallContext{}));
            loop.Post(
                [on_look, summary = SummaryOf(all)] { on_look(summary); });
            std::vector<Job> jobs;
            for (const OwedRecord& owed : all) {
              jobs.push_back(
                  {std::to_string(owed.id), StrandOf(owed), [&node, owed] {
                     IgnoreBecauseBestEffort(node.RetryOwed(owed));
                   }});
            }
            return jobs;
          }) {}

VolumeSettler::VolumeSettler(Loop& loop, Strands& strands,
                             csi::Volumes& volumes)
    : RetryRounds(loop, strands, [&volumes]() -> Result<std::vector<Job>> {
        std::vector<Job> jobs;
        for (const csi::Volumes::Unsettled& one : volumes.ListUnsettled()) {
          jobs.push_back({one.allocation + "/" + one.alias,
                          AllocationStrand(one.allocation), [&volumes, one] {
                            IgnoreBecauseBestEffort(volumes.Settle(one));
                          }});
        }
        return jobs;
      }) {}

}  // namespace mountd
