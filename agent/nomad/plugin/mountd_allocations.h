// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <mutex>
#include <string>

#include "agent/client.h"
#include "agent/nomad/plugin/driver_source.h"

namespace mountd::nomad {

// The allocations at mountd. Any thread; one call at a time, so that no release
// of an ended task meets the start of the next one.
class MountdAllocations final : public Allocations {
 public:
  explicit MountdAllocations(agent::Client client)
      : client_(std::move(client)) {}

  Result<void> Prepare(const std::string& allocation) override;
  Result<void> MountHostVolumes(driver::TaskConfig* config) override;
  Result<void> UnmountHostVolumes(const std::string& allocation,
                                  const std::string& task) override;
  Result<void> ReleaseIfBare(const std::string& allocation) override;

 private:
  Result<void> PrepareLocked(const std::string& allocation);
  Result<void> ReleaseLocked(const std::string& allocation);

  std::mutex mutex_;
  agent::Client client_;
};

}  // namespace mountd::nomad
