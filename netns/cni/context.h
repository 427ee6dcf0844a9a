// SPDX-License-Identifier: LGPL-2.1-or-later
#pragma once

#include "netns/cni/deadline.h"
#include "netns/cni/options.h"
#include "netns/cni/plugin_programs.h"

namespace mountd::cni {

// Holds what all operations of one run have in common.
struct Context {
  const Options& options;
  const PluginPrograms& plugins;
  Deadline deadline;
  int stop = -1;
};

}  // namespace mountd::cni
