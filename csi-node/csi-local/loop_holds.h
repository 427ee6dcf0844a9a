// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "mountd/base/unique_fd.h"

namespace mountd::csi_local {

// Keeps the devices open that are staged for block access. A task may ask the
// kernel to unbind its own device (LOOP_CLR_FD needs no right). While a process
// has the device open, the kernel only notes the request. So the number stays
// the volume's, and no other program gets a device that the task's node leads
// to. Thread-safe.
class LoopHolds {
 public:
  void Keep(const std::string& volume, UniqueFd device) {
    const std::lock_guard guard(mutex_);
    devices_[volume] = std::move(device);
  }
  void Drop(const std::string& volume) {
    const std::lock_guard guard(mutex_);
    devices_.erase(volume);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, UniqueFd> devices_;
};

}  // namespace mountd::csi_local
