// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mountctl/doctor/check.h"
#include "mountd/base/error.h"

// Checks that need no mountd, so that they work while mountd does not answer.
namespace mountd::agent {

// Tells whether mountd can be reached, and if not, who the caller is.
struct SocketFacts {
  std::string path;            // or "org.mountd1" on the system bus
  std::optional<Error> error;  // of connecting; absent if mountd answers
  std::string version;         // mountd's
  std::string user;            // the caller
  std::string group;           // which may connect; "": only root's group may
  bool in_group = false;       // this process is in the group
  bool listed = false;         // the user database lists the user in the group
};
Check CheckSocket(const SocketFacts& facts);

// One of mountd's units, as systemd reports it.
struct UnitState {
  std::string name;
  std::string load;    // "loaded", "not-found", "masked"
  std::string active;  // "active", "inactive", "failed"
};
Check CheckUnit(const UnitState& unit);

// Checks how later mounts propagate between the host's root and other mounts,
// from the mountinfo of the host's mount namespace (proc(5)).
Check CheckRootPropagation(std::string_view mountinfo);

// Checks how near the namespace's mounts are to their limit (fs.mount-max).
// `reserve` is limits.mount_reserve.
Check CheckMountRoom(std::string_view mountinfo, std::uint64_t most,
                     std::uint64_t reserve);

// Checks whether the kernel forwards IPv4 packets. mountd turns forwarding on
// with each network it makes. `used` is how many addresses allocations have.
Check CheckForwarding(bool forwards, std::uint64_t used);

}  // namespace mountd::agent
