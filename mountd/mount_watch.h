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
#include "mountd/exec/executor.h"
#include "mountd/mount_events.h"
#include "mountd/mount_room.h"
#include "mountd/mounts.h"
#include "mountd/store/boot_store.h"
#include "mountd/store/state_store.h"

namespace mountd {

// Notices when a mount of an allocation goes without mountd's doing: somebody
// unmounted it, or removed what it was mounted on in another namespace. Counts
// the host's mounts meanwhile; and those below plugins' directories whenever so
// many have come that a plugin may have too many.
//
//   Start --> arm (plan) --> compare (plan) --> read events --> ...
//                 ^             ^                 |     |
//                 |             +--- overflow ----+     |
//                 +---------- the fd has broken --------+
//
// From Linux 6.15 events say which mount it was; before, only that something
// changed, and all is compared, at most a few times a second. What has changed
// is looked at 50 ms later, with all that came meanwhile. What seems lost
// is looked at on its allocation's strand, so that what mountd itself is taking
// away is not. All is compared, too, when a mount is refused for want of room.
//
// Of the loop's thread; plans and the store are for workers. Outlives neither
// the strands nor the loop.
class MountWatch {
 public:
  // The record, lost now, and why. From a worker.
  using OnLost =
      std::function<void(const MountRecord& record, const std::string& reason)>;

  struct Parts {
    Loop& loop;
    Strands& strands;
    exec::Executor& executor;
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
  void Armed(exec::Executor::MountWatch& watch);
  void Watch();
  void OnReadable();
  bool Read();  // whether the fd still serves
  void Take(const MountEvents& events);
  void Apply(const MountEvent& event);
  // Asks for all mounts; what is recorded and not among them may be lost.
  void Compare();
  void Compared(const std::vector<std::uint64_t>& ids, std::uint64_t most);
  // From a worker.
  void CompareNow();
  // Once a second at most.
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
  bool again_ = false;  // when that has ended
  std::unordered_set<std::uint64_t> ids_;
  std::vector<MountEvent> meanwhile_;  // while they are listed
  bool counting_ = false;
  std::uint64_t changes_ = 0;  // since plugins' mounts were counted
  // Fewer changes cannot have brought any plugin to its limit.
  std::uint64_t harmless_ = 0;
};

}  // namespace mountd
