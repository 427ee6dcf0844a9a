// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/volume_restorer.h"

#include <spdlog/spdlog.h>

namespace mountd {

void VolumeRestorer::Look(const std::string& plugin) {
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.insert(plugin).second) {
      return;
    }
  }
  strands_.Submit("volumes of plugin " + plugin, [this, plugin] {
    {
      const std::lock_guard lock(mutex_);
      waiting_.erase(plugin);
    }
    const Result<std::vector<PublicationRecord>> restored =
        volumes_.RestoreDead(plugin);
    if (!restored) {
      spdlog::warn("restore: {}", restored.error().Message());
      return;
    }
    for (const PublicationRecord& one : *restored) {
      spdlog::info("volume {}/{} is published anew", one.allocation, one.alias);
      strands_.Submit(AllocationStrand(one.allocation), [this, one] {
        if (const auto repaired = service_.RepairMountsOf(one); !repaired) {
          spdlog::warn("restore: {}", repaired.error().Message());
        }
      });
    }
  });
}

}  // namespace mountd
