// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "agent/mountctl/output/json.h"
#include "agent/types.h"

// Shows allocations' mounts as a tree, and how later mounts propagate between
// them: which mounts are in which peer group, and which mounts receive from it.
namespace mountd::agent {

// A peer group that a mount is in or receives from (mount_namespaces(7)).
struct MountGroup {
  std::uint64_t id = 0;
  std::vector<std::string> sources;  // "host:shared", "web volume:data"
  std::vector<std::string> peers;  // "web/server/data": these send and receive
  std::vector<std::string> followers;  // these receive
};

// Returns the groups in the order of their ids.
std::vector<MountGroup> GroupsOf(const std::vector<AllocationStatus>& all);

enum class Lines { kUtf8, kAscii };
void PrintTree(std::ostream& out, const std::vector<AllocationStatus>& all,
               Lines lines);
Json TreeToJson(const std::vector<AllocationStatus>& all);

}  // namespace mountd::agent
