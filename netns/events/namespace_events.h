// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "netns/events/events.h"

// Watches for namespaces that lose their name, for example by `ip netns del`.
// The kernel reports nothing while a process or a link keeps the namespace
// itself. But the name is a file, and a process that may list the directory may
// watch it.
namespace mountd::netns {

// Returns an inotify fd for ReadNamespaceEvents. The watch does not report a
// namespace that is only unmounted from its file.
Result<UniqueFd> WatchNamespaces(const std::string& directory);

// Reads all queued events and returns the names as `allocations`. Never blocks.
// The errors are those of read(2); NotFound if the directory itself is gone.
Result<LinkEvents> ReadNamespaceEvents(int watch);

}  // namespace mountd::netns
