// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/owed_retrier.h"

#include <utility>

namespace mountd {

OwedRetrier::OwedRetrier(Loop& loop, Strands& strands, Service& service,
                         std::function<void(std::uint32_t)> on_count)
    : RetryRounds(
          loop, strands,
          [&service]() -> Result<std::vector<Job>> {
            // uid 0: everybody's
            MOUNTD_ASSIGN(const std::vector<OwedRecord> all,
                          service.ListOwed(CallContext{}));
            std::vector<Job> jobs;
            for (const OwedRecord& owed : all) {
              jobs.push_back({StrandOf(owed), [&service, owed] {
                                IgnoreBecauseBestEffort(
                                    service.RetryOwed(owed));
                              }});
            }
            return jobs;
          },
          std::move(on_count)) {}

VolumeSettler::VolumeSettler(Loop& loop, Strands& strands,
                             csi::Volumes& volumes)
    : RetryRounds(
          loop, strands,
          [&volumes]() -> Result<std::vector<Job>> {
            std::vector<Job> jobs;
            for (const csi::Volumes::Unsettled& one : volumes.ListUnsettled()) {
              jobs.push_back(
                  {AllocationStrand(one.allocation), [&volumes, one] {
                     IgnoreBecauseBestEffort(volumes.Settle(one));
                   }});
            }
            return jobs;
          },
          [](std::uint32_t /*count*/) {}) {}

}  // namespace mountd
