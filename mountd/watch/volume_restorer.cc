// SPDX-License-Identifier: LGPL-2.1-or-later
#include "mountd/watch/volume_restorer.h"

#include <spdlog/spdlog.h>

namespace mountd {
namespace {

std::string VolumesStrand(const std::string& plugin) {
  return "volumes of plugin " + plugin;
}

}  // namespace

VolumeRestorer::VolumeRestorer(Loop& loop, Strands& strands,
                               csi::Volumes& volumes, VolumeVerbs& verbs)
    : strands_(strands),
      volumes_(volumes),
      verbs_(verbs),
      failed_(loop, strands) {}

void VolumeRestorer::Look(const std::string& plugin) {
  {
    const std::lock_guard lock(mutex_);
    if (!waiting_.insert(plugin).second) {
      return;
    }
  }
  strands_.Submit(VolumesStrand(plugin), [this, plugin] {
    {
      const std::lock_guard lock(mutex_);
      // Remove it before the look, because a request that comes during the look
      // needs another look.
      waiting_.erase(plugin);
    }
    LookNow(plugin);
  });
}

void VolumeRestorer::LookNow(const std::string& plugin) {
  failed_.Done(Restore(plugin), {"plugin " + plugin, VolumesStrand(plugin),
                                 [this, plugin] { LookNow(plugin); }});
}

bool VolumeRestorer::Restore(const std::string& plugin) {
  const Result<csi::Volumes::Restoration> outcome =
      volumes_.RestoreDead(plugin);
  if (!outcome) {
    spdlog::warn("restore: {}", outcome.error().Message());
    return false;
  }
  for (const PublicationRecord& one : outcome->restored) {
    spdlog::info("volume {}/{} is published again", one.allocation, one.alias);
    strands_.Submit(AllocationStrand(one.allocation),
                    [this, one] { Repair(one); });
  }
  return outcome->complete;
}

void VolumeRestorer::Repair(const PublicationRecord& published) {
  failed_.Done(RepairMounts(published),
               {published.allocation + "/" + published.alias,
                AllocationStrand(published.allocation),
                [this, published] { Repair(published); }});
}

bool VolumeRestorer::RepairMounts(const PublicationRecord& published) {
  const auto still = volumes_.Get(published.allocation, published.alias);
  if (still && !*still) {
    return true;  // the mounts ended with the publication
  }
  const Result<void> repaired = verbs_.RepairMountsOf(published);
  if (!repaired) {
    spdlog::warn("restore: {}", repaired.error().Message());
  }
  return repaired.has_value();
}

}  // namespace mountd
