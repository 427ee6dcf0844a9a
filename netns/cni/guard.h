// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>

#include "netns/cni/cgroup.h"

namespace mountd::cni {

// Runs `body` in a child with a session of its own. Returns the child's exit
// status, or EXIT_FAILURE if the child was killed. If SIGKILL ends one of the
// two processes, the other one adopts the plugins that are left and kills them.
// If this process dies or gets SIGTERM, SIGINT or SIGHUP, the fd that `body`
// gets becomes readable. Then `body` must kill what it runs, and end. Both
// processes end the cgroup.
//
// SIGPIPE is ignored in `body`.
int RunGuarded(const PluginCgroup& cgroup,
               const std::function<int(int stop)>& body);

}  // namespace mountd::cni
