// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "mountd/base/result.h"

// Capabilities of a container's processes, capabilities(7). They count in the
// container's user namespace alone.
namespace mountd::driver {

// The capabilities that a container has by default: those of podman
// (containers.conf(5), default_capabilities). These are Docker's without
// AUDIT_WRITE, MKNOD and NET_RAW.
const std::set<std::string>& DefaultCapabilities();

// Returns "CAP_NET_RAW" for "CAP_NET_RAW", "net_raw" and the like.
// InvalidArgument for the name of no capability.
Result<std::string> CapabilityName(std::string_view text);

// A task's wish, in the words of `--cap-add` and `--cap-drop`: names, or "all".
struct CapabilityChanges {
  std::vector<std::string> add;
  std::vector<std::string> drop;
};

struct TaskCapabilities {
  // All that a program of the task can ever have.
  std::set<std::string> bounding;
  // The capabilities that `add` names. A process of another user than root has
  // only these.
  std::set<std::string> added;
};

// Applies the changes to the default. If both lists have a capability, the
// result does not have it, because fewer capabilities are safer. A name in one
// list wins over "all" in the other.
Result<TaskCapabilities> CapabilitiesWith(const CapabilityChanges& changes);

}  // namespace mountd::driver
