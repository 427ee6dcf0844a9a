// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>

#include "netns/cni/cgroup.h"

namespace mountd::cni {

// Runs `body` in a child with a session of its own. Returns its exit status, or
// EXIT_FAILURE if the child was killed. There are two processes so that no
// plugin is left behind when SIGKILL ends either of them: the other one adopts
// what is left. If this process dies or gets SIGTERM, SIGINT or SIGHUP, the fd
// that `body` gets becomes readable; `body` must then kill what it runs, and
// end. Both processes end the cgroup.
//
// SIGPIPE is ignored in `body`.
int RunGuarded(const PluginCgroup& cgroup,
               const std::function<int(int stop)>& body);

}  // namespace mountd::cni
