// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agent/mountctl/check.h"
#include "mountd/base/error.h"

// What can be told of a node without mountd: also when that does not answer.
namespace mountd::agent {

// Whether mountd can be connected to, and if not, who the caller is.
struct SocketFacts {
  std::string path;            // or "org.mountd1", on the system bus
  std::optional<Error> error;  // of the connection; none: it is there
  std::string version;         // mountd's
  std::string user;            // the caller
  std::string group;           // which may connect; "": none but root's
  bool in_group = false;       // this process is
  bool listed = false;         // the user is, by the database of groups
};
Check CheckSocket(const SocketFacts& facts);

// One of mountd's units, as systemd tells.
struct UnitState {
  std::string name;
  std::string load;    // "loaded", "not-found", "masked"
  std::string active;  // "active", "inactive", "failed"
};
Check CheckUnit(const UnitState& unit);

// How later mounts travel between the host's root and others, by the mountinfo
// of the host's mount namespace (proc(5)).
Check CheckRootPropagation(std::string_view mountinfo);

// How near the mounts of the namespace are to what it may have (fs.mount-max).
// `reserve`: limits.mount_reserve.
Check CheckMountRoom(std::string_view mountinfo, std::uint64_t most,
                     std::uint64_t reserve);

// Whether the kernel forwards IPv4 packets. mountd turns that on with each
// network it makes; `used` are the addresses that allocations have.
Check CheckForwarding(bool forwards, std::uint64_t used);

}  // namespace mountd::agent
