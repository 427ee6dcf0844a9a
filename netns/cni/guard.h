// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include <functional>

#include "netns/cni/cgroup.h"

namespace mountd::cni {

// Runs `body` in a child with a session of its own, and answers its exit
// status; EXIT_FAILURE if it was killed. Two processes, so that no plugin is
// left behind when one of them dies by SIGKILL, whichever: they adopt what it
// leaves. If this process dies, or SIGTERM, SIGINT or SIGHUP comes, the fd that
// `body` is given becomes readable: it has to kill what it runs, and end. The
// cgroup is ended by both.
//
// SIGPIPE is ignored in `body`.
int RunGuarded(const PluginCgroup& cgroup,
               const std::function<int(int stop)>& body);

}  // namespace mountd::cni
