// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/world.h"

namespace mountd::bench {

// One way to mount kVolume somewhere read-only, nosuid and nodev, so that later
// mounts in the source follow (rslave), and to unmount it. Includes the
// mountpoint.
class MountWay {
 public:
  virtual ~MountWay() = default;
  virtual const char* name() const = 0;
  virtual Result<void> Mount() = 0;
  virtual Result<void> Unmount() = 0;
};

// Calls mountd's BindMount and Unmount, by an unprivileged client over the
// socket. `volume` is "volume" or "plain".
std::unique_ptr<MountWay> ThroughMountd(agent::Client& client,
                                        const std::string& volume);
// Runs mount(8), mount(8) --make-rslave and umount(8) as processes.
std::unique_ptr<MountWay> ByPrograms();
// Calls libmount in this process.
std::unique_ptr<MountWay> ByLibmount();
// Makes the bare system calls, as few as possible.
std::unique_ptr<MountWay> BySystemCalls();
// Makes the same system calls. Source and mountpoint are plain directories of
// one shared mount, kNaive, as an agent's data directory usually is.
std::unique_ptr<MountWay> BySystemCallsNaively();
// Makes the cheapest calls: Mount is an empty call over the socket, Unmount an
// empty plan to an executor.
std::unique_ptr<MountWay> EmptyCalls(agent::Client& client, World& world);

}  // namespace mountd::bench
