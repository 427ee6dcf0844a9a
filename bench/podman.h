// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "mountd/base/result.h"

namespace mountd::bench {

// Rootless podman, with the network that Debian's podman has without options:
// slirp4netns, and rootlessport for the ports. Its storage, volumes and
// containers are beneath /run/bench. Any thread, and several at once.
class Podman {
 public:
  // Root calls this once: gives the ordinary user a home, /dev/net/tun as udev
  // leaves it, and a /dev/shm of the bench's own for podman's locks.
  // NotSupported, with the program's name, if podman or a program that podman
  // needs is missing.
  static Result<void> MakeHost();
  // The ordinary user calls this once: imports the image of the tasks.
  static Result<std::unique_ptr<Podman>> Make();
  Podman(const Podman&) = delete;
  Podman& operator=(const Podman&) = delete;
  // Calls StopAll, and ends the process that keeps podman's namespaces.
  ~Podman();

  // Runs a container as a task is: the same command, ports for TCP and UDP, a
  // new volume at /data and /more, and the host's /usr. Returns when the
  // command runs.
  Result<void> Start(const std::string& container,
                     const std::vector<std::uint16_t>& ports) const;
  // Removes the container and its volume.
  Result<void> Stop(const std::string& container) const;
  // Removes all containers and volumes.
  Result<void> StopAll() const;

  // Returns the version that `podman --version` prints.
  static std::string Version();

 private:
  Podman() = default;
};

}  // namespace mountd::bench
