// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/worker_pool.h"
#include "mountd/retry_rounds.h"
#include "mountd/service.h"

namespace mountd {

// Has what a plugin published looked at when it may have died with it, and
// tasks' mounts of what was published anew repaired. From any thread; the work
// runs on strands. What a look that has not begun will see is not looked at
// twice: a plugin's end is told by each of its mounts. What failed is tried
// again in rounds, until it succeeds or there is nothing to be done about it:
// the plugin may have been away just then, and nobody else would come back.
class VolumeRestorer {
 public:
  VolumeRestorer(Loop& loop, Strands& strands, csi::Volumes& volumes,
                 Service& service);

  void Look(const std::string& plugin);

 private:
  // On the strands of the plugin's volumes, and of the allocation.
  void LookNow(const std::string& plugin);
  void Repair(const PublicationRecord& published);
  // Whether all is well, from a worker.
  bool Restore(const std::string& plugin);
  bool RepairMounts(const PublicationRecord& published);
  // Forgets what went well; the rest is tried again.
  void Done(bool well, RetryRounds::Job again);
  std::vector<RetryRounds::Job> ListFailed();

  Loop& loop_;
  Strands& strands_;
  csi::Volumes& volumes_;
  Service& service_;
  std::mutex mutex_;
  std::set<std::string> waiting_;                   // mutex_; plugins
  std::map<std::string, RetryRounds::Job> failed_;  // mutex_; by what
  RetryRounds rounds_;
};

}  // namespace mountd
