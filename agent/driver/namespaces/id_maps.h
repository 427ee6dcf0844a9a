// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "agent/driver/namespaces/subordinate_ids.h"
#include "mountd/base/result.h"

// The maps of a rootless user namespace, user_namespaces(7).
namespace mountd::driver {

// One line of a map: `count` ids from `inside` on are those from `outside` on.
struct IdMapLine {
  std::uint32_t inside = 0;
  std::uint32_t outside = 0;
  std::uint32_t count = 0;

  friend auto operator<=>(const IdMapLine&, const IdMapLine&) = default;
};
using IdMap = std::vector<IdMapLine>;

// Maps 0 to the user's own id, and the ids from 1 on to the ranges in turn.
IdMap MapOf(std::uint32_t own, const std::vector<IdRange>& ranges);

// Returns the groups of net.ipv4.ping_group_range, icmp(7), as ids inside: from
// 0 to the group with the highest id on the host. The kernel compares the
// host's ids, so the range is 0 to 0 if the user's own group has the highest
// id.
std::pair<std::uint32_t, std::uint32_t> PingGroups(const IdMap& gids);

struct IdMaps {
  IdMap uids;
  IdMap gids;
  // Says why the maps have the user's own ids alone; else empty. A person reads
  // this text in the driver's fingerprint.
  std::string one_id_reason;

  bool one_id() const { return !one_id_reason.empty(); }
};

// The files that say which ids a user has, and the tools that map them.
struct IdSources {
  std::string subuid = "/etc/subuid";
  std::string subgid = "/etc/subgid";
  std::string newuidmap = "/usr/bin/newuidmap";
  std::string newgidmap = "/usr/bin/newgidmap";
};

// Returns the maps of the process's user: its own ids and all of its
// subordinate ids. The maps have the own ids alone where a tool, the user's
// name or ranges are missing. FailedPrecondition for root, because a
// container's root would be the host's, and for a process whose real and
// effective ids differ, because newuidmap(1) refuses such a process. Any
// thread.
Result<IdMaps> ChooseIdMaps(const IdSources& sources = {});

}  // namespace mountd::driver
