// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/worker_pool.h"
#include "mountd/mounts/mount_healths.h"
#include "mountd/plan/mount_executor.h"
#include "mountd/store/boot_store.h"

namespace mountd {

// Asks the file systems of attached mounts from time to time whether they
// answer. Makes one probe for each file system, not for each mount.
//
//   unknown --> healthy <--> dead (it says so: ENOTCONN, ESTALE, EIO, ...)
//      |           ^ |         |
//      +-----------+-+---> hung (no answer in timeouts.probe_answer_ms)
//
// Starts on the loop's thread. The strands and the loop outlive this object.
class MountProber {
 public:
  // Called from a worker for each mount whose file system's health changed. Not
  // called if the first probe finds the file system healthy.
  using OnChanged =
      std::function<void(const MountRecord& record, exec::MountHealth now,
                         const std::string& reason)>;

  struct Parts {
    Loop& loop;
    Strands& strands;
    exec::MountExecutor& executor;
    store::BootStore& store;
    MountHealths& healths;
  };

  MountProber(const Parts& parts, std::chrono::milliseconds pause,
              OnChanged on_changed)
      : parts_(parts), pause_(pause), on_changed_(std::move(on_changed)) {}

  void Start();

 private:
  // Runs on a worker, one round at a time.
  void Round();
  std::map<std::uint64_t, std::vector<MountRecord>> ByDevice(
      const std::vector<MountRecord>& records);
  void Probe(const std::vector<MountRecord>& same);

  const Parts parts_;
  const std::chrono::milliseconds pause_;
  const OnChanged on_changed_;
  std::map<std::uint64_t, std::uint64_t> devices_;  // by mount id
};

}  // namespace mountd
