// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "agent/mountctl/json.h"
#include "agent/types.h"

// Allocations' mounts as a tree, and how later mounts travel between them: who
// is in which peer group, and who receives from it.
namespace mountd::agent {

// A peer group that some mount is in, or follows (mount_namespaces(7)).
struct MountGroup {
  std::uint64_t id = 0;
  std::vector<std::string> sources;    // "host:shared", "web volume:data"
  std::vector<std::string> peers;      // "web/server/data": sends and receives
  std::vector<std::string> followers;  // receives
};

// By their ids.
std::vector<MountGroup> GroupsOf(const std::vector<AllocationStatus>& all);

enum class Lines { kUtf8, kAscii };
void PrintTree(std::ostream& out, const std::vector<AllocationStatus>& all,
               Lines lines);
Json TreeToJson(const std::vector<AllocationStatus>& all);

}  // namespace mountd::agent
