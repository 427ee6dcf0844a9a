// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "agent/mountd-cni/failure.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::cni_plugin {

// The container's network namespace, which the runtime names by a path.
struct Netns {
  UniqueFd fd;
  std::uint64_t inode = 0;
};

// kUnknownContainer if nothing is at the path, kInvalidEnvironment if the file
// is no network namespace or cannot be opened.
Outcome<Netns> OpenNetns(const std::string& path);

// Returns the MAC address, as "02:4d:0a:58:00:02", of the interface in the
// namespace `netns`, or in this process's own if `netns` is -1. NotFound if
// there is no such interface, PermissionDenied if this user may not enter the
// namespace. Call while the process has only one thread, because that thread
// enters the namespace for a moment.
Result<std::string> MacOf(const std::string& interface, int netns = -1);

}  // namespace mountd::cni_plugin
