// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <memory>
#include <string>

#include "bench/world.h"

namespace mountd::bench {

// One way to have kVolume mounted somewhere read-only, nosuid, nodev, following
// later mounts in the source (rslave), and to have it away again; including the
// mountpoint.
class MountWay {
 public:
  virtual ~MountWay() = default;
  virtual const char* name() const = 0;
  virtual Result<void> Mount() = 0;
  virtual Result<void> Unmount() = 0;
};

// BindMount and Unmount of mountd, by an unprivileged client over the socket.
// `volume` is "volume" or "plain".
std::unique_ptr<MountWay> ThroughMountd(agent::Client& client,
                                        const std::string& volume);
// mount(8), mount(8) --make-rslave and umount(8), as processes.
std::unique_ptr<MountWay> ByPrograms();
// libmount in this process.
std::unique_ptr<MountWay> ByLibmount();
// The bare system calls, as few as there can be.
std::unique_ptr<MountWay> BySystemCalls();
// The same where source and mountpoint are plain directories of one shared
// mount, kNaive, as an agent's data directory is.
std::unique_ptr<MountWay> BySystemCallsNaively();
// The least that any call costs: Mount is an empty one over the socket, Unmount
// an empty plan to an executor.
std::unique_ptr<MountWay> EmptyCalls(agent::Client& client, World& world);

}  // namespace mountd::bench
