// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <string>

#include "mountd/base/result.h"
#include "mountd/base/unique_fd.h"
#include "netns/events.h"

// That a namespace has lost its name, as `ip netns del` does it, is told by
// nobody while a process or a link keeps the namespace itself. But the name is
// a file, and who may list the directory may watch it.
namespace mountd::netns {

// An inotify fd for ReadNamespaceEvents. A namespace that is unmounted from its
// file alone is not told.
Result<UniqueFd> WatchNamespaces(const std::string& directory);

// All that is queued, as `allocations`. Nothing here blocks. Errors: read's;
// NotFound if the directory itself is gone.
Result<LinkEvents> ReadNamespaceEvents(int watch);

}  // namespace mountd::netns
