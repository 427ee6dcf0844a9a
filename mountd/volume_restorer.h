// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <mutex>
#include <set>
#include <string>

#include "mountd/base/worker_pool.h"
#include "mountd/service.h"

namespace mountd {

// Has what a plugin published looked at when it may have died with it, and
// tasks' mounts of what was published anew repaired. From any thread; the work
// runs on strands. What a look that has not begun will see is not looked at
// twice: a plugin's end is told by each of its mounts.
class VolumeRestorer {
 public:
  VolumeRestorer(Strands& strands, csi::Volumes& volumes, Service& service)
      : strands_(strands), volumes_(volumes), service_(service) {}

  void Look(const std::string& plugin);

 private:
  Strands& strands_;
  csi::Volumes& volumes_;
  Service& service_;
  std::mutex mutex_;
  std::set<std::string> waiting_;  // mutex_; plugins
};

}  // namespace mountd
