// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <cstdint>
#include <string>

#include "agent/cni_plugin/failure.h"
#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"

namespace mountd::cni_plugin {

// The container's network namespace, as the runtime named it.
struct Netns {
  UniqueFd fd;
  std::uint64_t inode = 0;
};

// kUnknownContainer if nothing is there, kInvalidEnvironment if it is something
// else or cannot be opened.
Outcome<Netns> OpenNetns(const std::string& path);

// "02:4d:0a:58:00:02": of the interface in this process's namespace, or in the
// one that `netns` is. NotFound if there is no such interface, PermissionDenied
// if we may not look into the namespace. One thread only: it is elsewhere for a
// moment.
Result<std::string> MacOf(const std::string& interface, int netns = -1);

}  // namespace mountd::cni_plugin
