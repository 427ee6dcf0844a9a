// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "netns/cni/cgroup.h"
#include "netns/cni/options.h"

namespace mountd::cni {

// Reads the request from fd `in`, carries out the operation of the options, and
// writes the answer to fd `out`. Returns the exit status. Plugins run in
// `cgroup`. A readable `stop` ends the operation.
int RunOperation(const Options& options, const PluginCgroup& cgroup, int in,
                 int out, int stop);

}  // namespace mountd::cni
