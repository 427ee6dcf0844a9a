// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "mountd/base/loop.h"
#include "mountd/base/retry_rounds.h"
#include "mountd/base/worker_pool.h"
#include "mountd/service/volume_verbs.h"

namespace mountd {

// Restores volumes that may have died with their plugin, and repairs tasks'
// mounts of volumes that were published again. Callable from any thread; work
// runs on strands. Each mount reports a plugin's end, so one queued look serves
// all requests that come before it. Retries failed work in rounds until it
// succeeds or there is none left, because the plugin may have been away and no
// further event would follow.
class VolumeRestorer {
 public:
  VolumeRestorer(Loop& loop, Strands& strands, csi::Volumes& volumes,
                 VolumeVerbs& verbs);

  void Look(const std::string& plugin);

 private:
  // These run on the strand of the plugin's volumes, and on the allocation's
  // strand.
  void LookNow(const std::string& plugin);
  void Repair(const PublicationRecord& published);
  // These return whether nothing is left to retry. Run on a worker.
  bool Restore(const std::string& plugin);
  bool RepairMounts(const PublicationRecord& published);

  Strands& strands_;
  csi::Volumes& volumes_;
  VolumeVerbs& verbs_;
  std::mutex mutex_;
  std::set<std::string> waiting_;  // mutex_; plugins
  FailedJobs failed_;
};

}  // namespace mountd
