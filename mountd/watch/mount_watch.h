// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <unordered_set>
#include <vector>

#include "mountd/base/loop.h"
#include "mountd/base/worker_pool.h"
#include "mountd/mounts/mount_room.h"
#include "mountd/mounts/mounts.h"
#include "mountd/plan/mount_executor.h"
#include "mountd/store/boot_store.h"
#include "mountd/store/state_store.h"
#include "mountd/watch/mount_events.h"

namespace mountd {

// Notices when somebody else removes a mount of an allocation: by an unmount,
// or by removing the mount point in another namespace. Also counts the host's
// mounts. Counts the mounts below plugins' directories whenever so many new
// mounts have come that a plugin may have too many.
//
//   Start --> arm (plan) --> compare (plan) --> read events --> ...
//                 ^             ^                 |     |
//                 |             +--- overflow ----+     |
//                 +---------- the fd has broken --------+
//
// From Linux 6.15 events name the mount. Older kernels only say that something
// changed, and mountd then compares all mounts, a few times a second at most.
// mountd handles changes 50 ms after the first one, together with those that
// came meanwhile. mountd checks a missing mount on the allocation's strand, so
// that a mount that mountd itself removes does not count. mountd also compares
// all mounts when it refuses a mount for lack of room.
//
// Runs on the loop's thread; plans and the store run on workers. The strands
// and the loop outlive this object.
class MountWatch {
 public:
  // Called from a worker with the lost mount's record and the reason.
  using OnLost =
      std::function<void(const MountRecord& record, const std::string& reason)>;

  struct Parts {
    Loop& loop;
    Strands& strands;
    exec::MountExecutor& executor;
    store::StateStore& state;
    store::BootStore& store;
    Mounts& mounts;
    MountRoom& room;
  };

  MountWatch(const Parts& parts, OnLost on_lost)
      : parts_(parts), on_lost_(std::move(on_lost)) {}

  void Start() {
    parts_.room.WhenFull([this] { parts_.loop.Post([this] { Compare(); }); });
    Arm();
  }

 private:
  void Arm();
  void Armed(exec::MountExecutor::MountWatch& watch);
  void Watch();
  void OnReadable();
  bool Read();  // false: the fd is broken
  void Take(const MountEvents& events);
  void Apply(const MountEvent& event);
  // Asks for all mounts. A recorded mount that is missing may be lost.
  void Compare();
  void Compared(const std::vector<std::uint64_t>& ids, std::uint64_t most);
  // Runs on a worker.
  void CompareNow();
  // Counts at most once a second.
  void CountPlugins();
  void CountPluginsNow();
  void LookFor(const std::vector<std::uint64_t>& ids);
  void Confirm(const MountRecord& record);

  const Parts parts_;
  const OnLost on_lost_;
  UniqueFd fd_;
  bool tells_ids_ = false;
  std::unique_ptr<Loop::Source> source_;
  bool comparing_ = false;
  bool again_ = false;  // compare again when the present comparison ends
  std::unordered_set<std::uint64_t> ids_;
  std::vector<MountEvent> meanwhile_;  // events since the list was requested
  bool counting_ = false;
  std::uint64_t changes_ = 0;  // since the last count of plugins' mounts
  // This number of changes cannot bring any plugin to its limit.
  std::uint64_t harmless_ = 0;
};

}  // namespace mountd
